/** Writes the outcomes of transitions, of any actors, into the unit of work of the running transaction. */
import { Effect } from "effect"
import { names, rowsAsTable } from "../db/rows.ts"
import { type UnitOfWork, unitOfWork } from "../db/UnitOfWork.ts"
import { postEntries } from "../ledger/ledger.ts"
import { writeMovements } from "../ledger/mrr.ts"
import { changeSchedules, startSchedules } from "../ledger/schedules.ts"
import { appendEvents } from "../outbound/event/events.ts"
import { pipelined } from "../postgres/pipelining.ts"
import type { JournalRow, Outcome } from "./outcome.ts"
import { clearTimers, setTimers, type TimerRow } from "./timers.ts"
import { wakeAt } from "./Wakeups.ts"

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
  status_from: "text",
  status_to: "text",
  cause: "jsonb",
  brought: "text[]",
} as const

/** Writes journal rows. Who asked for them may be known only after they are decided. */
const writeJournal = (
  unit: UnitOfWork,
  rows: ReadonlyArray<JournalRow & { readonly brought: ReadonlyArray<string> }>,
): void => {
  if (rows.length === 0) return
  const { sql, causes } = unit
  const insert = () => {
    const caused = rows.map((row) => ({ ...row, cause: causes.of(row.actor_id) }))
    return sql`INSERT INTO lifecycle_journal (${names(JOURNAL)}) SELECT * FROM ${rowsAsTable(caused, JOURNAL)} r`
  }
  unit.add([["journal", insert]])
}

/** Returns the journal rows of outcomes, with the IDs of what each created. The IDs are in the order of the outcomes. */
const journalOf = (
  outcomes: ReadonlyArray<Outcome>,
  existing: ReadonlySet<string>,
  entryIds: ReadonlyArray<string>,
  eventIds: ReadonlyArray<string>,
) => {
  let [entry, event] = [0, 0]
  return outcomes.flatMap(({ journal, created, entries, events }) => {
    const brought = [
      ...created.flatMap(({ before, row }) => (before === undefined && !existing.has(row.id) ? [row.id] : [])),
      ...entries.map(() => entryIds[entry++]!),
      ...events.map(() => eventIds[event++]!),
    ]
    return journal === undefined ? [] : [{ ...journal, brought }]
  })
}

/** Returns the outcomes and those of the actors that they create, parents first. */
const withCreated = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Outcome> => {
  const created = outcomes.flatMap((outcome) => outcome.created)
  return created.length === 0 ? outcomes : [...outcomes, ...withCreated(created)]
}

/** Inserts rows into tables where a row may exist already; returns the IDs of the existing ones. */
const insertNew = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  const existing = new Set<string>()
  yield* pipelined(
    [...Map.groupBy(outcomes, ({ table }) => table)].map(([table, of]) =>
      Effect.map(table.insertNew(of.map(({ row }) => row)), (inserted) => {
        for (const { row } of of) if (!inserted.has(row.id)) existing.add(row.id)
      }),
    ),
  )
  return existing
})

/** What is written into a unit of work, in its order, for a dry run to show. */
export interface Recorded {
  readonly outcomes: Array<Outcome>
  /** Timers that are set without an outcome of their actor. */
  readonly timers: Array<Pick<TimerRow, "actor_id" | "name" | "due_at">>
}

const recorders = new WeakMap<UnitOfWork, Recorded>()

/** Records what is written into a unit of work from now on. */
export const record = (unit: UnitOfWork): Recorded => {
  const recorded: Recorded = { outcomes: [], timers: [] }
  recorders.set(unit, recorded)
  return recorded
}

/** Notes timers that a statement of its own has set. */
export const noteTimers = (unit: UnitOfWork, timers: Recorded["timers"]): void => {
  recorders.get(unit)?.timers.push(...timers)
}

const NONE: ReadonlySet<string> = new Set()

/** Sets and clears timers. A wall-clock timer gets a job that wakes the sweep. */
const writeTimers = (unit: UnitOfWork, outcomes: ReadonlyArray<Outcome>): void => {
  const set = outcomes.flatMap(({ timers }) => timers.set)
  const isSet = new Set(set.map(({ actor_id, name }) => `${actor_id} ${name}`))
  // A new actor has no timers to clear.
  const clear = outcomes.flatMap(({ before, timers }) => (before === undefined ? [] : timers.clear))
  clearTimers(
    unit,
    clear.filter(({ actor_id, name }) => !isSet.has(`${actor_id} ${name}`)),
  )
  setTimers(unit, set)
  wakeAt(
    unit,
    set.flatMap(({ test_clock_id, due_at }) => (test_clock_id === null ? [due_at] : [])),
  )
}

/**
 * Writes outcomes: rows, journal, timers, ledger entries, schedules and movements of revenue, events. The rows must be locked. Returns the
 * written outcomes, including created actors. A created actor that exists already is left out with everything that belongs to it.
 */
export const commit = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  const unit = yield* unitOfWork
  const all = withCreated(outcomes)
  for (const [table, of] of Map.groupBy(all, (outcome) => outcome.table))
    unit.update(
      table,
      of.flatMap(({ before, row }) => (before === undefined ? [] : [{ before, after: row }])),
    )
  const created = Map.groupBy(
    all.filter(({ before }) => before === undefined),
    ({ table }) => table.mayExist,
  )
  for (const [table, of] of Map.groupBy(created.get(false) ?? [], (outcome) => outcome.table))
    unit.insert(
      table,
      of.map(({ row }) => row),
    )
  const uncertain = created.get(true)
  const existing = uncertain === undefined ? NONE : yield* insertNew(uncertain)
  const written = existing.size === 0 ? all : all.filter(({ row }) => !existing.has(row.id))
  writeTimers(unit, written)
  const entryIds = postEntries(
    unit,
    written.flatMap(({ entries }) => entries),
  )
  const schedules = written.flatMap((outcome) => outcome.schedules)
  changeSchedules(unit, schedules)
  startSchedules(unit, schedules)
  writeMovements(
    unit,
    written.flatMap(({ movements }) => movements),
  )
  const eventIds = appendEvents(
    unit,
    written.flatMap(({ events }) => events),
  ).map(({ id }) => id)
  writeJournal(unit, journalOf(written, existing, entryIds, eventIds))
  recorders.get(unit)?.outcomes.push(...written)
  return written
})
