/** Writes what every transition leaves behind: its journal row, its timers, the jobs that wake them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { AnyStateMachine } from "xstate"
import type { Effect as MachineEffect } from "../../machines/decide.ts"
import { names, records } from "../db/records.ts"
import { clearTimers, setTimers, type TimerKey, type TimerRow } from "../timers/rows.ts"
import { Wakeups } from "../timers/Wakeups.ts"
import type { ActorRow, Lifecycle, Transition } from "./advance.ts"

/** An effect as the journal names it: `emit subscription.renewed`, `post paid`, `attemptCharge`. */
const effectName = ({ type, params }: MachineEffect): string => {
  const detail = params.type ?? params.posting ?? params.status ?? params.template
  return typeof detail === "string" ? `${type} ${detail}` : type
}

const JOURNAL = {
  account_id: "text",
  livemode: "boolean",
  actor_id: "text",
  version: "integer",
  actor_kind: "text",
  at: "timestamptz",
  event: "jsonb",
  from_state: "text",
  to_state: "text",
  effects: "jsonb",
  machine_version: "integer",
} as const

const journalRow = <M extends AnyStateMachine, Row extends ActorRow>(
  lifecycle: Lifecycle<M, Row>,
  transition: Transition<M, Row>,
) => ({
  account_id: transition.row.account_id,
  livemode: transition.row.livemode,
  actor_id: transition.row.id,
  version: transition.version,
  actor_kind: lifecycle.kind,
  at: transition.event.at,
  event: transition.event,
  from_state: transition.row.state,
  to_state: transition.to,
  effects: transition.decision.effects.map(effectName),
  machine_version: lifecycle.machineVersion,
})

const timerRows = <M extends AnyStateMachine, Row extends ActorRow>(
  lifecycle: Lifecycle<M, Row>,
  { row, decision, version }: Transition<M, Row>,
): ReadonlyArray<TimerRow> =>
  decision.set.map(({ name, dueAt, event }) => ({
    account_id: row.account_id,
    livemode: row.livemode,
    actor_id: row.id,
    name,
    actor_kind: lifecycle.kind,
    generation: version,
    due_at: dueAt,
    rank: lifecycle.ranks[name]!,
    event,
    test_clock_id: row.test_clock_id,
  }))

/** The timer whose event this is: it has fired, so its row goes. (One of {@link OtherTimers} is replaced or cleared there.) */
const firedTimer = (event: string): string | undefined => /^xstate\.after\.([^.]+)\./.exec(event)?.[1]

/** Timers that do not come from a machine's delays but from rules that change under it. */
export interface OtherTimers {
  readonly set: ReadonlyArray<TimerRow>
  readonly clear: ReadonlyArray<TimerKey>
}

/** Records transitions in the running transaction; the noun writes its own rows beside it. */
export const recordTransitions = <M extends AnyStateMachine, Row extends ActorRow>(
  lifecycle: Lifecycle<M, Row>,
  transitions: ReadonlyArray<Transition<M, Row>>,
  other: OtherTimers = { set: [], clear: [] },
) =>
  Effect.gen(function* () {
    if (transitions.length === 0) return
    const sql = yield* SqlClient.SqlClient
    const rows = transitions.map((transition) => journalRow(lifecycle, transition))
    yield* sql`INSERT INTO lifecycle_journal (${names(sql, JOURNAL)}) SELECT * FROM ${records(sql, rows, JOURNAL)} r`
    const set = [...transitions.flatMap((transition) => timerRows(lifecycle, transition)), ...other.set]
    const setKeys = new Set(set.map((timer) => `${timer.actor_id} ${timer.name}`))
    const cleared = transitions.flatMap(({ row, event, decision }) => {
      const fired = firedTimer(event.type)
      const names = new Set(fired === undefined ? decision.cancel : [...decision.cancel, fired])
      return [...names]
        .filter((name) => !setKeys.has(`${row.id} ${name}`))
        .map((name) => ({ account_id: row.account_id, livemode: row.livemode, actor_id: row.id, name }))
    })
    yield* clearTimers([...cleared, ...other.clear])
    yield* setTimers(set)
    const wakeups = yield* Wakeups
    yield* wakeups.at(set.filter((timer) => timer.test_clock_id === null).map((timer) => timer.due_at))
  })
