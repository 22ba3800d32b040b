/** Every kind of actor that is journalled, and how its machine began: for replays. */
import type { TimedEvent } from "../machines/decide.ts"
import { chargeLifecycle } from "./charge/Charge.ts"
import type { ChargeRow } from "./charge/rows.ts"
import { clockLifecycle } from "./clock/Clocks.ts"
import { invoiceLifecycle } from "./invoice/Invoice.ts"
import type { InvoiceRow } from "./invoice/rows.ts"
import type { ActorKind, ActorRow } from "./lifecycle/advance.ts"
import type { Replayable } from "./lifecycle/replay.ts"
import { nudgeLifecycle } from "./nudge/Nudge.ts"
import { subscriptionLifecycle } from "./subscription/Subscription.ts"
import { endpointLifecycle } from "./webhook/Endpoint.ts"

/** Each kind has a row type of its own, which a list of all kinds cannot say. */
const replayable = <R extends { readonly lifecycle: { readonly kind: ActorKind } }>(
  one: R,
): readonly [ActorKind, Replayable] => [one.lifecycle.kind, one as unknown as Replayable]

export const replayables: ReadonlyMap<ActorKind, Replayable> = new Map([
  // The event that creates a subscription carries the machine's input.
  replayable({ lifecycle: subscriptionLifecycle, input: (_: ActorRow, first: TimedEvent) => first }),
  replayable({ lifecycle: chargeLifecycle, input: (row: ChargeRow) => ({ at: row.sent_at }) }),
  replayable({ lifecycle: clockLifecycle, input: () => ({ at: 0 }) }),
  replayable({
    lifecycle: invoiceLifecycle,
    input: (row: InvoiceRow) => ({ at: row.created_at, dueAt: row.due_at }),
  }),
  replayable({ lifecycle: endpointLifecycle, input: () => ({ at: 0 }) }),
  // Likewise.
  replayable({ lifecycle: nudgeLifecycle, input: (_: ActorRow, first: TimedEvent) => first }),
])
