/**
 * Payments that buyers make on the rail's own page (decisions P5, P6, P8): what is charged there where nothing is due, how
 * one that is open is gone on with, and what is asked when the buyer comes back.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { VERIFICATION_KOBO } from "../../base/money.ts"
import { type ChargeRow, chargeLifecycle, newCharge } from "../../billing/charge/charge.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import { nameMethod } from "../../billing/payment_method/paymentMethods.ts"
import { commitAttempts } from "../../billing/payments/commitAttempts.ts"
import { askForBuyer } from "../../billing/payments/statusChecks.ts"
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
  /** The page that it is made on: a checkout session, or a nudge. */
  readonly pageId: string
  /** The hash of what numbers the form. */
  readonly submission: string | null
  readonly now: number
}

/** A payment by which the rail saves a payment method, and which is sent back at once (decision P8). */
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

/** Begins {@link newVerification}. */
export const verify = Effect.fnUntraced(function* (verified: Verified) {
  const charge = yield* newVerification(verified)
  yield* commitAttempts([created(chargeLifecycle, undefined, charge)], [charge])
  return charge
})

/** How many payments were begun on each of these pages, by their IDs. */
export const countTries = Effect.fnUntraced(function* (pages: ReadonlyArray<Ref>) {
  if (pages.length === 0) return new Map<string, number>()
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ id: string; n: number }>`
    SELECT r.id, c.n FROM ${rowsAsTable(pages, REF_COLUMNS)} r CROSS JOIN LATERAL (
      SELECT count(*) AS n FROM charge WHERE (account_id, livemode, page_id) = (r.account_id, r.livemode, r.id)
    ) c`
  return new Map(rows.map(({ id, n }) => [id, n]))
})

/** A known customer's e-mail address, which the rail needs and the buyer has typed. The customer is locked. */
export const withEmail = Effect.fnUntraced(function* (customer: CustomerRow, email: string | null) {
  if (email === null || customer.email !== null) return customer
  const told = { ...customer, email }
  ;(yield* unitOfWork).update(customers, [{ before: customer, after: told }])
  return told
})

/** The payment method that was chosen; null: one that the buyer gives on the rail's own page. */
export const methodOf = Effect.fnUntraced(function* (
  customer: CustomerRow,
  { methodId, simulated }: Submission,
  now: number,
) {
  return methodId === null ? null : (yield* nameMethod(customer, methodId, "payment_method", now, simulated)).id
})

/**
 * The rail's own page, while a payment may be made on it; null: there is none, or the buyer has come back from it, and the rail knows of
 * something that was done there.
 */
export const openPageOf = ({ status, page_url, page, not_found }: ChargeRow): string | null =>
  status === "pending" && page !== null && (!page.returned || not_found > 0) ? page_url : null

/** Where a rail's own page may be: anywhere with https, or, of a rail that runs on this machine, beside it. */
export const originsOf = (rail: OutsideRail) =>
  Effect.map(Rails, ({ origin }) => [
    ...new Set(["https:", ...[origin(rail)].filter((one) => one.startsWith("http:"))]),
  ])

/** How soon a rail is asked again because somebody looks at a page. */
const LOOK_AGAIN_MS = 5_000
const MAX_REMEMBERED = 10_000

/** Charges that were asked about for somebody who looked, by this process, and when. */
const asked = new Map<string, number>()

/** Whether it is time to ask again. */
const isTime = (id: string): boolean => {
  const now = performance.now()
  if (now - (asked.get(id) ?? Number.NEGATIVE_INFINITY) < LOOK_AGAIN_MS) return false
  if (asked.size >= MAX_REMEMBERED) asked.clear()
  asked.set(id, now)
  return true
}

/**
 * Has the rail asked what became of a payment, because the buyer has come back from its page or looks how things stand; waits
 * for its answer.
 */
export const lookInto = Effect.fnUntraced(function* (tenant: Tenant, charge: ChargeRow, returned: boolean) {
  if (charge.status !== "pending" || !charge.hosted) return
  const isBack = returned && charge.page?.returned === false
  if (!isTime(charge.id) && !isBack) return
  const { writing } = yield* TenantDatabase
  yield* writing(tenant, askForBuyer(refOf(charge), returned))
  yield* waitForCharge(tenant, charge.id, pageWaitingLimit())
})
