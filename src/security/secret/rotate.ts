/**
 * Secrets written anew under the newest key: those that older keys sealed, and those from before secrets were sealed at all.
 * In batches that commit, so it may end anywhere, be run again, by several at once, and beside servers, which read every
 * form that their keys open.
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { type ColumnTypes, names, rowsAsTable } from "../../db/rows.ts"
import { staysHere } from "../../db/tenant.ts"
import { MARK_BYTES, type Place, Vault } from "./Vault.ts"

/** Locked at once, for some ten milliseconds. */
const MAX_BATCH = 500
/** How many places a refusal names. */
const MAX_NAMED = 3

/** A table that has secrets in its column `sealed`. */
export interface SecretTable<Row> {
  readonly name: string
  /** The columns of its primary key, in their order, then those that its places need beside them. */
  readonly key: ColumnTypes
  /** The column that has them in the clear, from before they were sealed; undefined: there never was one. */
  readonly clear: string | undefined
  readonly placeOf: (row: Row) => Place
}

interface Stored {
  readonly clear: string | Uint8Array | null
  readonly sealed: Uint8Array | null
}

/** How a table is asked for what is not sealed, and told that it is. */
const clearIn = (sql: SqlClient.SqlClient, { clear }: Pick<SecretTable<never>, "clear">) =>
  clear === undefined
    ? { value: sql`NULL`, isClear: sql`false`, erase: sql`` }
    : { value: sql`${sql(clear)}`, isClear: sql`sealed IS NULL`, erase: sql`, ${sql(clear)} = NULL` }

/** Writes the next secrets anew, in the order of their keys, from behind `after`; returns the last key that it came to. */
const rotateBatch = Effect.fnUntraced(function* <Row extends object>(table: SecretTable<Row>, after: Row | undefined) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const columns = names(table.key)
  const { value, isClear, erase } = clearIn(sql, table)
  const behind =
    after === undefined ? sql`` : sql`AND (${columns}) > (SELECT * FROM ${rowsAsTable([after], table.key)} a)`
  // Of an account that moves nothing is written: its secrets go on as they are.
  const isWritten = "account_id" in table.key ? staysHere(sql, table.name) : sql`true`
  const rows = yield* sql<Row & Stored>`
    SELECT ${columns}, ${value} AS clear, sealed FROM ${sql(table.name)}
    WHERE (${isClear} OR encode(substring(sealed FROM 1 FOR ${MARK_BYTES}::integer), 'hex') <> ${vault.marks[0]!}) ${behind} AND ${isWritten}
    ORDER BY ${columns} LIMIT ${MAX_BATCH} FOR UPDATE`
  const [opened, unopened] = yield* Effect.partition(rows, (row) => {
    const place = table.placeOf(row)
    const secret = row.sealed === null ? Effect.succeed(Redacted.make(row.clear!)) : vault.open(place, row.sealed)
    return Effect.mapBoth(secret as Effect.Effect<Redacted.Redacted<string | Uint8Array>, unknown>, {
      onSuccess: (found) => ({ ...row, anew: Buffer.from(vault.seal(place, found)).toString("hex") }),
      onFailure: () => place,
    })
  })
  const same = sql.literal(
    Object.keys(table.key)
      .map((column) => `t.${column} = r.${column}`)
      .join(" AND "),
  )
  yield* sql`
    UPDATE ${sql(table.name)} t SET sealed = decode(r.anew, 'hex')${erase}
    FROM ${rowsAsTable(opened, { ...table.key, anew: "text" })} r WHERE ${same}`
  return { rotated: opened.length, unopened, last: rows.length < MAX_BATCH ? undefined : rows.at(-1) }
})

/** Writes all secrets of a table anew; returns how many, and where those are that no key opens. */
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
