/**
 * Measures the books: entries a second through our path against plain multi-row inserts of the same rows; recognising one day of many active
 * subscriptions; and every view for one account's month, over many lines, as the role that reads them.
 *
 *   npm run bench:ledger -- --entries 50000 --standing 1000000 --lines 10000000
 *
 * `--plans-of-views 1` prints the executed plan of each view's query below its time.
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import pg from "pg"
import { dayOf } from "../../src/base/time.ts"
import { poolLayer } from "../../src/db/database.ts"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { closeThrough } from "../../src/ledger/closing.ts"
import { type NewEntry, postEntries } from "../../src/ledger/ledger.ts"
import { recogniseThrough } from "../../src/ledger/recognition.ts"
import { formatDay } from "../../src/ledger/schedule.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { filling, seedActiveSubscriptions, seedBooks } from "./ledger-seed.ts"

const {
  entries,
  standing,
  lines,
  months,
  rounds,
  plans,
  "plans-of-views": explained,
} = sizes({
  entries: 50_000,
  standing: 1_000_000,
  lines: 10_000_000,
  months: 24,
  rounds: 3,
  plans: 20,
  "plans-of-views": 0,
})
const BATCH = 500
/** The largest account's share of all lines; the others have the rest. */
const LARGEST = 0.5
const OTHERS = 9

const instance = await startInstance()
const run = <A, E>(
  url: Redacted.Redacted<string>,
  program: Effect.Effect<A, E, SqlClient.SqlClient>,
  connections = 2,
): Promise<A> => Effect.runPromise(Effect.provide(program, poolLayer(url, connections)))
const timed = async (work: () => Promise<unknown>): Promise<number> => {
  const startedAt = performance.now()
  await work()
  return performance.now() - startedAt
}
const batches = <A>(all: ReadonlyArray<A>): ReadonlyArray<ReadonlyArray<A>> =>
  Array.from({ length: Math.ceil(all.length / BATCH) }, (_, n) => all.slice(n * BATCH, (n + 1) * BATCH))

const TODAY = dayOf(Date.now())
const made = Array.from(
  { length: entries },
  (_, n): NewEntry => ({
    account_id: "acct_bench",
    livemode: true,
    event: "paid",
    idempotencyKey: `paid:sub_${n}:1`,
    customerId: `cus_${n}`,
    subscriptionId: `sub_${n}`,
    chargeId: `chg_${n}`,
    planId: "plan_1",
    billNo: 1,
    testClockId: null,
    day: TODAY,
    reverses: null,
    lines: [
      { account: "clearing", detail: "paystack", amountKobo: 501_000 },
      { account: "deferred_revenue", detail: null, amountKobo: -500_000 },
      { account: "usage_revenue", detail: null, amountKobo: -1_000 },
    ],
  }),
)

/** Our path: a transaction for each batch, like renewals. */
const throughOurs = (url: Redacted.Redacted<string>) =>
  run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      Effect.forEach(
        batches(made),
        (batch) => sql.withTransaction(Effect.map(unitOfWork, (unit) => postEntries(unit, batch))),
        { discard: true },
      ),
    ),
  )

/** Inserts the same rows by `INSERT … VALUES` of many rows, into tables without triggers and foreign keys, with the usual client. */
const throughPlain = async (url: Redacted.Redacted<string>) => {
  const client = new pg.Client({ connectionString: Redacted.value(url) })
  await client.connect()
  await client.query("SET session_replication_role = 'replica'")
  const insert = (table: string, columns: ReadonlyArray<string>, rows: ReadonlyArray<ReadonlyArray<unknown>>) => {
    const values = rows.map((row, n) => `(${row.map((_, m) => `$${n * columns.length + m + 1}`).join(", ")})`)
    return client.query(`INSERT INTO ${table} (${columns.join(", ")}) VALUES ${values.join(", ")}`, rows.flat())
  }
  const day = formatDay(TODAY)
  let id = 0
  for (const batch of batches(made)) {
    const rows = batch.map((entry) => ({ ...entry, id: `le_${String(id++).padStart(26, "0")}` }))
    await client.query("BEGIN")
    await insert(
      "ledger_entry",
      [
        "account_id",
        "livemode",
        "id",
        "event",
        "idempotency_key",
        "customer_id",
        "subscription_id",
        "charge_id",
        "plan_id",
        "bill_no",
        "occurred_on",
        "effective_on",
        "line_count",
      ],
      rows.map((e) => [
        e.account_id,
        e.livemode,
        e.id,
        e.event,
        e.idempotencyKey,
        e.customerId,
        e.subscriptionId,
        e.chargeId,
        e.planId,
        e.billNo,
        day,
        day,
        e.lines.length,
      ]),
    )
    await insert(
      "ledger_line",
      [
        "account_id",
        "livemode",
        "entry_id",
        "line_no",
        "ledger_account",
        "detail",
        "currency",
        "amount_kobo",
        "effective_on",
      ],
      rows.flatMap((e) =>
        e.lines.map((line, n) => [
          e.account_id,
          e.livemode,
          e.id,
          n + 1,
          line.account,
          line.detail,
          "NGN",
          line.amountKobo,
          day,
        ]),
      ),
    )
    await client.query("COMMIT")
  }
  await client.end()
}

