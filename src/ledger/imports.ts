/** Settlement files that members upload: a file is tried first, kept until it is confirmed, and booked as its account, in batches. */
import { Readable } from "node:stream"
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../base/ids.ts"
import { problem } from "../base/problem.ts"
import { currentTime } from "../base/wallClock.ts"
import { names, rowsAsTable } from "../db/rows.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { ofTenant, type Tenant, tenantOf } from "../db/tenant.ts"
import type { RailName } from "../rails/rail/Rail.ts"
import { BadFile, rowsIn, type SettledRow } from "./settlementFile.ts"
import { SettlementImport, type Unmatched } from "./settlements.ts"

/** Rows that one transaction books, with locks for a moment only. */
const MAX_BATCH = 500
/** Rows of an uploaded file: they are booked while the member waits, in some ten seconds. */
export const MAX_ROWS = 20_000
/** Rows that do not match, as many as are kept to be shown. */
const MAX_UNMATCHED = 200

/** What a file books, or has booked. */
export interface ImportResult {
  readonly rows: number
  readonly matched: number
  readonly booked: number
  readonly fees_kobo: number
  readonly payouts_kobo: number
  readonly unmatched_count: number
  readonly unmatched: ReadonlyArray<Pick<Unmatched, "reference" | "reason" | "amount_kobo" | "row">>
}

export interface ImportRow extends ImportResult {
  readonly id: string
  readonly rail: RailName
  readonly file_name: string
  readonly sha256: string
  readonly uploaded_at: number
  readonly uploaded_by: string
  readonly booked_at: number | null
}

/** Reads the rows of a file, or fails with what is wrong in it. */
const readRows = Effect.fnUntraced(function* (rail: RailName, file: Buffer) {
  const all = Stream.fromAsyncIterable(rowsIn(rail, Readable.from([file])), (error) =>
    problem("parameter_invalid", error instanceof BadFile ? error.message : "The file cannot be read.", "file"),
  )
  const rows: ReadonlyArray<SettledRow> = yield* Stream.runCollect(Stream.take(all, MAX_ROWS + 1))
  if (rows.length > MAX_ROWS)
    return yield* problem("parameter_invalid", `The file may have at most ${MAX_ROWS} rows: split it.`, "file")
  return rows
})

const resultOf = ({ matched, booked, fees, payouts, unmatched, unmatchedCount }: SettlementImport, rows: number) =>
  ({
    rows,
    matched,
    booked,
    fees_kobo: fees,
    payouts_kobo: payouts,
    unmatched_count: unmatchedCount,
    unmatched: unmatched
      .slice(0, MAX_UNMATCHED)
      .map(({ reference, reason, amount_kobo, row }) => ({ reference, reason, amount_kobo, row })),
  }) satisfies ImportResult

const batchesOf = (rows: ReadonlyArray<SettledRow>): ReadonlyArray<ReadonlyArray<SettledRow>> =>
  Array.from({ length: Math.ceil(rows.length / MAX_BATCH) }, (_, at) =>
    rows.slice(at * MAX_BATCH, (at + 1) * MAX_BATCH),
  )

/** Finds out what a file would book for a tenant. It sees the payments of this tenant only. */
export const tryFile = Effect.fnUntraced(function* (tenant: Tenant, rail: RailName, file: Buffer) {
  const { reading } = yield* TenantDatabase
  const rows = yield* readRows(rail, file)
  const settling = new SettlementImport(rail, { isTrial: true })
  yield* reading(
    tenant,
    Effect.forEach(batchesOf(rows), (batch) => settling.settle(batch), { discard: true }),
  )
  return resultOf(settling, rows.length)
})

/** Books a file for a tenant. After a failure it can be booked again: no row is booked twice. */
export const bookFile = Effect.fnUntraced(function* (tenant: Tenant, rail: RailName, file: Buffer) {
  const { writing } = yield* TenantDatabase
  const rows = yield* readRows(rail, file)
  const settling = new SettlementImport(rail)
  yield* Effect.forEach(batchesOf(rows), (batch) => writing(tenant, settling.settle(batch)), { discard: true })
  return resultOf(settling, rows.length)
})

const COLUMNS = {
  account_id: "text",
  livemode: "boolean",
  id: "text",
  rail: "text",
  file_name: "text",
  sha256: "text",
  uploaded_at: "timestamptz",
  uploaded_by: "text",
  rows: "integer",
  matched: "integer",
  booked: "integer",
  fees_kobo: "bigint",
  payouts_kobo: "bigint",
  unmatched_count: "integer",
  unmatched: "jsonb",
} as const

interface NewImport {
  readonly rail: RailName
  readonly file_name: string
  readonly sha256: string
  readonly uploaded_by: string
  readonly file: Buffer
  readonly result: ImportResult
}

/** Keeps a file that waits to be confirmed, in place of the one before. Returns its ID. In the running transaction. */
export const keepFile = Effect.fnUntraced(function* (tenant: Tenant, { file, result, ...about }: NewImport) {
  const sql = yield* SqlClient.SqlClient
  const id = newId("settlement_import")
  const row = { ...tenantOf(tenant), id, uploaded_at: currentTime(), ...about, ...result }
  yield* sql`DELETE FROM settlement_import WHERE ${ofTenant(sql, tenant)} AND booked_at IS NULL`
  yield* sql`
    INSERT INTO settlement_import (${names(COLUMNS)}, file)
    SELECT r.*, decode(${file.toString("base64")}, 'base64') FROM ${rowsAsTable([row], COLUMNS)} r`
  return id
})

const SHOWN = `id, rail, file_name, sha256, uploaded_at, uploaded_by, booked_at, rows, matched, booked, fees_kobo, payouts_kobo, unmatched_count, unmatched`

/** Reads imports, the newest first, after one. */
export const readImports = Effect.fnUntraced(function* (tenant: Tenant, after: string | null, limit: number) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<ImportRow>`
    SELECT ${sql.literal(SHOWN)} FROM settlement_import
    WHERE ${ofTenant(sql, tenant)} AND ${after === null ? sql`true` : sql`id < ${after}`} ORDER BY id DESC LIMIT ${limit}`
})

/** Reads an import; undefined: there is none. */
export const findImport = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<ImportRow>`
    SELECT ${sql.literal(SHOWN)} FROM settlement_import WHERE ${ofTenant(sql, tenant)} AND id = ${id}`
  return row
})

/** Reads the file of an import that waits to be confirmed. */
export const readFile = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ readonly file: string }>`
    SELECT encode(file, 'base64') AS file FROM settlement_import
    WHERE ${ofTenant(sql, tenant)} AND id = ${id} AND booked_at IS NULL`
  if (row === undefined)
    return yield* problem("resource_missing", "No file waits here: it was booked, or another one took its place.")
  return Buffer.from(row.file, "base64")
})

/** Stores what a file has booked, and drops the file, in the running transaction. */
export const keepResult = Effect.fnUntraced(function* (tenant: Tenant, id: string, result: ImportResult) {
  const sql = yield* SqlClient.SqlClient
  const { matched, booked, fees_kobo, payouts_kobo, unmatched_count, unmatched } = result
  yield* sql`
    UPDATE settlement_import SET file = NULL, booked_at = now(), matched = ${matched}, booked = ${booked}, fees_kobo = ${fees_kobo},
      payouts_kobo = ${payouts_kobo}, unmatched_count = ${unmatched_count}, unmatched = ${JSON.stringify(unmatched)}::jsonb
    WHERE ${ofTenant(sql, tenant)} AND id = ${id} AND booked_at IS NULL`
})
