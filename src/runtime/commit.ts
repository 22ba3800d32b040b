/**
 * Writes what transitions leave behind, of any actors: in the running transaction, by one statement mostly, or by a statement that is a
 * transaction by itself.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type Check, checking, refusingOutdated, rowsOfChecks } from "../db/known.ts"
import { sentWhole } from "../db/PipeliningConnection.ts"
import { names, records } from "../db/records.ts"
import { inOneGo, type OneStatement, sent } from "../db/sending.ts"
import { byItself } from "../db/transactions.ts"
import { inOneStatement, type Write } from "../db/writes.ts"
import { appendingEvents } from "../event/events.ts"
import { postingEntries } from "../ledger/ledger.ts"
import { writingMovements } from "../ledger/mrr.ts"
import { beginningSchedules, changingSchedules } from "../ledger/schedules.ts"
import type { JournalRow, Outcome } from "./outcome.ts"
import { clearingTimers, settingTimers } from "./timers.ts"
import { waking } from "./Wakeups.ts"

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

const writingJournal = (sql: SqlClient.SqlClient, rows: ReadonlyArray<JournalRow>): ReadonlyArray<Write> =>
  rows.length === 0
    ? []
    : [["journal", sql`INSERT INTO lifecycle_journal (${names(JOURNAL)}) SELECT * FROM ${records(rows, JOURNAL)} r`]]

/** The outcomes with those of the actors they bring about, parents first. */
const withBorn = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Outcome> => {
  const born = outcomes.flatMap((outcome) => outcome.born)
  return born.length === 0 ? outcomes : [...outcomes, ...withBorn(born)]
}

/** Outcomes of one table. */
interface Rows {
  readonly table: Outcome["table"]
  readonly changed: ReadonlyArray<{ readonly before: Outcome["row"]; readonly after: Outcome["row"] }>
  readonly created: ReadonlyArray<Outcome["row"]>
}

const rowsOf = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Rows> =>
  [...Map.groupBy(outcomes, ({ table }) => table)].map(([table, of]) => ({
    table,
    changed: of.flatMap(({ before, row }) => (before === undefined || before === row ? [] : [{ before, after: row }])),
    created: of.filter(({ before }) => before === undefined).map(({ row }) => row),
  }))

