/** What both sides of a move have in common: what they must before an account moves, and the account itself once it is copied. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { checkLedger } from "../ledger/ledger.ts"
import { type Replayable, replayJournal } from "../runtime/replay.ts"
import { apart } from "./CellsApart.ts"
import { readIdentity } from "./identity.ts"
import { differing, openServiceSecrets } from "./join.ts"
import type { Sides } from "./sides.ts"
import { countRows } from "./tables.ts"

/** What both must have in common beside their secrets. */
const readTerms = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ migration: string; open_from: string; wal_level: string }>`
    SELECT (SELECT max(name) FROM schema_migration) AS migration, ledger_open_from()::text AS open_from,
      current_setting('wal_level') AS wal_level`
  return row!
})

/** Fails where the two cells are not of one deployment, or differ in something that an account would be broken by. */
export const requireAlike = Effect.fnUntraced(function* ({ at }: Sides) {
  const [here, there] = [yield* at("source", readTerms), yield* at("target", readTerms)]
  if (here.migration !== there.migration)
    return yield* apart(`The cells run different versions (${here.migration}, ${there.migration}): upgrade both first.`)
  if (here.open_from !== there.open_from)
    return yield* apart(
      `The books are open from ${here.open_from} here and from ${there.open_from} there: close both through the same month first.`,
    )
  if (here.wal_level !== "logical")
    return yield* apart(`Postgres here has wal_level ${here.wal_level}: set it to logical and restart Postgres.`)
})

/** The cell of the target; fails where it is not of this deployment. */
export const requireJoined = Effect.fnUntraced(function* ({ at }: Sides) {
  const cell = yield* Cell
  const identity = yield* at("target", readIdentity)
  const [ours, theirs] = [yield* at("source", openServiceSecrets), yield* at("target", openServiceSecrets)]
  if (identity?.joined !== true || differing(ours, theirs).length > 0)
    return yield* apart("The other cell has not joined this deployment: run `cell join` there.")
  if (identity.id === cell) return yield* apart(`The other cell is ${cell}, too.`)
  return identity.id
})

/** Proves what has been copied so far, as it stands at one moment: the books and every lifecycle of the account. */
export const prove = Effect.fnUntraced(function* (account: string, replayables: ReadonlyArray<Replayable>) {
  const { ok, problems } = yield* checkLedger(account)
  if (!ok) return yield* apart(`The books of ${account} do not hold at the other cell: ${problems[0]}`)
  const { differing } = yield* replayJournal(replayables, [], account)
  const [first] = differing
  if (first !== undefined)
    return yield* apart(`A lifecycle of ${account} differs at the other cell: ${first.actor}, ${first.reason}.`)
})

/** What the books of an account come to, by ledger account. */
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

/** Compares both sides, of which neither is written; returns how many rows they have. */
export const compare = Effect.fnUntraced(function* (account: string, sides: Sides) {
  const read = Effect.all([countRows(sides.tables, account), readBooks(account)])
  const [[ourRows, ourBooks], [theirRows, theirBooks]] = yield* Effect.all(
    [sides.at("source", read), sides.at("target", read)],
    { concurrency: 2 },
  )
  const table = firstDifference(ourRows, theirRows)
  if (table !== undefined) {
    const [ours, theirs] = [ourRows.get(table), theirRows.get(table)].map((counted) => JSON.stringify(counted))
    return yield* apart(`${account} differs in ${table}: ${ours} here, ${theirs} there.`)
  }
  const code = firstDifference(ourBooks, theirBooks)
  if (code !== undefined) return yield* apart(`The books of ${account} differ in ${code}.`)
  return [...ourRows.values()].reduce((sum, { rows }) => sum + rows, 0)
})