const posting = async () => {
  const [ours, plain]: [Array<number>, Array<number>] = [[], []]
  for (let round = 0; round < rounds; round++) {
    for (const [name, work, into] of [
      ["ours", throughOurs, ours],
      ["plain", throughPlain, plain],
    ] as const) {
      const url = await instance.database(`${name}_${round}`)
      await run(
        url,
        Effect.flatMap(
          SqlClient.SqlClient,
          (sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES ('acct_bench', 'Bench', now())`,
        ),
      )
      into.push((entries / (await timed(() => work(url)))) * 1000)
      await instance.drop(`${name}_${round}`)
    }
  }
  const [a, b] = [median(ours), median(plain)]
  console.log(
    `entries a second         ours ${a.toFixed(0).padStart(7)}   plain inserts ${b.toFixed(0).padStart(7)}   ratio ${(a / b).toFixed(2)}`,
  )
}

const recognition = async () => {
  const url = await instance.database("recognition")
  await run(url, filling(seedActiveSubscriptions("acct_standing", standing, plans)))
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM ANALYZE`.unprepared),
  )
  const ms = await timed(() => run(url, recogniseThrough(TODAY - 1)))
  const [row] = await run(
    url,
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) =>
        sql<{
          n: number
          kobo: number
        }>`SELECT count(*) AS n, sum(amount_kobo)::bigint AS kobo FROM ledger_line WHERE ledger_account = 'deferred_revenue'`,
    ),
  )
  console.log(
    `recognising a day of ${standing} subscriptions on ${plans} plans   ${(ms / 1000).toFixed(1)} s   ${row!.n} entries over ${row!.kobo} kobo`,
  )
  await instance.drop("recognition")
}

/** The queries of each view: one account's month, or its current state. */
const questions = (month: string): Readonly<Record<string, string>> => ({
  trial_balance: "SELECT * FROM finance.trial_balance",
  trial_balance_at: `SELECT * FROM finance.trial_balance_at('${month}-28')`,
  general_ledger: `SELECT count(*), sum(debit_kobo) FROM finance.general_ledger WHERE effective_on >= '${month}-01' AND effective_on < '${month}-01'::date + interval '1 month'`,
  "general_ledger, first 1,000 lines": `SELECT * FROM finance.general_ledger WHERE effective_on >= '${month}-01' AND effective_on < '${month}-01'::date + interval '1 month' LIMIT 1000`,
  receivables_ageing: "SELECT * FROM finance.receivables_ageing",
  deferred_revenue: `SELECT * FROM finance.deferred_revenue WHERE month = '${month}-01' AND livemode`,
  clearing: `SELECT count(*), sum(balance_kobo) FROM finance.clearing WHERE month = '${month}-01'`,
  revenue_by_plan: `SELECT * FROM finance.revenue_by_plan WHERE month = '${month}-01'`,
  vat: `SELECT * FROM finance.vat WHERE month = '${month}-01'`,
  mrr_movements: `SELECT * FROM finance.mrr_movements WHERE month = '${month}-01'`,
  dunning: `SELECT * FROM finance.dunning WHERE month = '${month}-01'`,
  unbilled_units: "SELECT * FROM finance.unbilled_units",
  deposits: "SELECT * FROM finance.deposits",
  refunds_owed: "SELECT * FROM finance.refunds_owed",
  card_verifications: "SELECT * FROM finance.card_verifications",
  settlements: `SELECT count(*) FROM finance.settlements WHERE month = '${month}-01'`,
  "recognition of one subscription": "SELECT * FROM finance.recognition WHERE subscription = 'acct_largest_sub_77'",
  "recognition of a plan's day": `SELECT count(*), sum(amount_kobo) FROM finance.recognition WHERE plan = 'acct_largest_plan_7' AND day = '${month}-15'`,
  reconciliation_exceptions: "SELECT * FROM finance.reconciliation_exceptions",
  exceptions: `SELECT * FROM finance.exceptions WHERE month = '${month}-01'`,
  "exceptions, all of them": "SELECT * FROM finance.exceptions",
  invariants: "SELECT * FROM finance.invariants",
})

/** Returns the executed steps, with the index conditions. */
const steps = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  let isDone = true
  return lines.filter((line) => {
    const isStep = line.includes("->") || line.includes("(actual") || line.includes("(never")
    if (isStep) isDone = !line.includes("(never executed)")
    return isDone && (isStep || line.includes("Index Cond:"))
  })
}

