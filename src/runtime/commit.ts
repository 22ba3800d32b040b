/** Writes what transitions leave behind, of any actors, in the running transaction: one set-based statement for each kind of row. */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { inOneGo } from "../db/pipelining.ts"
import { names, records } from "../db/records.ts"
import { appendEvents } from "../event/events.ts"
import { postEntries } from "../ledger/ledger.ts"
import { writeMovements } from "../ledger/mrr.ts"
import { writeSchedules } from "../ledger/schedules.ts"
import type { JournalRow, Outcome } from "./outcome.ts"
import { clearTimers, setTimers } from "./timers.ts"

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

const writeJournal = Effect.fnUntraced(function* (rows: ReadonlyArray<JournalRow>) {
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO lifecycle_journal (${names(sql, JOURNAL)}) SELECT * FROM ${records(sql, rows, JOURNAL)} r`
})

/** The outcomes with those of the actors they bring about, parents first. */
const withBorn = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Outcome> => {
  const born = outcomes.flatMap((outcome) => outcome.born)
  return born.length === 0 ? outcomes : [...outcomes, ...withBorn(born)]
}

type Write = Effect.Effect<unknown, SqlError.SqlError, SqlClient.SqlClient>

/** What writes the rows, table by table; `refused` gets the IDs of those that were there already. */
const rowsOf = (outcomes: ReadonlyArray<Outcome>, refused: Set<string>): ReadonlyArray<Write> => {
  const byTable = Map.groupBy(outcomes, ({ table }) => table)
  const updates = [...byTable].map(([table, of]) =>
    table.update(
      of.flatMap(({ before, row }) => (before === undefined || before === row ? [] : [{ before, after: row }])),
    ),
  )
  const inserts = [...byTable].map(([table, of]) => {
    const rows = of.filter(({ before }) => before === undefined).map(({ row }) => row)
    return Effect.map(table.insert(rows), (inserted) => {
      for (const { id } of rows) if (!inserted.has(id)) refused.add(id)
    })
  })
  // What is over makes room: for the next attempt at a bill, and for the next paid period.
  return [...updates, ...inserts]
}

/** What writes all that goes with the rows. */
const partsOf = (outcomes: ReadonlyArray<Outcome>): ReadonlyArray<Write> => {
  const set = outcomes.flatMap(({ timers }) => timers.set)
  const isSet = new Set(set.map(({ actor_id, name }) => `${actor_id} ${name}`))
  const clear = outcomes.flatMap(({ timers }) => timers.clear)
  return [
    writeJournal(outcomes.flatMap(({ journal }) => (journal === undefined ? [] : [journal]))),
    clearTimers(clear.filter(({ actor_id, name }) => !isSet.has(`${actor_id} ${name}`))),
    setTimers(set),
    postEntries(outcomes.flatMap(({ entries }) => entries)),
    writeSchedules(outcomes.flatMap(({ schedules }) => schedules)),
    writeMovements(outcomes.flatMap(({ movements }) => movements)),
    appendEvents(outcomes.flatMap(({ events }) => events)),
  ]
}

/**
 * Writes outcomes: rows, journal, timers with the jobs that wake them, ledger entries, schedules and movements of revenue, events; in
 * one go, unless a row may be there already. The rows must be locked. Returns what was written, the actors that were brought about
 * among it; a new actor that was there already is left out with all that goes with it.
 */
export const commit = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  const all = withBorn(outcomes)
  const refused = new Set<string>()
  const rows = rowsOf(all, refused)
  if (!all.some(({ table, before }) => before === undefined && table.refuses)) {
    yield* inOneGo([...rows, ...partsOf(all)])
    return all
  }
  yield* inOneGo(rows)
  const written = refused.size === 0 ? all : all.filter(({ row }) => !refused.has(row.id))
  yield* inOneGo(partsOf(written))
  return written
})
