/** The payment subject of instalment plans: it settles the charges that pay for them. */
import { Effect } from "effect"
import { isSaving } from "../../../machines/instalment.ts"
import { problem } from "../../base/problem.ts"
import type { NowOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { chargeEvent } from "../../billing/payments/createCharge.ts"
import type { Answered, PaymentSubject, Settlement } from "../../billing/payments/PaymentSubjects.ts"
import { refOf } from "../../db/tenant.ts"
import type { Notes, Settled } from "./outcome.ts"
import { type InstalmentPlanRow, instalmentPlans } from "./plan.ts"
import { type InstalmentCommand, type MoveServices, transitionAll } from "./transition.ts"

/** Returns the plan's event for a rail's answer; undefined: the answer decided nothing. */
const eventOf = ({ before, after, at }: Answered): InstalmentCommand["event"] | undefined => {
  if (before.status !== "pending" || after.status === "pending") return undefined
  return after.status === "succeeded"
    ? { type: "payment.succeeded", at, chargeId: after.id, amountKobo: after.amount_kobo }
    : { type: "payment.failed", at, chargeId: after.id }
}

/** Moves locked plans by the rails' answers. A payment that arrives after the end of a plan is owed back (decision E15). */
const settle = Effect.fnUntraced(function* (
  locked: ReadonlyArray<InstalmentPlanRow>,
  answered: ReadonlyArray<Answered>,
  nowOf: NowOf,
) {
  const rows = new Map(locked.map((row) => [row.id, row]))
  const commands: Array<InstalmentCommand> = []
  const settled = new Map<string, Settled>()
  const notes = new Map<string, Notes>()
  const charges = new Map<string, { readonly row: Answered["after"] }>()
  for (const one of answered) {
    const row = rows.get(one.after.page_id!)
    const event = eventOf(one)
    if (row === undefined || event === undefined) continue
    const isPaid = one.after.status === "succeeded"
    const charge = { ...one.after, refund_due: isPaid && !isSaving(row.state) }
    commands.push({ row, event })
    settled.set(row.id, { charge, event: chargeEvent(one.before, charge, nowOf(charge)) })
    charges.set(charge.id, { row: charge })
    if (isPaid) notes.set(row.id, { charge_settled_at: currentTime() })
  }
  const transitioned = yield* transitionAll(commands, { nowOf, settled, notes })
  return { charges, outcomes: transitioned.map(({ outcome }) => outcome), attempts: [] } satisfies Settlement
})

export const instalmentSubject = Effect.map(
  Effect.context<MoveServices>(),
  (context): PaymentSubject => ({
    handles: ({ purpose }) => purpose === "instalment",
    locksAtOnce: true,
    lock: (charges) =>
      Effect.map(
        instalmentPlans.lock(charges.map((charge) => ({ ...refOf(charge), id: charge.page_id! }))),
        (locked) => (answered, nowOf) => Effect.provideContext(settle(locked, answered, nowOf), context),
      ),
    retry: () =>
      Effect.fail(
        problem("charge_not_retryable", "The buyer pays instalments on the plan's own page: send the buyer there."),
      ),
  }),
)
