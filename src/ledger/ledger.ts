/** Writing the books, and checking them. */
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, records } from "../db/records.ts"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { CURRENCY } from "../money.ts"
import type { ExportedLine } from "./export.ts"
import type { PostingLine } from "./postings.ts"

export interface NewEntry extends Tenant {
  /** The posting rule. */
  readonly event: string
  /** What it is about, once for ever. */
  readonly idempotencyKey: string
  readonly customerId: string | null
  readonly subscriptionId: string | null
  readonly chargeId: string | null
  /** The entry that this one reverses. */
  readonly reverses?: string | null
  /** In the customer's clock. */
  readonly at: number
  readonly lines: ReadonlyArray<PostingLine>
}

const ENTRY = {
  ...REF_COLUMNS,
  event: "text",
  idempotency_key: "text",
  customer_id: "text",
  subscription_id: "text",
  charge_id: "text",
  effective_on: "date",
  line_count: "smallint",
  reverses: "text",
} as const

const LINE = {
  account_id: "text",
  livemode: "boolean",
  entry_id: "text",
  line_no: "smallint",
  ledger_account: "text",
  detail: "text",
  currency: "text",
  amount_kobo: "bigint",
} as const

/** Dies where an entry's lines do not sum to zero: whatever made it is wrong, and nothing of it is to be written. */
const assertBalanced = (entries: ReadonlyArray<NewEntry>): Effect.Effect<void> => {
  for (const { idempotencyKey, lines } of entries) {
    const sum = lines.reduce((total, { amountKobo }) => total + amountKobo, 0)
    if (lines.length === 0 || sum !== 0)
      return Effect.die(new Error(`The entry ${idempotencyKey} has ${lines.length} lines that sum to ${sum} kobo.`))
  }
  return Effect.void
}

/** Posts entries with all their lines in one statement. They balance: asserted here, and by the database when it commits. */
export const postEntries = Effect.fnUntraced(function* (entries: ReadonlyArray<NewEntry>) {
  if (entries.length === 0) return
  yield* assertBalanced(entries)
  const sql = yield* SqlClient.SqlClient
  const withIds = entries.map((entry) => ({ ...entry, id: newId("ledger_entry") }))
  const entryRows = withIds.map((entry) => ({
    account_id: entry.account_id,
    livemode: entry.livemode,
    id: entry.id,
    event: entry.event,
    idempotency_key: entry.idempotencyKey,
    customer_id: entry.customerId,
    subscription_id: entry.subscriptionId,
    charge_id: entry.chargeId,
    effective_on: new Date(entry.at).toISOString().slice(0, 10),
    line_count: entry.lines.length,
    reverses: entry.reverses ?? null,
  }))
  const lineRows = withIds.flatMap((entry) =>
    entry.lines.map((line, index) => ({
      account_id: entry.account_id,
      livemode: entry.livemode,
      entry_id: entry.id,
      line_no: index + 1,
      ledger_account: line.account,
      detail: line.detail,
      currency: CURRENCY,
      amount_kobo: line.amountKobo,
    })),
  )
  yield* sql`
    WITH entries AS (INSERT INTO ledger_entry (${names(sql, ENTRY)}) SELECT * FROM ${records(sql, entryRows, ENTRY)} e)
    INSERT INTO ledger_line (${names(sql, LINE)}) SELECT * FROM ${records(sql, lineRows, LINE)} l`
})

/** The entry that was posted under a key, for one that reverses it. */
export const reverseOf = Effect.fnUntraced(function* (tenant: Tenant, idempotencyKey: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ id: string }>`
    SELECT id FROM ledger_entry WHERE ${ofTenant(sql, tenant)} AND idempotency_key = ${idempotencyKey}`
  return row?.id ?? null
})

/** How many problems a check lists before it stops looking. */
const MAX_PROBLEMS = 100

interface Finding {
  readonly problem: string
}

