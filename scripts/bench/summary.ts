/**
 * Measures a shop's view of its instalment plans, with many plans: GET /provider-savings/summary of each period, the list of products and
 * pages of the list of plans, over HTTP; compared with the GET of one plan, and with the bare sums as one statement.
 *
 *   npm run bench:summary -- --plans 100000
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import pg from "pg"
import { poolLayer } from "../../src/db/database.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../../test/support/api.ts"
import { startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"

const { plans, products, payments, rounds } = sizes({ plans: 100_000, products: 20, payments: 3, rounds: 30 })

const instance = await startInstance()
const url = await instance.database("summary")
const run = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))

/** Inserts plans of a year, started within the last 90 days, with a payment for each month so far; in every state. */
const seed = (account: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const tenant = sql`${account}::text, false`
    yield* sql`
      INSERT INTO instalment_product (account_id, livemode, id, name, price_kobo, cycle_months, mode, allowed_frequencies, slots_total, slots_used, late_fee_kobo, refund_window_days, is_active, views, created_at, updated_at)
      SELECT ${tenant}, 'prd_' || lpad(n::text, 26, '0'), 'Product ' || n, 24000000, 12, 'fixed', ARRAY['monthly'], NULL, 0, 50000, 7, true, 0, now(), now() FROM generate_series(0, ${products}::int - 1) n`
    yield* sql`
      INSERT INTO customer (account_id, livemode, id, name, email, metadata, created_at)
      SELECT ${tenant}, 'cus_' || lpad(n::text, 26, '0'), 'Buyer ' || n, 'buyer@example.com', '{}', now() FROM generate_series(1, ${plans}::int) n`
    yield* sql`ALTER TABLE instalment_plan DISABLE TRIGGER USER`
    yield* sql`
      INSERT INTO instalment_plan (account_id, livemode, id, product_id, product_name, customer_id, token_hash, state, status, version, mode, frequency, target_kobo, late_fee_kobo, refund_window_days,
        instalments, deadline_at, paid_kobo, fees_paid_kobo, pending_fee_kobo, missed_kobo, payments, reminded_at, completed_at, shipped_at, delivered_at, refund_window_ends_at, cancelled_at, created_at)
      SELECT ${tenant}, 'SB-' || lpad(n::text, 10, '0'), 'prd_' || lpad((n % ${products}::int)::text, 26, '0'), 'Product', 'cus_' || lpad(n::text, 26, '0'), 'hash ' || n, status, status, 4, 'fixed', 'monthly', 24000000, 50000, 7,
        (SELECT jsonb_agg(jsonb_build_object('dueAt', extract(epoch FROM at) * 1000 + k * 2592000000, 'amountKobo', 2000000, 'status', CASE WHEN k < ${payments}::int THEN 'paid' ELSE 'scheduled' END, 'paidAt', NULL)) FROM generate_series(0, 11) k),
        at + interval '1 year', CASE WHEN whole THEN 24000000 ELSE ${payments}::int * 2000000 END, 0, 0, CASE WHEN status = 'overdue' THEN 2000000 ELSE 0 END, ${payments}::int, at,
        CASE WHEN whole THEN at END, CASE WHEN status IN ('shipped', 'delivered') THEN at END, CASE WHEN status = 'delivered' THEN at END, CASE WHEN status = 'delivered' THEN at END,
        CASE WHEN status = 'cancelled' THEN at END, at
      FROM (
        SELECT n, now() - (n % 90) * interval '1 day' AS at, (ARRAY['active', 'active', 'active', 'overdue', 'completed', 'shipped', 'delivered', 'cancelled', 'active', 'pending'])[1 + n % 10] AS status,
          n % 10 BETWEEN 4 AND 6 AS whole FROM generate_series(1, ${plans}::int) n
      ) p`
    yield* sql`ALTER TABLE instalment_plan ENABLE TRIGGER USER`
    yield* sql`
      INSERT INTO charge (account_id, livemode, id, customer_id, attempt_number, amount_kobo, currency, lines, purpose, hosted, payment_method_named, page_id, rail, metadata, created_at, sent_at, asks, not_found, state, status, version,
        will_retry, refund_due, contradictions, paid_at)
      SELECT ${tenant}, 'chg_' || lpad((n * ${payments}::int + k)::text, 26, '0'), 'cus_' || lpad(n::text, 26, '0'), 1, 2000000, 'NGN', '[]', 'instalment', false, false, 'SB-' || lpad(n::text, 10, '0'), 'simulator', '{}',
        at, at, 0, 0, 'succeeded', 'succeeded', 1, false, false, '[]', at
      FROM generate_series(1, ${plans}::int) n, generate_series(0, ${payments}::int - 1) k, LATERAL (SELECT now() - ((n * 7 + k * 31) % 90) * interval '1 day' AS at) t`
    yield* sql`VACUUM ANALYZE`.unprepared
  })

const worst = (values: ReadonlyArray<number>): number => Math.max(...values)

const timed = async (work: () => Promise<unknown>): Promise<ReadonlyArray<number>> => {
  const took: Array<number> = []
  await work()
  for (let round = 0; round < rounds; round++) {
    const startedAt = performance.now()
    await work()
    took.push(performance.now() - startedAt)
  }
  return took
}

const { account, keys } = await run(createAccount({ businessName: "Fit Lagos", vertical: "ecommerce" }))
await run(seed(account.id))
const server = await startServer({ DATABASE_URL: Redacted.value(url), WORKERS: "0" })
const api = createApi(server.origin, keys.sk_test)
const client = new pg.Client({ connectionString: Redacted.value(url) })
await client.connect()

const bare = await timed(() =>
  client.query(
    "SELECT product_id, status, count(*), sum(paid_kobo), sum(target_kobo), sum(missed_kobo) FROM instalment_plan WHERE account_id = $1 AND NOT livemode GROUP BY 1, 2",
    [account.id],
  ),
)
console.log(
  `${plans} plans of ${products} products, ${plans * payments} payments; ${rounds} requests each, one after the other`,
)
console.log(`the bare sums over the table, in SQL   ${median(bare).toFixed(0).padStart(5)} ms`)
for (const path of [
  "/provider-savings/summary?period=7d",
  "/provider-savings/summary",
  "/provider-savings/summary?period=90d",
  "/provider-savings/summary?period=12m",
  "/provider-savings/products",
  "/provider-savings?limit=20",
  "/provider-savings?status=overdue&limit=20",
  `/provider-savings?page=${Math.floor(plans / 20)}&limit=20`,
  `/provider-savings/SB-${"1".padStart(10, "0")}`,
]) {
  const took = await timed(async () => {
    const { status, body } = await api.get(path)
    if (status !== 200) throw new Error(JSON.stringify(body))
  })
  console.log(
    `${path.slice(0, 38).padEnd(38)} ${median(took).toFixed(0).padStart(5)} ms, at worst ${worst(took).toFixed(0).padStart(4)} ms   ${(median(took) / median(bare)).toFixed(2)} of the bare sums`,
  )
}
await client.end()
await server.stop()
instance.stop()
process.exit(0)
