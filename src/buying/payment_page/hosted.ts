/**
 * Handles payments on the rail's own page (decisions P5, P6, P8): the verification charge if nothing is due, continuing an open payment,
 * and the status check when the buyer returns.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { VERIFICATION_KOBO } from "../../base/money.ts"
import { type ChargeRow, chargeLifecycle, newCharge } from "../../billing/charge/charge.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { nameMethod } from "../../billing/payment_method/paymentMethods.ts"
import { commitAttempts } from "../../billing/payments/commitAttempts.ts"
import { queueBuyerStatusCheck } from "../../billing/payments/statusChecks.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { Rails } from "../../rails/rail/Rails.ts"
import { created } from "../../runtime/outcome.ts"
import { pageWaitingLimit, waitForCharge } from "./settled.ts"
import type { Submission } from "./submission.ts"

interface Verified {
  readonly customer: CustomerRow
  readonly rail: OutsideRail
  /** The page on which it is made: a checkout session or a nudge. */
  readonly pageId: string
  /** The hash of the form's submission number. */
  readonly submission: string | null
  readonly now: number
}

/** Builds a verification charge: the rail saves a payment method with it, and it is refunded immediately (decision P8). */
export const newVerification = Effect.fnUntraced(function* ({ customer, rail, pageId, submission, now }: Verified) {
  const { id: runner } = yield* ProcessLease
  return newCharge({
    ...tenantOf(customer),
    customer_id: customer.id,
    subscription_id: null,
    test_clock_id: null,
    bill_no: null,
    attempt_number: 1,
    amount_kobo: VERIFICATION_KOBO,
    period_start_at: null,
    period_end_at: null,
    lines: [],
    purpose: "verification",
    hosted: true,
    payment_method: null,
    payment_method_named: false,
    retry_of: null,
    page_id: pageId,
    submission,
    rail,
    sent_at: now,
    runner,
    description: null,
    metadata: {},
    created_at: now,
  })
})

/** Starts {@link newVerification}. */
export const verify = Effect.fnUntraced(function* (verified: Verified) {
  const charge = yield* newVerification(verified)
  yield* commitAttempts([created(chargeLifecycle, undefined, charge)], [charge])
  return charge
})

/** Counts the payments that were started on each of these pages, by page ID. */
export const countTries = Effect.fnUntraced(function* (pages: ReadonlyArray<Ref>) {
  if (pages.length === 0) return new Map<string, number>()
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ id: string; n: number }>`
    SELECT r.id, c.n FROM ${rowsAsTable(pages, REF_COLUMNS)} r CROSS JOIN LATERAL (
      SELECT count(*) AS n FROM charge WHERE (account_id, livemode, page_id) = (r.account_id, r.livemode, r.id)
    ) c`
  return new Map(rows.map(({ id, n }) => [id, n]))
})

/** Adds the typed e-mail address, which the rail needs, to a customer without one. The customer is locked. */
export const withEmail = Effect.fnUntraced(function* (customer: CustomerRow, email: string | null) {
  if (email === null || customer.email !== null) return customer
  const updated = { ...customer, email }
  ;(yield* unitOfWork).update(customers, [{ before: customer, after: updated }])
  return updated
})

/** Returns the ID of the chosen payment method; null: the buyer enters one on the rail's own page. */
export const methodOf = Effect.fnUntraced(function* (
  customer: CustomerRow,
  { methodId, simulated }: Submission,
  now: number,
) {
  return methodId === null ? null : (yield* nameMethod(customer, methodId, "payment_method", now, simulated)).id
})

/** Returns the rail's own page while the buyer may pay there. null: there is none, or the buyer has returned and the rail has a payment. */
export const openPageOf = ({ status, page_url, page, not_found }: ChargeRow): string | null =>
  status === "pending" && page !== null && (!page.returned || not_found > 0) ? page_url : null

/** Returns the origins of a rail's own page: https anywhere, and http for a rail that runs on this machine. */
export const originsOf = (rail: OutsideRail) =>
  Effect.map(Rails, ({ origin }) => [
    ...new Set(["https:", ...[origin(rail)].filter((one) => one.startsWith("http:"))]),
  ])

/** The shortest time between two status checks that visits of a page cause. */
const LOOK_AGAIN_MS = 5_000
const MAX_REMEMBERED = 10_000

/** When this process last checked each charge because of a visit. */
const checkedAt = new Map<string, number>()

/** Whether enough time has passed for another check. */
const isTime = (id: string): boolean => {
  const now = performance.now()
  if (now - (checkedAt.get(id) ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS) return false
  if (checkedAt.size >= MAX_REMEMBERED) checkedAt.clear()
  checkedAt.set(id, now)
  return true
}

/** Checks a payment with its rail, because the buyer returned from the rail's page or looked at ours. Waits for the answer. */
export const checkWithRail = Effect.fnUntraced(function* (tenant: Tenant, charge: ChargeRow, returned: boolean) {
  if (charge.status !== "pending" || !charge.hosted) return
  const isBack = returned && charge.page?.returned === false
  if (!isTime(charge.id) && !isBack) return
  const { writing } = yield* TenantDatabase
  yield* writing(tenant, queueBuyerStatusCheck(refOf(charge), returned))
  yield* waitForCharge(tenant, charge.id, pageWaitingLimit())
})
