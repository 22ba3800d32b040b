/** Carries out what nudges decided: their rows, what they count for, the events; in the running transaction. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { nudgeMachine } from "../../machines/nudge.ts"
import { appendEvents, type NewEvent, previousAttributes } from "../event/Events.ts"
import type { ApiPlan } from "../key/Keys.ts"
import type { Transition } from "../lifecycle/advance.ts"
import { recordTransitions } from "../lifecycle/commit.ts"
import { ALLOWANCES, monthOf, thresholdsReached } from "../usage/allowances.ts"
import { announceThresholds } from "../usage/Metering.ts"
import { machineColumns, nudgeLifecycle, renderNudge } from "./Nudge.ts"
import { type NudgeRow, updateNudges } from "./rows.ts"

export type NudgeTransition = Transition<typeof nudgeMachine, NudgeRow>

const countsNow = ({ decision }: NudgeTransition): boolean => decision.effects.some(({ type }) => type === "count")

/**
 * Counts nudges of an account towards this month's allowance; answers how many of them lie beyond it. The month is that of
 * the wall clock: only live nudges are counted.
 */
const count = (account: string, nudges: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { start } = monthOf(Date.now())
    const [counted] = yield* sql<{ nudges: number; nudge_threshold: number; api_plan: ApiPlan }>`
      INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, nudges) VALUES (${account}, true, ${PgTypes.timestamptz(start)}, ${nudges})
      ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET nudges = u.nudges + excluded.nudges, updated_at = now()
      RETURNING nudges, nudge_threshold, (SELECT api_plan FROM account WHERE id = ${account})`
    const { nudges: used, nudge_threshold: announced, api_plan } = counted!
    const { nudges: included } = ALLOWANCES[api_plan]
    const reached = thresholdsReached(used, included, announced)
    if (reached.length > 0) {
      yield* sql`
        UPDATE usage_counter SET nudge_threshold = ${reached.at(-1)!}
        WHERE account_id = ${account} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
      yield* announceThresholds(account, "nudges", reached, { used, included })
    }
    return Math.min(nudges, Math.max(0, used - included))
  })

/** The IDs of the nudges that lie beyond their account's allowance. */
const countAll = (transitions: ReadonlyArray<NudgeTransition>) =>
  Effect.gen(function* () {
    const beyond = new Set<string>()
    const counting = transitions.filter((transition) => transition.row.livemode && countsNow(transition))
    // In one order everywhere, so that no two processes wait for each other.
    const accounts = [...Map.groupBy(counting, ({ row }) => row.account_id)].sort(([a], [b]) => (a < b ? -1 : 1))
    for (const [account, its] of accounts) {
      const over = yield* count(account, its.length)
      for (const { row } of its.slice(its.length - over)) beyond.add(row.id)
    }
    return beyond
  })

/** The events of a transition, about the nudge as it is after it. */
export const eventsOf = (
  { row: before, decision }: NudgeTransition,
  row: NudgeRow,
  now: number,
): ReadonlyArray<NewEvent> => {
  const object = renderNudge(row)
  const isNew = before.state === "created"
  return decision.effects
    .filter(({ type }) => type === "emit")
    .map(({ params }) => ({
      account_id: row.account_id,
      livemode: row.livemode,
      type: params.type as string,
      object,
      previous: isNew ? {} : previousAttributes(renderNudge(before), object),
      test_clock_id: row.test_clock_id,
      at: now,
    }))
}

/** What became of nudges on their way to a messenger: who has them now, and what it calls them. */
export interface Handled {
  readonly sender: number | null
  readonly messageId: string | null
}

/** Writes transitions of locked nudges. `now` is their own clock. Answers them as they are now. */
export const commitNudges = (
  transitions: ReadonlyArray<NudgeTransition>,
  now: number,
  handled: ReadonlyMap<string, Handled> = new Map(),
) =>
  Effect.gen(function* () {
    if (transitions.length === 0) return []
    const beyond = yield* countAll(transitions)
    const moved = transitions.map((transition) => {
      const { row: before, decision, to, version } = transition
      const by = handled.get(before.id)
      const row: NudgeRow = {
        ...before,
        ...machineColumns(to, decision.snapshot.context, before.channel),
        version,
        sender: by?.sender ?? null,
        message_id: by?.messageId ?? before.message_id,
        billed_as_overage: before.billed_as_overage || beyond.has(before.id),
      }
      return { transition, row }
    })
    yield* updateNudges(moved.map(({ row }) => row))
    yield* recordTransitions(nudgeLifecycle, transitions)
    yield* appendEvents(moved.flatMap(({ transition, row }) => eventsOf(transition, row, now)))
    return moved.map(({ row }) => row)
  })
