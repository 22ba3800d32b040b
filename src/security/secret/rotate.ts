/**
 * Seals secrets that older keys sealed again under the newest key. Each batch commits, so the rotation can stop anywhere, run
 * again, and run in several processes at the same time. Servers keep running: they open what any of their keys sealed.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type ColumnTypes, names, rowsAsTable } from "../../db/rows.ts"
import { staysHere } from "../../db/tenant.ts"
import { MARK_BYTES, type Place, Vault } from "./Vault.ts"

/** Rows that one transaction locks, for some ten milliseconds. */
const MAX_BATCH = 500
/** Limit of places that a refusal names. */
const MAX_NAMED = 3

/** A table with secrets in its column `sealed`. */
export interface SecretTable<Row> {
  readonly name: string
  /** The columns of its primary key, in their order, then other columns that `placeOf` needs. */
  readonly key: ColumnTypes
  readonly placeOf: (row: Row) => Place
}

interface Stored {
  readonly sealed: Uint8Array
}

/** Seals the next secrets after `after` again, in key order; returns the last key of the batch. */
const rotateBatch = Effect.fnUntraced(function* <Row extends object>(table: SecretTable<Row>, after: Row | undefined) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const columns = names(table.key)
  const following =
    after === undefined ? sql`` : sql`AND (${columns}) > (SELECT * FROM ${rowsAsTable([after], table.key)} a)`
  // The rows of an account that moves to another cell are not written: its secrets stay as they are.
  const isWritten = "account_id" in table.key ? staysHere(sql, table.name) : sql`true`
  const rows = yield* sql<Row & Stored>`
    SELECT ${columns}, sealed FROM ${sql(table.name)}
    WHERE encode(substring(sealed FROM 1 FOR ${MARK_BYTES}::integer), 'hex') <> ${vault.marks[0]!} ${following} AND ${isWritten}
    ORDER BY ${columns} LIMIT ${MAX_BATCH} FOR UPDATE`
  const [opened, unopened] = yield* Effect.partition(rows, (row) => {
    const place = table.placeOf(row)
    return Effect.mapBoth(vault.open(place, row.sealed), {
      onSuccess: (secret) => ({ ...row, resealed: Buffer.from(vault.seal(place, secret)).toString("hex") }),
      onFailure: () => place,
    })
  })
  const isSameRow = sql.literal(
    Object.keys(table.key)
      .map((column) => `t.${column} = r.${column}`)
      .join(" AND "),
  )
  yield* sql`
    UPDATE ${sql(table.name)} t SET sealed = decode(r.resealed, 'hex')
    FROM ${rowsAsTable(opened, { ...table.key, resealed: "text" })} r WHERE ${isSameRow}`
  return { rotated: opened.length, unopened, last: rows.length < MAX_BATCH ? undefined : rows.at(-1) }
})

/** Seals all secrets of a table again; returns how many, how many no key opens, and the first places of these. */
export const rotate = Effect.fn("secrets.rotate")(function* <Row extends object>(table: SecretTable<Row>) {
  const sql = yield* SqlClient.SqlClient
  let rotated = 0
  let unopened = 0
  const named: Array<Place> = []
  let after: Row | undefined
  do {
    const batch = yield* sql.withTransaction(rotateBatch(table, after))
    rotated += batch.rotated
    unopened += batch.unopened.length
    named.push(...batch.unopened.slice(0, MAX_NAMED - named.length))
    after = batch.last
  } while (after !== undefined)
  return { rotated, unopened, named }
})
