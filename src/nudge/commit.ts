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

type Json = Readonly<Record<string, unknown>>
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

/** A nudge as it was before anything was told of it. */
const asMade = (row: NudgeRow): Json => ({
  ...renderNudge(row),
  channel: row.channels[0] ?? row.channel,
  status: "queued",
  failure_reason: null,
  counts_toward_allowance: false,
  billed_as_overage: false,
  sent_at: null,
  delivered_at: null,
  attempts: [],
})

/** What a transition tells of the nudge as it is after it, and as what it was told of last (decision I6). */
export const tell = ({ row: before, decision }: NudgeTransition, row: NudgeRow, now: number) => {
  const object: Json = renderNudge(row)
  const previous = previousAttributes(before.told ?? asMade(before), object)
  const events = decision.effects
    .filter(({ type }) => type === "emit")
    .map(
      ({ params }): NewEvent => ({
        account_id: row.account_id,
        livemode: row.livemode,
        type: params.type as string,
        object,
        previous: before.state === "created" ? {} : previous,
        test_clock_id: row.test_clock_id,
        at: now,
      }),
    )
  return { row: events.length === 0 ? row : { ...row, told: object }, events }
}

/**
 * Writes transitions of locked nudges; nobody has them in hand any more. `now` is their own clock; `messageIds` are what
 * messengers call what they took. Answers the nudges as they are now.
 */
export const commitNudges = (
  transitions: ReadonlyArray<NudgeTransition>,
  now: number,
  messageIds: ReadonlyMap<string, string | null> = new Map(),
) =>
  Effect.gen(function* () {
    if (transitions.length === 0) return []
    const beyond = yield* countAll(transitions)
    const moved = transitions.map((transition) => {
      const { row: before, decision, to, version } = transition
      const row: NudgeRow = {
        ...before,
        ...machineColumns(to, decision.snapshot.context, before.channel),
        version,
        sender: null,
        message_id: messageIds.get(before.id) ?? before.message_id,
        billed_as_overage: before.billed_as_overage || beyond.has(before.id),
      }
      return tell(transition, row, now)
    })
    yield* updateNudges(moved.map(({ row }) => row))
    yield* recordTransitions(nudgeLifecycle, transitions)
    yield* appendEvents(moved.flatMap(({ events }) => events))
    return moved.map(({ row }) => row)
  })
