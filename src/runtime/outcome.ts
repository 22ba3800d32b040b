/**
 * An outcome is the result of a transition, as data: the actor's row, its journal row and timers, ledger entries, emitted events, and
 * created actors. Nouns make outcomes with pure functions; commit.ts writes them.
 */
import type { AnyStateMachine } from "xstate"
import { delayOf, type EffectOf, type TimedEvent } from "../../machines/decide.ts"
import type { Table } from "../db/table.ts"
import type { Tenant } from "../db/tenant.ts"
import type { NewEntry } from "../ledger/ledger.ts"
import type { MrrMovement } from "../ledger/mrr.ts"
import type { ScheduleChange } from "../ledger/schedules.ts"
import type { NewEvent } from "../outbound/event/events.ts"
import type { ActorRow, FirstTransition, Lifecycle, Transition } from "./lifecycle.ts"
import type { TimerKey, TimerRow } from "./timers.ts"

export interface JournalRow extends Tenant {
  readonly actor_id: string
  readonly version: number
  readonly actor_kind: string
  readonly at: number
  readonly event: TimedEvent
  readonly from_state: string
  readonly to_state: string
  readonly effects: ReadonlyArray<string>
  readonly machine_version: number
  readonly status_from: string | null
  readonly status_to: string | null
}

/** Timers from rules that can change while an actor exists, besides its machine's delays. */
export interface OwnTimers<Own extends string> {
  readonly set?: ReadonlyArray<{ readonly name: Own; readonly dueAt: number }>
  readonly clear?: ReadonlyArray<Own>
}

/** NewestRows keeps the newest row of each outcome, by table and ID. */
export class NewestRows {
  readonly #tables = new Map<string, Map<string, ActorRow>>()

  note(outcomes: ReadonlyArray<Outcome>): void {
    for (const { table, row } of outcomes) {
      const rows = this.#tables.get(table.name) ?? new Map()
      this.#tables.set(table.name, rows.set(row.id, row))
    }
  }

  /** The table's row with this ID; undefined if no outcome had it. */
  get<Row extends ActorRow>(table: Table<Row>, id: string): Row | undefined {
    // All outcomes of a table have rows of its type.
    return this.#tables.get(table.name)?.get(id) as Row | undefined
  }

  /** Removes the row with this ID, because other code has changed it. */
  forget(id: string): void {
    for (const rows of this.#tables.values()) rows.delete(id)
  }
}

/** The parts of an outcome besides the actor's row. */
export interface Parts<Own extends string = never> {
  readonly timers?: OwnTimers<Own>
  readonly entries?: ReadonlyArray<NewEntry>
  readonly schedules?: ReadonlyArray<ScheduleChange>
  readonly movements?: ReadonlyArray<MrrMovement>
  readonly events?: ReadonlyArray<NewEvent>
  /** New actors: charges to attempt, nudges to send. */
  readonly created?: ReadonlyArray<Outcome>
}

export interface Outcome {
  readonly table: Table<ActorRow>
  readonly row: ActorRow
  /** The row in the database; undefined for a new actor. */
  readonly before: ActorRow | undefined
  readonly journal: JournalRow | undefined
  readonly timers: { readonly set: ReadonlyArray<TimerRow>; readonly clear: ReadonlyArray<TimerKey> }
  readonly entries: ReadonlyArray<NewEntry>
  readonly schedules: ReadonlyArray<ScheduleChange>
  readonly movements: ReadonlyArray<MrrMovement>
  readonly events: ReadonlyArray<NewEvent>
  readonly created: ReadonlyArray<Outcome>
}

/** The name of an effect in the journal: `emit subscription.renewed`, `post paid`, `endService paused`, `attemptCharge`. */
export const effectName = ({ type, params }: { readonly type: string; readonly params: unknown }): string => {
  const { type: emitted, posting, status, template, reason } = (params ?? {}) as Readonly<Record<string, unknown>>
  const detail = emitted ?? posting ?? status ?? template ?? reason
  return typeof detail === "string" ? `${type} ${detail}` : type
}

/** The status that the API shows; null: the kind has none. */
const statusOf = (row: ActorRow | undefined): string | null =>
  row !== undefined && "status" in row && typeof row.status === "string" ? row.status : null

const journalRow = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { kind, machineVersion }: Lifecycle<M, Row, Own>,
  before: Row | undefined,
  row: Row,
  { version, event, from, to, decision }: FirstTransition<M>,
): JournalRow => {
  const timed: TimedEvent = event
  return {
    account_id: row.account_id,
    livemode: row.livemode,
    actor_id: row.id,
    version,
    actor_kind: kind,
    at: timed.at,
    event: timed,
    from_state: from,
    to_state: to,
    effects: decision.effects.map((effect: EffectOf<M>) => effectName(effect)),
    machine_version: machineVersion,
    status_from: statusOf(before),
    status_to: statusOf(row),
  }
}