/** Returns the executed plan of a query, indented. */
const planOf = async (client: pg.Client, question: string): Promise<string> => {
  const { rows } = await client.query<{ "QUERY PLAN": string }>(
    `EXPLAIN (ANALYZE, COSTS OFF, BUFFERS OFF, SUMMARY OFF) ${question}`,
  )
  return steps(rows.map((row) => row["QUERY PLAN"]))
    .map((line) => `    ${line}`)
    .join("\n")
}

const views = async () => {
  const url = await instance.database("views")
  // Three lines a bill, plus a tenth of a line for the late ones.
  const bills = lines / 3.1
  const largest = Math.round((bills * LARGEST) / months)
  const small = Math.round((bills * (1 - LARGEST)) / months / OTHERS)
  const accounts: ReadonlyArray<readonly [string, number]> = [
    ["acct_largest", largest],
    ...Array.from({ length: OTHERS }, (_, n) => [`acct_small_${n}`, small] as const),
  ]
  for (const [account, subscribers] of accounts) await run(url, filling(seedBooks(account, subscribers, plans, months)))
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM ANALYZE`.unprepared),
  )
  const day = await timed(() => run(url, recogniseThrough(TODAY - 1)))
  const last = new Date(Date.now() - 31 * 86_400_000).toISOString().slice(0, 7)
  const closing = await timed(() =>
    run(
      url,
      closeThrough(new Date(Date.now() - 62 * 86_400_000).toISOString().slice(0, 7), "Generated for the benchmark"),
    ),
  )
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM ANALYZE`.unprepared),
  )
  const [count] = await run(
    url,
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql<{ n: number; mine: number; month: number }>`
    SELECT count(*) AS n, count(*) FILTER (WHERE account_id = 'acct_largest') AS mine,
      count(*) FILTER (WHERE account_id = 'acct_largest' AND finance.month_of(effective_on) = ${`${last}-01`}::date) AS month FROM ledger_line`,
    ),
  )
  console.log(
    `${count!.n} lines, ${count!.mine} of the largest account, ${count!.month} of its month ${last}; ${months} months of recognition took ${(day / 1000).toFixed(1)} s, closing ${(closing / 1000).toFixed(1)} s`,
  )
  const client = new pg.Client({ connectionString: Redacted.value(url) })
  await client.connect()
  await client.query("SET ROLE finance_reader")
  await client.query("SET billing.account = 'acct_largest'")
  for (const [name, question] of Object.entries(questions(last))) {
    const took: Array<number> = []
    let rows = 0
    for (let round = 0; round < rounds; round++)
      took.push(
        await timed(async () => {
          rows = (await client.query(question)).rowCount ?? 0
        }),
      )
    console.log(`${name.padEnd(36)} ${median(took).toFixed(0).padStart(7)} ms   ${rows} rows`)
    if (explained > 0) console.log(await planOf(client, question))
  }
  await client.end()
}

if (entries > 0) await posting()
if (standing > 0) await recognition()
if (lines > 0) await views()
instance.stop()
process.exit(0)
