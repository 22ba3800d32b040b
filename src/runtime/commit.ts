/** Writes what transitions leave behind, of any actors, in the running transaction: one set-based statement for each kind of row. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
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

/** Writes the rows, table by table; returns the outcomes without those of rows that were there already. */
const writeRows = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  const byTable = Map.groupBy(outcomes, ({ table }) => table)
  const rowsOf = (of: ReadonlyArray<Outcome>, wanted: (outcome: Outcome) => boolean) =>
    of.filter(wanted).map(({ row }) => row)
  const updates = [...byTable].flatMap(([table, of]) => [
    table.update(rowsOf(of, ({ write }) => write === "update")),
    table.edit(rowsOf(of, ({ write, edited }) => write === "update" && edited)),
  ])
  const refused = new Set<string>()
  const inserts = [...byTable].map(([table, of]) => {
    const rows = rowsOf(of, ({ write }) => write === "insert")
    return Effect.map(table.insert(rows), (inserted) => {
      for (const { id } of rows) if (!inserted.has(id)) refused.add(id)
    })
  })
  // What is over makes room: for the next attempt at a bill, and for the next paid period.
  yield* inOneGo([...updates, ...inserts])
  return refused.size === 0 ? outcomes : outcomes.filter(({ row }) => !refused.has(row.id))
})

/**
 * Writes outcomes: rows, journal, timers with the jobs that wake them, ledger entries, schedules and movements of revenue, events. The rows must be locked. Returns
 * what was written, the actors that were brought about among it; a new actor that was there already is left out with all
 * that goes with it.
 */
export const commit = Effect.fnUntraced(function* (outcomes: ReadonlyArray<Outcome>) {
  const written = yield* writeRows(withBorn(outcomes))
  const set = written.flatMap(({ timers }) => timers.set)
  const isSet = new Set(set.map(({ actor_id, name }) => `${actor_id} ${name}`))
  const clear = written.flatMap(({ timers }) => timers.clear)
  yield* inOneGo([
    writeJournal(written.flatMap(({ journal }) => (journal === undefined ? [] : [journal]))),
    clearTimers(clear.filter(({ actor_id, name }) => !isSet.has(`${actor_id} ${name}`))),
    setTimers(set),
    postEntries(written.flatMap(({ entries }) => entries)),
    writeSchedules(written.flatMap(({ schedules }) => schedules)),
    writeMovements(written.flatMap(({ movements }) => movements)),
    appendEvents(written.flatMap(({ events }) => events)),
  ])
  return written
})
