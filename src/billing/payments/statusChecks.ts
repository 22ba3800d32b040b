/** Queues status checks of charges at outside rails. */
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

/** Queues status checks of locked charges. */
export const insertStatusChecks = (unit: UnitOfWork, of: ReadonlyArray<ChargeRow>, urgent: boolean): void =>
  queueCalls(
    unit,
    of.flatMap((charge) =>
      isOutside(charge.rail) ? [{ ...refOf(charge), rail: charge.rail, kind: "ask" as const }] : [],
    ),
    urgent,
  )

type StatusCheck = Extract<ChargeEvent["type"], "rail.ask" | "rail.return">

/** Commits an event on locked charges; returns those that it moves. */
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

/** Commits an event on locked charges, and queues a status check of each, also of those that are already being checked. */
const askAbout = (of: ReadonlyArray<ChargeRow>, type: StatusCheck, urgent: boolean) =>
  Effect.andThen(
    transitionAll(of, type),
    Effect.map(unitOfWork, (unit) => insertStatusChecks(unit, of, urgent)),
  )

/** Whether a charge is a verification that was paid after all: it is refunded, so its refund is checked instead. */
const isSentBack = ({ purpose, state }: ChargeRow): boolean => purpose === "verification" && state === "contradicted"

/**
 * Queues status checks of unpaid charges, in the running transaction. Includes failed ones: they may have been paid after all, which is
 * money to refund (decision P10).
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
 * Queues status checks of paid charges whose payment a callback denies, in the running transaction: only as often as the charge allows, and
 * not if its rail has contradicted it already (decision F2). Verifications are refunded anyway (decision P8).
 */
export const queueDeniedPaymentChecks = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  const rows = yield* charges.lock(refs)
  const paid = rows.filter(
    ({ rail, status, purpose }) => isOutside(rail) && status === "succeeded" && purpose !== "verification",
  )
  insertStatusChecks(yield* unitOfWork, yield* transitionAll(paid, "rail.ask"), false)
})

/** Queues a status check for a buyer who returned from the rail's page (`returned`), or who checks the status again. */
export const queueBuyerStatusCheck = Effect.fnUntraced(function* (ref: Ref, returned: boolean) {
  const rows = yield* charges.lock([ref])
  yield* askAbout(
    rows.filter(({ rail, status }) => isOutside(rail) && status === "pending"),
    returned ? "rail.return" : "rail.ask",
    true,
  )
})
