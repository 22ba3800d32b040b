/** The invoice table: its columns are the machine's snapshot. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { InvoiceContext } from "../../machines/invoice.ts"
import { type Columns, lockRows, names, REF_COLUMNS, records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import type { ActorRow } from "../lifecycle/advance.ts"
import type { InvoiceLine } from "./lines.ts"

/** Instants are milliseconds since the epoch. */
export interface InvoiceRow extends ActorRow {
  /** A draft is in no row: it is opened in the transaction that inserts it. */
  readonly state: "drafted" | "open" | "overdue" | "paid" | "void"
  readonly period_start_at: number
  readonly period_end_at: number
  readonly currency: string
  readonly lines: ReadonlyArray<InvoiceLine>
  readonly total_kobo: number
  readonly due_at: number
  readonly paid_at: number | null
  readonly created_at: number
}

export const contextOf = (row: InvoiceRow): InvoiceContext => ({ dueAt: row.due_at, paidAt: row.paid_at })

const INSERTED = {
  ...REF_COLUMNS,
  state: "text",
  version: "integer",
  period_start_at: "timestamptz",
  period_end_at: "timestamptz",
  lines: "jsonb",
  total_kobo: "bigint",
  due_at: "timestamptz",
  created_at: "timestamptz",
} as const satisfies Columns<InvoiceRow>

/** Inserts invoices of months that have none yet; answers those that it inserted. */
export const insertInvoices = (rows: ReadonlyArray<InvoiceRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return []
    const sql = yield* SqlClient.SqlClient
    return yield* sql<InvoiceRow>`
      INSERT INTO invoice (${names(sql, INSERTED)}) SELECT * FROM ${records(sql, rows, INSERTED)} r
      ON CONFLICT (period_start_at, account_id, livemode) DO NOTHING RETURNING *`
  })

const MOVING = { ...REF_COLUMNS, state: "text", version: "integer", paid_at: "timestamptz" } as const

export const updateInvoices = (rows: ReadonlyArray<InvoiceRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE invoice i SET state = r.state, version = r.version, paid_at = r.paid_at FROM ${records(sql, rows, MOVING)} r
      WHERE (i.account_id, i.livemode, i.id) = (r.account_id, r.livemode, r.id)`
  })

/** Locks invoices and reads them, in ID order. */
export const lockInvoices = (refs: ReadonlyArray<Ref>) => lockRows<InvoiceRow>("invoice", refs)
