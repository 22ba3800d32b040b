/** Posts ledger entries, and checks the books. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { newId } from "../base/ids.ts"
import { CURRENCY } from "../base/money.ts"
import { names, REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import { livesHere, ofTenant, type Tenant, tenantName, tenantOf } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import { type EntryEvent, type FactsOf, linesOf, type PostingLine } from "./postings.ts"
import { formatDay } from "./schedule.ts"

/** The objects that an entry is about. */
export interface About extends Tenant {
  readonly customerId?: string | null
  readonly subscriptionId?: string | null
  readonly chargeId?: string | null
  /** The plan that is sold, or whose revenue it is. */
  readonly planId?: string | null
  /** The subscription's bill. */
  readonly billNo?: number | null
  readonly testClockId: string | null
  /** Days since the epoch, in the customer's clock. */
  readonly day: number
  /** Why a person booked it; left out if the service booked it. */
  readonly reason?: string
}

export interface NewEntry extends About {
  readonly event: EntryEvent
  /** Unique for ever: the rule and a key of its subject. */
  readonly idempotencyKey: string
  /** The entry that this one reverses. */
  readonly reverses: string | null
  readonly lines: ReadonlyArray<PostingLine>
}

/** Makes the entry of a rule, unique for ever by its `key`. Returns no entry if all lines are zero. */
export const entriesOf = <E extends EntryEvent>(
  event: E,
  key: string,
  about: About,
  facts: FactsOf<E>,
  reverses: string | null = null,
): ReadonlyArray<NewEntry> => {
  const lines = linesOf(event, facts)
  return lines.length === 0 ? [] : [{ ...about, event, idempotencyKey: `${event}:${key}`, reverses, lines }]
}

const ENTRY = {
  ...REF_COLUMNS,
  event: "text",
  idempotency_key: "text",
  customer_id: "text",
  subscription_id: "text",
  charge_id: "text",
  plan_id: "text",
  bill_no: "integer",
  test_clock_id: "text",
  occurred_on: "date",
  line_count: "smallint",
  reverses: "text",
  reason: "text",
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
const DATED_LINE = { ...LINE, occurred_on: "date" } as const

/** Throws if an entry's lines do not sum to zero: this is a bug, and nothing may be written. */
const assertBalanced = (entries: ReadonlyArray<NewEntry>): void => {
  for (const { idempotencyKey, lines } of entries) {
    const sum = lines.reduce((total, { amountKobo }) => total + amountKobo, 0)
    if (lines.length === 0 || sum !== 0)
      throw new Error(`The entry ${idempotencyKey} has ${lines.length} lines that sum to ${sum} kobo.`)
  }
}

/**
 * Posts entries with all their lines. That they balance is asserted here, and by the database at commit. A fact of a closed month is
 * booked on the first open day, as a correction of the newest closed entry about the same bill, charge or plan. Returns the entries' IDs.
 */
export const postEntries = (unit: UnitOfWork, entries: ReadonlyArray<NewEntry>): ReadonlyArray<string> => {
  if (entries.length === 0) return []
  assertBalanced(entries)
  const { sql } = unit
  const withIds = entries.map((entry) => ({ ...entry, id: newId("ledger_entry"), occurred_on: formatDay(entry.day) }))
  const entryRows = withIds.map((entry) => ({
    account_id: entry.account_id,
    livemode: entry.livemode,
    id: entry.id,
    event: entry.event,
    idempotency_key: entry.idempotencyKey,
    customer_id: entry.customerId ?? null,
    subscription_id: entry.subscriptionId ?? null,
    charge_id: entry.chargeId ?? null,
    plan_id: entry.planId ?? null,
    bill_no: entry.billNo ?? null,
    test_clock_id: entry.testClockId,
    occurred_on: entry.occurred_on,
    line_count: entry.lines.length,
    reverses: entry.reverses,
    reason: entry.reason ?? null,
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
      occurred_on: entry.occurred_on,
    })),
  )
  // Finds all entries of the same bill or charge, then the newest. With ORDER BY id, a query plan made while the table was small
  // would read all entries of the account.
  const newestClosed = (same: Fragment) =>
    sql`(SELECT max(id) FROM (SELECT c.id, c.effective_on FROM ledger_entry c WHERE ${same} OFFSET 0) o WHERE o.effective_on < b.open_from)`
  const insertEntries = sql`
      INSERT INTO ledger_entry (${names(ENTRY)}, effective_on, corrects)
      SELECT e.*, greatest(e.occurred_on, b.open_from), CASE WHEN e.occurred_on < b.open_from THEN coalesce(
        ${newestClosed(sql`(c.account_id, c.livemode, c.subscription_id, c.bill_no) = (e.account_id, e.livemode, e.subscription_id, e.bill_no)`)},
        ${newestClosed(sql`(c.account_id, c.livemode, c.charge_id) = (e.account_id, e.livemode, e.charge_id)`)},
        (SELECT c.id FROM ledger_entry c WHERE (c.account_id, c.livemode, c.plan_id) = (e.account_id, e.livemode, e.plan_id) AND c.event = 'recognised'
          AND c.effective_on < b.open_from AND e.event = 'recognised' ORDER BY c.effective_on DESC, c.id DESC LIMIT 1)
      ) END
      FROM ${rowsAsTable(entryRows, ENTRY)} e JOIN books b ON (b.account_id, b.livemode) = (e.account_id, e.livemode)`
  const insertLines = sql`
    INSERT INTO ledger_line (${names(LINE)}, effective_on)
    SELECT ${sql.literal(
      Object.keys(LINE)
        .map((name) => `l.${name}`)
        .join(", "),
    )}, greatest(l.occurred_on, b.open_from)
    FROM ${rowsAsTable(lineRows, DATED_LINE)} l JOIN books b ON (b.account_id, b.livemode) = (l.account_id, l.livemode)`
  const tenants = [...new Map(entries.map((entry) => [tenantName(entry), tenantOf(entry)])).values()]
  const books = sql`
    SELECT t.account_id, t.livemode, ledger_open_from(t.account_id, t.livemode) AS open_from
    FROM ${rowsAsTable(tenants, { account_id: "text", livemode: "boolean" })} t`
  unit.add([
    ["books", books],
    ["entries", insertEntries],
    ["lines", insertLines],
  ])
  return withIds.map(({ id }) => id)
}

/** Returns the ID of the entry with this idempotency key, for its reversal; null: no such entry. */
export const reverseOf = Effect.fnUntraced(function* (tenant: Tenant, idempotencyKey: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ id: string }>`
    SELECT id FROM ledger_entry WHERE ${ofTenant(sql, tenant)} AND idempotency_key = ${idempotencyKey}`
  return row?.id ?? null
})

/** How many problems a check lists. */
const MAX_PROBLEMS = 100

/**
 * Checks every rule of the books, of one account or of all (`finance.rules`). It checks the rows and does not trust the
 * constraints.
 */
export const checkLedger = Effect.fn("ledger.check")(function* (account?: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      yield* withFullScans
      yield* sql`SELECT set_config('billing.account', ${account ?? ""}, true)`
      const [count] = yield* sql<{ entries: number }>`
        SELECT count(*) AS entries FROM ledger_entry WHERE ${account === undefined ? livesHere(sql, "ledger_entry") : sql`account_id = ${account}`}`
      const breaches = yield* sql<{ problem: string }>`SELECT problem FROM finance.breaches LIMIT ${MAX_PROBLEMS}`
      return { ok: breaches.length === 0, entries: count!.entries, problems: breaches.map(({ problem }) => problem) }
    }),
  )
})