/** All that goes with the rows: timers, ledger entries, events and so on, each in tables of its own. */
const writingParts = (sql: SqlClient.SqlClient, outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Write> => {
  const set = outcomes.flatMap(({ timers }) => timers.set)
  const isSet = new Set(set.map(({ actor_id, name }) => `${actor_id} ${name}`))
  // A new actor has none.
  const clear = outcomes.flatMap(({ before, timers }) => (before === undefined ? [] : timers.clear))
  const schedules = outcomes.flatMap((outcome) => outcome.schedules)
  const journal = outcomes.flatMap((outcome) => (outcome.journal === undefined ? [] : [outcome.journal]))
  const entries = outcomes.flatMap((outcome) => outcome.entries)
  const movements = outcomes.flatMap((outcome) => outcome.movements)
  const events = outcomes.flatMap((outcome) => outcome.events)
  const unset = clear.filter(({ actor_id, name }) => !isSet.has(`${actor_id} ${name}`))
  return [
    ...writingJournal(sql, journal),
    ...clearingTimers(sql, unset),
    ...settingTimers(sql, set),
    ...postingEntries(sql, entries),
    ...changingSchedules(sql, schedules),
    ...beginningSchedules(sql, schedules),
    ...writingMovements(sql, movements),
    ...appendingEvents(sql, events),
  ]
}

/** On the wall clock, timers have jobs that wake them. */
const wakingTimers = (sql: SqlClient.SqlClient, outcomes: ReadonlyArray<Outcome>): OneStatement =>
  waking(
    sql,
    outcomes.flatMap(({ timers }) =>
      timers.set.flatMap(({ test_clock_id, due_at }) => (test_clock_id === null ? [due_at] : [])),
    ),
  )

const named = (name: string, statement: OneStatement): ReadonlyArray<Write> =>
  statement === undefined ? [] : [[name, statement]]

const changing = (sql: SqlClient.SqlClient, rows: ReadonlyArray<Rows>): ReadonlyArray<Write> =>
  rows.flatMap(({ table, changed }) => named(`${table.name}_changed`, table.updating(sql, changed)))

const creating = (sql: SqlClient.SqlClient, rows: ReadonlyArray<Rows>): ReadonlyArray<Write> =>
  rows.flatMap(({ table, created }) => named(`${table.name}_created`, table.inserting(sql, created)))

const NONE: ReadonlySet<string> = new Set()

/** Inserts rows of which some may be there already; returns the IDs of those. */
const insertNew = Effect.fnUntraced(function* (rows: ReadonlyArray<Rows>) {
  const refused = new Set<string>()
  yield* inOneGo(
    rows.map(({ table, created }) =>
      Effect.map(table.insert(created), (inserted) => {
        for (const { id } of created) if (!inserted.has(id)) refused.add(id)
      }),
    ),
  )
  return refused
})

/**
 * Whether rows change in a statement before the others, since in one statement neither sees the other: what is over makes room for what
 * is new in its table, for the next attempt at a bill, say.
 */
const changesFirst = (rows: ReadonlyArray<Rows>): boolean =>
  rows.some(({ changed, created }) => changed.length > 0 && created.length > 0)

/**
 * Writes transitions of actors whose rows are not locked, one at least, by one statement that is a transaction by itself: unless all of them,
 * and what is checked, are as they were known, nothing is written, and it fails (`isOutdated`). A row that somebody else holds is
 * waited for, `waitsMs` at most. Locks in the order in which everybody does: what is checked, then the tables in the order of their outcomes,
 * each by ID; nothing else is done before all of that has been found unchanged.
 */
export const commitAsKnown = (outcomes: ReadonlyArray<Outcome>, checks: ReadonlyArray<Check>, waitsMs: number) =>
  byItself((sql) => {
    const changes = rowsOf(outcomes).flatMap(({ table, changed }) =>
      named(`${table.name}_changed`, table.updating(sql, changed, true)),
    )
    const checked = checking(sql, checks)
    const rows = rowsOfChecks(checks) + outcomes.length
    const last = refusingOutdated(sql, [...checked, ...changes], rows, wakingTimers(sql, outcomes))
    const limit = sql`set_config('lock_timeout', ${String(waitsMs)}, true)`
    return inOneStatement(sql, [...checked, ...changes, ...writingParts(sql, outcomes)], last, limit)!
  })

/**
 * Writes outcomes: rows, journal, timers with the jobs that wake them, ledger entries, schedules and movements of revenue, events. The
 * rows must be locked. All of it is sent and not waited for, in one statement mostly, which may be kept until the end (`sentWhole`), unless a row may be there already. What was decided by
 * what is remembered is checked before. Returns what was written, the actors that were brought about among it; a new actor that was there
 * already is left out with all that goes with it.
 */
export const commit = Effect.fnUntraced(function* (
  outcomes: ReadonlyArray<Outcome>,
  checks: ReadonlyArray<Check> = [],
) {
  const sql = yield* SqlClient.SqlClient
  const all = withBorn(outcomes)
  const rows = rowsOf(all)
  const changes = changing(sql, rows)
  const checked = checking(sql, checks)
  const checkedFirst = (last: OneStatement): OneStatement =>
    checks.length === 0 ? last : refusingOutdated(sql, checked, rowsOfChecks(checks), last)
  const refuses = rows.some(({ table, created }) => table.refuses && created.length > 0)
  if (!refuses && !changesFirst(rows)) {
    const parts = [...checked, ...changes, ...creating(sql, rows), ...writingParts(sql, all)]
    yield* sentWhole((first) => inOneStatement(sql, parts, checkedFirst(wakingTimers(sql, all)), first))
    return all
  }
  yield* sent(inOneStatement(sql, [...checked, ...changes], checkedFirst(undefined)))
  const refused = refuses ? yield* insertNew(rows) : NONE
  const written = refused.size === 0 ? all : all.filter(({ row }) => !refused.has(row.id))
  const creations = refuses ? [] : creating(sql, rows)
  yield* sent(inOneStatement(sql, [...creations, ...writingParts(sql, written)], wakingTimers(sql, written)))
  return written
})
