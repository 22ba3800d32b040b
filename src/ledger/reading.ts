/** Reads the whole books in the order of their days, for exports. */
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { rowsAsTable } from "../db/rows.ts"
import { livesHere, type Ref } from "../db/tenant.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import type { ExportedLine } from "./exported.ts"

/** Entries that an export reads at a time: a few megabytes. */
const EXPORT_ENTRIES = 5_000

/** Selects the part of the books to read. */
export interface BooksFilter {
  readonly account?: string | undefined
  readonly livemode?: boolean | undefined
  /** `YYYY-MM`, by `effective_on`. */
  readonly month?: string | undefined
}

const selected = (sql: SqlClient.SqlClient, { account, livemode, month }: BooksFilter) => sql`
  ${livesHere(sql, "ledger_entry")} AND ${account === undefined ? sql`true` : sql`account_id = ${account}`}
  AND ${livemode === undefined ? sql`true` : sql`livemode = ${livemode}`}
  AND ${
    month === undefined
      ? sql`true`
      : sql`effective_on >= ${`${month}-01`}::date AND effective_on < ${`${month}-01`}::date + interval '1 month'`
  }`

/** Counts the entries that {@link readLedger} will read. */
export const countEntries = Effect.fnUntraced(function* (filter: BooksFilter) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number }>`SELECT count(*) AS n FROM ledger_entry WHERE ${selected(sql, filter)}`
  return row!.n
})

/** Reads the names of merchants by account: of one account, or of all of this cell and of the service itself. */
export const readNames = Effect.fnUntraced(function* ({ account }: BooksFilter) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly id: string; readonly business_name: string }>`
    SELECT id, business_name FROM account a WHERE ${livesHere(sql, "a", "id")} AND ${account === undefined ? sql`true` : sql`id = ${account}`} ORDER BY id`
  return rows.map(({ id, business_name }): readonly [string, string] => [id, business_name])
})

/** Reads the lines of entries, in the order of the entries. */
const readLines = Effect.fnUntraced(function* (entries: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const rows = entries.map(({ account_id, livemode, id }, no) => ({ no, account_id, livemode, id }))
  return yield* sql<ExportedLine>`
    SELECT e.account_id, e.livemode, e.id AS entry_id, e.event, e.effective_on::text AS effective_on, e.occurred_on::text AS occurred_on,
      to_char(e.posted_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS posted_at, l.line_no, l.ledger_account, a.kind, l.detail, l.currency,
      l.amount_kobo, e.customer_id, e.subscription_id, e.charge_id, e.plan_id, e.corrects, e.reason
    FROM ${rowsAsTable(rows, { no: "integer", account_id: "text", livemode: "boolean", id: "text" })} r
    JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id)
    JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    JOIN ledger_account a ON a.code = l.ledger_account
    ORDER BY r.no, l.line_no`
})

/**
 * Streams the books' lines in batches of whole entries, in the order of their days. One snapshot fixes the order. It stays on a
 * separate connection without an open transaction, so that a slow reader blocks nothing.
 */
export const readLedger = (filter: BooksFilter) =>
  Stream.unwrap(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const connection = yield* sql.reserve
      const onConnection = Effect.provideService(sql.transactionService, [connection, 0])
      yield* onConnection(sql`BEGIN`.unprepared)
      yield* onConnection(withFullScans)
      yield* onConnection(
        sql`
          DECLARE entries CURSOR WITH HOLD FOR
          SELECT account_id, livemode, id FROM ledger_entry WHERE ${selected(sql, filter)} ORDER BY effective_on, account_id, livemode, id`
          .unprepared,
      )
      yield* onConnection(sql`COMMIT`.unprepared)
      const next = onConnection(sql<Ref>`FETCH ${sql.literal(String(EXPORT_ENTRIES))} FROM entries`.unprepared)
      return Stream.fromEffectRepeat(next).pipe(
        Stream.takeWhile((entries) => entries.length > 0),
        Stream.mapEffect(readLines),
      )
    }),
  )