const timersOf = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { kind, ranks }: Lifecycle<M, Row, Own>,
  row: Row,
  transition: FirstTransition<M> | undefined,
  own: OwnTimers<Own> = {},
): Outcome["timers"] => {
  const { account_id, livemode, id, version, test_clock_id = null, customer_id = null } = row
  const key = (name: string): TimerKey => ({ account_id, livemode, actor_id: id, name })
  const timer = (name: string, dueAt: number, event: string): TimerRow => ({
    ...key(name),
    actor_kind: kind,
    generation: version,
    due_at: dueAt,
    // The names are those of the machine's delays and of the lifecycle's own timers, which all have a rank.
    rank: ranks[name as keyof typeof ranks],
    event,
    test_clock_id,
    customer_id: test_clock_id === null ? null : customer_id,
  })
  const event: TimedEvent | undefined = transition?.event
  const fired = event === undefined ? undefined : delayOf(event.type)
  return {
    set: [
      ...(transition?.decision.set ?? []).map(({ name, dueAt, event }) => timer(name, dueAt, event)),
      ...(own.set ?? []).map(({ name, dueAt }) => timer(name, dueAt, name)),
    ],
    // The timer that fired is already deleted (timers.ts, takeFirstDue).
    clear: [...(transition?.decision.cancel ?? []), ...(own.clear ?? [])].filter((name) => name !== fired).map(key),
  }
}

const outcome = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  lifecycle: Lifecycle<M, Row, Own>,
  before: Row | undefined,
  row: Row,
  transition: FirstTransition<M> | undefined,
  { timers, entries = [], schedules = [], movements = [], events = [], created = [] }: Parts<Own>,
): Outcome => ({
  table: lifecycle.table as Table<ActorRow>,
  before,
  row,
  journal: transition === undefined ? undefined : journalRow(lifecycle, before, row, transition),
  timers: timersOf(lifecycle, row, transition, timers),
  entries,
  schedules,
  movements,
  events,
  created,
})

/** The outcome of a transition: `row` is the new row. */
export const transitioned = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  lifecycle: Lifecycle<M, Row, Own>,
  transition: Transition<M, Row>,
  row: Row,
  parts: Parts<Own> = {},
): Outcome => outcome(lifecycle, transition.row, row, transition, parts)

/** The outcome of a new actor with its first transition, or without one if no event has happened yet. */
export const created = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  lifecycle: Lifecycle<M, Row, Own>,
  first: FirstTransition<M> | undefined,
  row: Row,
  parts: Parts<Own> = {},
): Outcome => outcome(lifecycle, undefined, row, first, parts)

/** The outcome of a row change without a transition. */
export const amended = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  lifecycle: Lifecycle<M, Row, Own>,
  before: Row,
  row: Row,
): Outcome => outcome(lifecycle, before, row, undefined, {})

/** The outcome of a change of timers only. */
export const rescheduled = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  lifecycle: Lifecycle<M, Row, Own>,
  row: Row,
  timers: OwnTimers<Own>,
): Outcome => outcome(lifecycle, row, row, undefined, { timers })
