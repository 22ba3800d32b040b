/** Every kind of actor that is journalled, and how its machine began: for replays. */
import type { CreateEvent } from "../machines/decide.ts"
import type { instalmentMachine } from "../machines/instalment.ts"
import type { nudgeMachine } from "../machines/nudge.ts"
import type { subscriptionMachine } from "../machines/subscription.ts"
import { chargeLifecycle } from "./charge/charge.ts"
import { checkoutLifecycle } from "./checkout/checkout.ts"
import { clockLifecycle } from "./clock/clock.ts"
import { instalmentLifecycle } from "./instalment/plan.ts"
import { invoiceLifecycle } from "./invoice/invoice.ts"
import { nudgeLifecycle } from "./nudge/nudge.ts"
import { refundLifecycle } from "./refund/refund.ts"
import { type Replayable, replayable } from "./runtime/replay.ts"
import { subscriptionLifecycle } from "./subscription/subscription.ts"
import { endpointLifecycle } from "./webhook/endpoint.ts"

export const replayables: ReadonlyArray<Replayable> = [
  // The event that creates a subscription, an instalment plan, or a nudge, carries the machine's input.
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
