/** Whose page it is, and in which world: what every page on which buyers pay begins with. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { findAccount } from "../account/accounts.ts"
import { isRef, ofTenant, type Ref, type Tenant } from "../db/tenant.ts"
import type { Setting } from "../pages/views.ts"
import { type Problem, problem } from "../problem.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { isOutside, type OutsideRail } from "../rail/Rail.ts"
import { currentTime } from "../wallClock.ts"

/** Methods to choose from: a buyer has one or two, a sandbox customer many. */
const MAX_SAVED = 6

/** Whether simulated payments may stand in for real ones in live: in development only. */
export class LiveSimulation extends Context.Service<LiveSimulation, { readonly allowed: boolean }>()(
  "billing/paying/LiveSimulation",
) {}

const NOT_SET_UP = problem("live_access_required", "This merchant is not set up to take payments here yet.")
const SUSPENDED = problem("live_access_required", "This merchant cannot take payments at the moment.")

/** `refusal`: why the merchant can take no payment; null: it can. */
export interface PaymentSetting extends Setting {
  /** The rail on whose own page buyers go on (decision P5); null: it takes test cards here. */
  readonly hostedBy: OutsideRail | null
  readonly refusal: Problem | null
}

/** The setting of a page of this merchant. `clockId`: the customer's. */
export const settingOf = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
  const sql = yield* SqlClient.SqlClient
  const account = yield* findAccount(tenant.account_id)
  const rail = tenant.livemode ? account!.rail : "simulator"
  const hostedBy = isOutside(rail) ? rail : null
  const simulated = hostedBy === null
  const isSetUp = !tenant.livemode || !simulated || (yield* LiveSimulation).allowed
  const [clock] =
    clockId === null
      ? []
      : yield* sql<{ frozen_at: number }>`
          SELECT frozen_at FROM test_clock WHERE ${isRef(sql, { ...tenant, id: clockId })}`
  return {
    business: account!.business_name,
    simulated,
    hostedBy,
    now: clock?.frozen_at ?? currentTime(),
    onTestClock: clock !== undefined,
    refusal: tenant.livemode && account!.live_access !== "approved" ? SUSPENDED : isSetUp ? null : NOT_SET_UP,
  } satisfies PaymentSetting
})

/** The customer's payment methods, the newest first. */
export const savedMethods = Effect.fnUntraced(function* (customer: Ref) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<PaymentMethodSummary>`
    SELECT id, type, brand, last4, bank_name, exp_month, exp_year FROM payment_method
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} ORDER BY attached_no DESC LIMIT ${MAX_SAVED}`
})
