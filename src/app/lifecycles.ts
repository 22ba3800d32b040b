/** Lists every kind of actor that has a journal, with the input that created its machine. Replays use it. */
import type { CreateEvent } from "../../machines/decide.ts"
import type { instalmentMachine } from "../../machines/instalment.ts"
import type { nudgeMachine } from "../../machines/nudge.ts"
import type { subscriptionMachine } from "../../machines/subscription.ts"
import { chargeLifecycle } from "../billing/charge/charge.ts"
import { clockLifecycle } from "../billing/clock/clock.ts"
import { refundLifecycle } from "../billing/refund/refund.ts"
import { subscriptionLifecycle } from "../billing/subscription/subscription.ts"
import { checkoutLifecycle } from "../buying/checkout/checkout.ts"
import { instalmentLifecycle } from "../buying/instalment/plan.ts"
import { invoiceLifecycle } from "../merchants/invoice/invoice.ts"
import { nudgeLifecycle } from "../outbound/nudge/nudge.ts"
import { endpointLifecycle } from "../outbound/webhook/endpoint.ts"
import { type Replayable, replayable } from "../runtime/replay.ts"

export const replayables: ReadonlyArray<Replayable> = [
  // The create event of a subscription, an instalment plan or a nudge carries the machine's input.
  replayable(subscriptionLifecycle, (_, first) => first as CreateEvent<typeof subscriptionMachine>),
  replayable(chargeLifecycle, (row) => ({ at: row.sent_at })),
  replayable(refundLifecycle, (row) => ({ at: row.created_at })),
  replayable(clockLifecycle, () => ({ at: 0 })),
  replayable(invoiceLifecycle, (row) => ({ at: row.created_at, dueAt: row.due_at })),
  replayable(endpointLifecycle, () => ({ at: 0 })),
  replayable(checkoutLifecycle, (row) => ({ at: row.created_at, expiresAt: row.expires_at })),
  replayable(instalmentLifecycle, (_, first) => first as CreateEvent<typeof instalmentMachine>),
  replayable(nudgeLifecycle, (_, first) => first as CreateEvent<typeof nudgeMachine>),
]
