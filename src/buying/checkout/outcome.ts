/** Builds the outcome of a checkout session's transition: its row and its event. Pure. */
import { allParamsOf } from "../../../machines/decide.ts"
import type { Tenant } from "../../db/tenant.ts"
import { type NewEvent, previousAttributes } from "../../outbound/event/events.ts"
import { rowAfter } from "../../runtime/lifecycle.ts"
import { type Outcome, transitioned } from "../../runtime/outcome.ts"
import { checkoutLifecycle, renderSession, type SessionRow, type SessionTransition } from "./checkout.ts"

/** The columns of a session that its machine does not set. */
export type Notes = Partial<
  Pick<
    SessionRow,
    | "customer_id"
    | "customer_is_new"
    | "subscription_id"
    | "charge_id"
    | "payment_method_id"
    | "submission"
    | "replaced_by"
  >
>

/** Builds the outcome. `now`: the time of the customer's clock. */
export const sessionOutcome = (transition: SessionTransition, notes: Notes, now: number): Outcome => {
  const { row: before, decision } = transition
  const row: SessionRow = { ...rowAfter(checkoutLifecycle, transition), ...notes }
  const about: Tenant & Pick<NewEvent, "test_clock_id" | "at"> = {
    account_id: row.account_id,
    livemode: row.livemode,
    test_clock_id: row.test_clock_id,
    at: now,
  }
  const object = renderSession(row, null)
  // Events name a customer that the page created only once the session is over.
  const shown = row.customer_is_new ? { ...before, customer_id: null, subscription_id: null } : before
  const previous = previousAttributes(renderSession(shown, null), object)
  const events = allParamsOf(decision, "emit").map(({ type }): NewEvent => ({ ...about, type, object, previous }))
  return transitioned(checkoutLifecycle, transition, row, { events })
}
