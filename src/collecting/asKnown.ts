/**
 * Settling without a look at the database before: what this process has just committed it knows, and the statement that writes what comes
 * of it notices whether that still holds.
 */
import { Effect } from "effect"
import type { SqlError } from "effect/sql"
import { isDeadlock } from "../db/deadlock.ts"
import { isLockTimeout, PATIENCE_MS } from "../db/held.ts"
import { type Check, isOutdated } from "../db/known.ts"
import { withoutAsking } from "../db/withoutAsking.ts"
import { commitAsKnown } from "../runtime/commit.ts"
import type { ActorRow } from "../runtime/lifecycle.ts"
import type { NowOf } from "../time.ts"
import { type Answer, decide, type Standing } from "./answers.ts"
import { parentOf } from "./attempts.ts"
import { type ChargeOwner, ChargeOwners } from "./ChargeOwners.ts"

/** How answered charges and what they are for stand as far as this process knows, which has committed them; undefined: not all is known. */
const knownOf = (owners: ReadonlyArray<ChargeOwner>, answers: ReadonlyArray<Answer>) => {
  const rows = answers.map(({ charge }) => charge)
  // What the simulator says at once of a payment; where more is heard, more is to be done.
  const isPayment = ({ charge, answer, at: _, ...heard }: Answer) =>
    answer.type === "rail.succeeded" &&
    Object.keys(heard).length === 0 &&
    charge.purpose === "sale" &&
    !charge.hosted &&
    parentOf(charge) !== undefined
  if (!answers.every(isPayment)) return undefined
  const standing: Array<Standing["owners"][number]> = []
  const checks: Array<Check> = []
  const actors: Array<ActorRow> = [...rows]
  let owned = 0
  for (const { owns, known } of owners) {
    const its = rows.filter(owns)
    if (its.length === 0) continue
    const parentsOfIts = its.flatMap((charge) => parentOf(charge) ?? [])
    const settling = known?.(its, parentsOfIts)
    if (settling === undefined) return undefined
    standing.push({ owns, settle: settling.settle })
    checks.push(...settling.checks)
    actors.push(...parentsOfIts)
    owned += its.length
  }
  return owned < rows.length ? undefined : { standing: { rows, owners: standing }, checks, actors }
}

/**
 * Applies answers by what is known of their charges; fails where somebody else holds what it needs for longer than `waitsMs`. Returns what was
 * written; undefined where what is known does not do, and nothing is, or where it may wait and would for long.
 */
export const settleAsKnown = Effect.fnUntraced(function* (
  answers: ReadonlyArray<Answer>,
  nowOf: NowOf,
  waitsMs: number | undefined,
) {
  const known = knownOf(yield* ChargeOwners, answers)
  if (known === undefined || answers.length === 0) return undefined
  const decided = yield* withoutAsking(decide(known.standing, answers, nowOf))
  if (decided === undefined) return undefined
  const { outcomes, attempts, settlements } = decided
  // Whatever it goes by moves, and nothing else comes of it: so what has changed meanwhile is noticed.
  const moves = new Set(
    outcomes.flatMap(({ before, journal, born }) => (journal !== undefined && born.length === 0 ? [before] : [])),
  )
  const isWhole =
    outcomes.length === known.actors.length &&
    known.actors.every((actor) => moves.has(actor)) &&
    attempts.length === 0 &&
    settlements.every(({ afterwards }) => afterwards === undefined)
  if (!isWhole) return undefined
  const isLeft = (error: SqlError.SqlError) =>
    isOutdated(error) || isDeadlock(error) || (waitsMs === undefined && isLockTimeout(error))
  return yield* commitAsKnown(outcomes, known.checks, waitsMs ?? PATIENCE_MS).pipe(
    Effect.as(outcomes),
    Effect.catchIf(isLeft, () => Effect.succeed(undefined)),
  )
})
