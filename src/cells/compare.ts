/** Compares both sides of a move: their versions and settings before the move, and the account's rows and books after the copy. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { checkLedger } from "../ledger/ledger.ts"
import { type Replayable, replayJournal } from "../runtime/replay.ts"
import { cellProblem } from "./CellProblem.ts"
import { readIdentity } from "./identity.ts"
import { differing, openServiceSecrets } from "./join.ts"
import type { Sides } from "./sides.ts"
import { countRows } from "./tables.ts"

/** Reads the settings that both cells must share, beside their secrets. */
const readRequirements = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ migration: string; open_from: string; wal_level: string }>`
    SELECT (SELECT max(name) FROM schema_migration) AS migration, ledger_open_from()::text AS open_from,
      current_setting('wal_level') AS wal_level`
  return row!
})

/** Fails if the cells differ in a setting that a move needs: version, open months of the books, or `wal_level`. */
export const requireAlike = Effect.fnUntraced(function* ({ at }: Sides) {
  const [here, there] = [yield* at("source", readRequirements), yield* at("target", readRequirements)]
  if (here.migration !== there.migration)
    return yield* cellProblem(
      `The cells run different versions (${here.migration}, ${there.migration}): upgrade both first.`,
    )
  if (here.open_from !== there.open_from)
    return yield* cellProblem(
      `The books are open from ${here.open_from} here and from ${there.open_from} there: close both through the same month first.`,
    )
  if (here.wal_level !== "logical")
    return yield* cellProblem(`Postgres here has wal_level ${here.wal_level}: set it to logical and restart Postgres.`)
})

/** Returns the name of the target's cell. Fails if that cell has not joined this deployment. */
export const requireJoined = Effect.fnUntraced(function* ({ at }: Sides) {
  const cell = yield* Cell
  const identity = yield* at("target", readIdentity)
  const [ours, theirs] = [yield* at("source", openServiceSecrets), yield* at("target", openServiceSecrets)]
  if (identity?.joined !== true || differing(ours, theirs).length > 0)
    return yield* cellProblem("The other cell has not joined this deployment: run `cell join` there.")
  if (identity.id === cell) return yield* cellProblem(`The other cell is also ${cell}.`)
  return identity.id
})

/** Checks the copied rows of the account at the target: its books balance, and every journal replays to its row. */
export const prove = Effect.fnUntraced(function* (account: string, replayables: ReadonlyArray<Replayable>) {
  const { ok, problems } = yield* checkLedger(account)
  if (!ok) return yield* cellProblem(`The books of ${account} are not correct at the other cell: ${problems[0]}`)
  const { differing } = yield* replayJournal(replayables, [], account)
  const [first] = differing
  if (first !== undefined)
    return yield* cellProblem(`A lifecycle of ${account} differs at the other cell: ${first.actor}, ${first.reason}.`)
})

/** Reads the balances of an account's books, by ledger account (kobo). */
const readBooks = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ code: string; kobo: string }>`
    SELECT livemode || ' ' || ledger_account AS code, sum(amount_kobo)::text AS kobo FROM ledger_line
    WHERE account_id = ${account} GROUP BY 1 ORDER BY 1`
  return new Map(rows.map(({ code, kobo }) => [code, kobo]))
})

const firstDifference = <A>(one: ReadonlyMap<string, A>, other: ReadonlyMap<string, A>): string | undefined =>
  [...new Set([...one.keys(), ...other.keys()])].find(
    (name) => JSON.stringify(one.get(name)) !== JSON.stringify(other.get(name)),
  )

/** Compares the account on both sides, which must not change meanwhile. Returns its number of rows. */
export const compare = Effect.fnUntraced(function* (account: string, sides: Sides) {
  const read = Effect.all([countRows(sides.tables, account), readBooks(account)])
  const [[ourRows, ourBooks], [theirRows, theirBooks]] = yield* Effect.all(
    [sides.at("source", read), sides.at("target", read)],
    { concurrency: 2 },
  )
  const table = firstDifference(ourRows, theirRows)
  if (table !== undefined) {
    const [ours, theirs] = [ourRows.get(table), theirRows.get(table)].map((counted) => JSON.stringify(counted))
    return yield* cellProblem(`${account} differs in ${table}: ${ours} here, ${theirs} there.`)
  }
  const code = firstDifference(ourBooks, theirBooks)
  if (code !== undefined) return yield* cellProblem(`The books of ${account} differ in ${code}.`)
  return [...ourRows.values()].reduce((sum, { rows }) => sum + rows, 0)
})
