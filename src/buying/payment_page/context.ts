/** Reads the context of every page on which buyers pay: the merchant, the environment and the clock. */
import { Context, Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type Problem, problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isRef, type Tenant } from "../../db/tenant.ts"
import { findAccount } from "../../merchants/account/accounts.ts"
import type { PageContext } from "../../pages/views.ts"
import { isOutside, type OutsideRail } from "../../rails/rail/Rail.ts"

/** Whether simulated payments may replace real ones in live: only in development. */
export class LiveSimulation extends Context.Service<LiveSimulation, { readonly allowed: boolean }>()(
  "billing/buying/payment_page/LiveSimulation",
) {}

const NOT_SET_UP = problem("live_access_required", "This merchant is not set up to take payments here yet.")
const SUSPENDED = problem("live_access_required", "This merchant cannot take payments at the moment.")

/** The context of a payment page. `refusal`: why the merchant can take no payment; null: it can. */
export interface PaymentContext extends PageContext {
  /** The rail on whose own page buyers pay (decision P5); null: this page takes test cards. */
  readonly hostedBy: OutsideRail | null
  readonly refusal: Problem | null
}

/** Reads the context of a page of this merchant. `clockId`: the customer's. */
export const contextOf = Effect.fnUntraced(function* (tenant: Tenant, clockId: string | null) {
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
  } satisfies PaymentContext
})