/** Every invariant of the books, checked on the rows (not trusting the constraints that keep them). */
export const checkLedger = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [count] = yield* sql<{ entries: number }>`SELECT count(*) AS entries FROM ledger_entry`
  const unbalanced = yield* sql<Finding>`
    SELECT format('entry %s: lines sum to %s kobo, %s of %s lines', e.id, coalesce(sum(l.amount_kobo), 0), count(l.line_no), e.line_count) AS problem
    FROM ledger_entry e
    LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    GROUP BY e.account_id, e.livemode, e.id, e.line_count
    HAVING coalesce(sum(l.amount_kobo), 1) <> 0 OR count(l.line_no) <> e.line_count
    LIMIT ${MAX_PROBLEMS}`
  const orphans = yield* sql<Finding>`
    SELECT format('line %s of entry %s: there is no such entry', l.line_no, l.entry_id) AS problem
    FROM ledger_line l
    LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
    WHERE e.id IS NULL
    LIMIT ${MAX_PROBLEMS}`
  const charges = yield* sql<Finding>`
    SELECT format('charge %s: succeeded over %s kobo, the books show %s at the rail', c.id, c.amount_kobo, coalesce(sum(l.amount_kobo), 0)) AS problem
    FROM charge c
    LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.charge_id) = (c.account_id, c.livemode, c.id) AND e.event NOT IN ('excess', 'refunded')
    LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'clearing'
    WHERE c.status = 'succeeded'
    GROUP BY c.account_id, c.livemode, c.id, c.amount_kobo
    HAVING coalesce(sum(l.amount_kobo), 0) <> c.amount_kobo
    LIMIT ${MAX_PROBLEMS}`
  const refunds = yield* sql<Finding>`
    SELECT format('refund %s: %s over %s kobo, the books show %s sent back', f.id, f.status, f.amount_kobo, coalesce(-sum(l.amount_kobo), 0)) AS problem
    FROM refund f
    LEFT JOIN ledger_entry e ON (e.account_id, e.livemode, e.charge_id) = (f.account_id, f.livemode, f.charge_id) AND e.event = 'refunded'
    LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'clearing'
    GROUP BY f.account_id, f.livemode, f.id, f.status, f.amount_kobo
    HAVING coalesce(-sum(l.amount_kobo), 0) <> CASE WHEN f.status = 'returned' THEN f.amount_kobo ELSE 0 END
    LIMIT ${MAX_PROBLEMS}`
  const receivables = yield* sql<Finding>`
    SELECT format('subscription %s: owes %s kobo by its bill, %s by the books', s.id,
      CASE WHEN s.dunning IS NULL THEN 0 ELSE (s.bill->>'amountKobo')::bigint END, coalesce(owed.kobo, 0)) AS problem
    FROM subscription s
    LEFT JOIN (
      SELECT e.account_id, e.livemode, e.subscription_id, sum(l.amount_kobo) AS kobo
      FROM ledger_entry e JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE l.ledger_account = 'receivable' AND e.subscription_id IS NOT NULL
      GROUP BY 1, 2, 3
    ) owed ON (owed.account_id, owed.livemode, owed.subscription_id) = (s.account_id, s.livemode, s.id)
    WHERE coalesce(owed.kobo, 0) <> CASE WHEN s.dunning IS NULL THEN 0 ELSE (s.bill->>'amountKobo')::bigint END
    LIMIT ${MAX_PROBLEMS}`
  const invoices = yield* sql<Finding>`
    SELECT format('account %s: owes %s kobo by its invoices, %s by the service''s own books', coalesce(i.account_id, b.merchant), coalesce(i.kobo, 0), coalesce(b.kobo, 0)) AS problem
    FROM (SELECT account_id, sum(total_kobo) AS kobo FROM invoice WHERE state IN ('open', 'overdue') GROUP BY 1) i
    FULL JOIN (
      SELECT detail AS merchant, sum(amount_kobo) AS kobo FROM ledger_line WHERE account_id = 'acct_service' AND ledger_account = 'receivable' GROUP BY 1
    ) b ON b.merchant = i.account_id
    WHERE coalesce(i.kobo, 0) <> coalesce(b.kobo, 0)
    LIMIT ${MAX_PROBLEMS}`
  const problems = [...unbalanced, ...orphans, ...charges, ...refunds, ...receivables, ...invoices].map(
    ({ problem }) => problem,
  )
  return { ok: problems.length === 0, entries: count!.entries, problems }
})

/** Entries read at a time for an export: a few megabytes. */
const EXPORT_ENTRIES = 5_000

/** Where a batch ends: the last entry of it. */
interface Cursor {
  readonly account_id: string
  readonly livemode: boolean
  readonly entry_id: string
}

const START: Cursor = { account_id: "", livemode: false, entry_id: "" }

const readBatch = Effect.fnUntraced(function* (account: string | undefined, after: Cursor) {
  const sql = yield* SqlClient.SqlClient
  const mine = account === undefined ? sql`true` : sql`account_id = ${account}`
  return yield* sql<ExportedLine>`
    SELECT e.account_id, e.livemode, e.id AS entry_id, e.event, e.effective_on::text AS effective_on,
      to_char(e.posted_at, 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS posted_at, l.line_no, l.ledger_account, a.kind, l.detail, l.currency,
      l.amount_kobo, e.customer_id, e.subscription_id, e.charge_id
    FROM (
      SELECT * FROM ledger_entry
      WHERE (account_id, livemode, id) > (${after.account_id}, ${after.livemode}, ${after.entry_id}) AND ${mine}
      ORDER BY account_id, livemode, id LIMIT ${EXPORT_ENTRIES}
    ) e
    JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    JOIN ledger_account a ON a.code = l.ledger_account
    ORDER BY e.account_id, e.livemode, e.id, l.line_no`
})

/** Streams the books' lines in batches of whole entries, oldest first by account; of one account, or of all. */
export const readLedger = (account: string | undefined) =>
  Stream.paginate(START, (after) =>
    Effect.map(readBatch(account, after), (lines) => {
      const last = lines.at(-1)
      return last === undefined ? [[], Option.none()] : [[lines], Option.some(last)]
    }),
  )
