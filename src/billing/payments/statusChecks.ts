/** Asking a rail of the outside world what became of charges, because somebody wants to know. */
import { Effect } from "effect"
import type { ChargeEvent } from "../../../machines/charge.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, refOf } from "../../db/tenant.ts"
import { type UnitOfWork, unitOfWork } from "../../db/UnitOfWork.ts"
import { isOutside } from "../../rails/rail/Rail.ts"
import { queueCalls } from "../../rails/rail_call/queue.ts"
import { commit } from "../../runtime/commit.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { transitioned } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLifecycle, charges } from "../charge/charge.ts"
import { chargeAfter } from "./decide.ts"

/** Queues the questions about locked charges. */
export const insertStatusChecks = (unit: UnitOfWork, of: ReadonlyArray<ChargeRow>, urgent: boolean): void =>
  queueCalls(
    unit,
    of.flatMap((charge) =>
      isOutside(charge.rail) ? [{ ...refOf(charge), rail: charge.rail, kind: "ask" as const }] : [],
    ),
    urgent,
  )

type StatusCheck = Extract<ChargeEvent["type"], "rail.ask" | "rail.return">

/** Writes what an event does to locked charges; returns those that it moves. */
const transitionAll = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>, type: StatusCheck) {
  const now = currentTime()
  const transitions = advance(
    chargeLifecycle,
    of.map((row) => ({ row, event: type === "rail.return" ? { type, at: now, returnedAt: now } : { type, at: now } })),
  )
  yield* commit(
    transitions.map((transition) => transitioned(chargeLifecycle, transition, chargeAfter(transition, now))),
  )
  return transitions.map(({ row }) => row)
})

/** What an event does to locked charges: those that it moves are asked about, and so are those that are being asked about. */
const askAbout = (of: ReadonlyArray<ChargeRow>, type: StatusCheck, urgent: boolean) =>
  Effect.andThen(
    transitionAll(of, type),
    Effect.map(unitOfWork, (unit) => insertStatusChecks(unit, of, urgent)),
  )

/** Whether a charge is a verification that was paid after all: it is sent back, so its refund is what there is to ask about. */
const isSentBack = ({ purpose, state }: ChargeRow): boolean => purpose === "verification" && state === "contradicted"

/**
 * Has rails asked now about charges that are not settled, in the running transaction. About one that failed too: it may have
 * been paid after all, which is money that is owed back (decision P10).
 */
export const queueStatusChecks = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  const rows = yield* charges.lock(refs)
  yield* askAbout(
    rows.filter((row) => isOutside(row.rail) && row.status !== "succeeded" && !isSentBack(row)),
    "rail.ask",
    false,
  )
})

/**
 * Has rails asked about charges that are paid, which somebody denies, in the running transaction: as often as the charge allows it,
 * and not about one that its rail has contradicted already (decision F2). Verifications are sent back anyhow (decision P8).
 */
export const askWhetherPaid = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  const rows = yield* charges.lock(refs)
  const paid = rows.filter(
    ({ rail, status, purpose }) => isOutside(rail) && status === "succeeded" && purpose !== "verification",
  )
  insertStatusChecks(yield* unitOfWork, yield* transitionAll(paid, "rail.ask"), false)
})

/** The buyer has come back from the rail's page, or looks again how things stand. */
export const askForBuyer = Effect.fnUntraced(function* (ref: Ref, returned: boolean) {
  const rows = yield* charges.lock([ref])
  yield* askAbout(
    rows.filter(({ rail, status }) => isOutside(rail) && status === "pending"),
    returned ? "rail.return" : "rail.ask",
    true,
  )
})
