/** A charge as the API shows it (spec 2.6), and its lifecycle. */
import { type ChargeContext, chargeMachine } from "../../machines/charge.ts"
import type { Lifecycle } from "../lifecycle/advance.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import type { ChargeRow } from "./rows.ts"

export const renderCharge = (row: ChargeRow) => ({
  id: row.id,
  object: "charge" as const,
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  amount: row.amount_kobo,
  currency: row.currency,
  status: row.status,
  customer: row.customer_id,
  subscription: row.subscription_id,
  attempt_number: row.attempt_number,
  will_retry: row.will_retry,
  next_retry_at: formatInstantOrNull(row.next_retry_at),
  failure_code: row.failure_code,
  failure_message: row.failure_message,
  payment_method: row.payment_method,
  processor: row.rail,
  description: row.description,
  lines: row.lines,
  refund_due: row.refund_due,
  paid_at: formatInstantOrNull(row.paid_at),
  metadata: row.metadata,
})

/** `rail.*` answers move a charge; the questions' timer is `ask`. */
export const chargeLifecycle: Lifecycle<typeof chargeMachine, ChargeRow> = {
  kind: "charge",
  machine: chargeMachine,
  machineVersion: 1,
  // What a rail already knows comes before what is decided on it: a payment at the last instant saves the subscription.
  ranks: { ask: 0 },
  contextOf: (row): ChargeContext => ({
    sentAt: row.sent_at,
    asks: row.asks,
    notFound: row.not_found,
    knownAt: row.known_at,
  }),
}
