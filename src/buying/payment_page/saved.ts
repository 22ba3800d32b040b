/** Reads the payment methods that pages offer a customer: those that can pay, judged by their newest payments. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS } from "../../base/time.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { ofTenant, type Ref } from "../../db/tenant.ts"
import type { SavedMethod } from "../../pages/views.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { MAX_ATTEMPTS } from "./checks.ts"
import { isUnusable } from "./declines.ts"

/** Most methods to choose from: a buyer has one or two, a sandbox customer many. */
const MAX_SAVED = 6

/** Newest payments of a customer to look at: as many as one page allows. */
const MAX_PAYMENTS = MAX_ATTEMPTS

/** How long pages hide a method after a decline on a page: by the next day there may be money on the account. */
const JUST_DECLINED_MS = DAY_MS

type Payment = Pick<ChargeRow, "status" | "failure_code" | "page_id" | "created_at"> & { readonly method_id: string }

/**
 * Finds the methods whose newest payment was declined, and when. Also returns which to hide: those just declined on a page, and those that
 * cannot pay later either. `payments`: the oldest first. Pure.
 */
const declinedAmong = (payments: ReadonlyArray<Payment>, now: number) => {
  const newest = new Map(payments.map((one) => [one.method_id, one]))
  const declined = [...newest.values()].filter(({ status }) => status === "failed")
  const justTried = new Set(
    payments
      .filter(({ page_id, status }) => page_id !== null && status === "failed")
      .filter(({ created_at }) => now - created_at < JUST_DECLINED_MS)
      .map(({ method_id }) => method_id),
  )
  return {
    at: new Map(declined.map(({ method_id, created_at }) => [method_id, created_at])),
    hidden: declined
      .filter(({ method_id, failure_code }) => justTried.has(method_id) || isUnusable(failure_code))
      .map(({ method_id }) => method_id),
  }
}

/** Reads the customer's payment methods to choose from, the newest first. `now`: in the customer's clock. */
export const savedMethods = Effect.fnUntraced(function* (customer: Ref, now: number) {
  const sql = yield* SqlClient.SqlClient
  const payments = yield* sql<Payment>`
    SELECT payment_method->>'id' AS method_id, status, failure_code, page_id, created_at FROM (
      SELECT * FROM charge WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} ORDER BY id DESC LIMIT ${MAX_PAYMENTS}
    ) c WHERE payment_method IS NOT NULL ORDER BY id`
  const { at, hidden } = declinedAmong(payments, now)
  const rows = yield* sql<PaymentMethodSummary>`
    SELECT id, type, brand, last4, bank_name, exp_month, exp_year FROM payment_method
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND NOT id = ANY(${hidden}::text[])
    ORDER BY attached_no DESC LIMIT ${MAX_SAVED}`
  return rows.map((row): SavedMethod => ({ ...row, declinedAt: at.get(row.id) ?? null }))
})
