import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { idBefore } from "../../src/base/ids.ts"
import { DAY_MS } from "../../src/base/time.ts"

/** The default is a separate account with renewals due since midnight. */
interface Options {
  readonly account?: string
  readonly dueAt?: number
}

/** Inserts subscriptions like those of the service: the first `due` are due at one instant, the others within the month. */
export const seed = (
  due: number,
  standing: number,
  { account = "acct_bench", dueAt = new Date().setUTCHours(0, 0, 0, 0) }: Options = {},
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`INSERT INTO account (id, business_name, created_at) VALUES (${account}, 'Bench', now()) ON CONFLICT DO NOTHING`
    yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    VALUES (${account}, false, 'plan_bench', 'Bench', 500000, 'NGN', 'monthly', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now())`
    const total = due + standing
    yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
    SELECT ${account}, false, 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, '{}', now() FROM generate_series(1, ${total}::int) n`
    yield* sql`
    INSERT INTO payment_method (account_id, livemode, id, customer_id, type, brand, last4, exp_month, exp_year, created_at)
    SELECT ${account}, false, 'pm_test_success', 'cus_' || lpad(n::text, 26, '0'), 'card', 'visa', '4242', 12, 2034, now() FROM generate_series(1, ${total}::int) n`
    yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
    SELECT ${account}, false, 'sub_' || lpad(n::text, 26, '0'), 'cus_' || lpad(n::text, 26, '0'), 'plan_bench', 'pm_test_success', 'active.current', 'active', 2, 'monthly', 500000, 1, start,
      start, 0, start, start + interval '1 month', 1, start + interval '1 month', false, 1, '{}', start
    FROM (
      SELECT n, CASE WHEN n <= ${due}::int THEN to_timestamp(${dueAt / 1000}::float8) - interval '1 month' ELSE now() - interval '1 month' + interval '1 day' + (n % 27) * interval '1 day' + (n % 86400) * interval '1 second' END AS start
      FROM generate_series(1, ${total}::int) n
    ) s`
    yield* sql`
    INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event)
    SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current' FROM subscription WHERE account_id = ${account}`
    yield* sql`ANALYZE`.unprepared
  })

/** Inserts the data of years of renewals: paid charges, with three journal rows and two events each, recorded in the last month. */
export const seedPast = (charges: number, subscriptions: number, account = "acct_bench") =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    if (charges === 0) return
    // The first characters of IDs made this many days ago.
    const idsByDay = `ARRAY[${Array.from({ length: 28 }, (_, day) => `'${idBefore("event", Date.now() - (day + 1) * DAY_MS)}'`).join()}]`
    const nth = sql`lpad(n::text, 25, '0')`
    const past = sql`
      SELECT n, ${account}::text AS account_id, false AS livemode, 'sub_' || lpad((1 + n % ${subscriptions}::int)::text, 26, '0') AS subscription_id,
        'cus_' || lpad((1 + n % ${subscriptions}::int)::text, 26, '0') AS customer_id, now() - interval '2 months' - (n / ${charges}::float8) * interval '2 years' AS at
      FROM generate_series(1, ${charges}::int) n`
    yield* sql.withTransaction(
      Effect.gen(function* () {
        // Skips all checks: the rows are like those of the service.
        yield* sql`SET LOCAL session_replication_role = replica`.unprepared
        yield* sql`SET LOCAL synchronous_commit = off`.unprepared
        yield* sql`SET LOCAL statement_timeout = 0`.unprepared
        // Indexes are created at the end, each in one step.
        yield* sql`SET LOCAL maintenance_work_mem = '1GB'`.unprepared
        const indexes = yield* sql<{ name: string; definition: string }>`
          SELECT indexrelid::regclass::text AS name, pg_get_indexdef(indexrelid) AS definition
          FROM pg_index WHERE indrelid = ANY('{charge,lifecycle_journal,event}'::regclass[]) AND NOT indisunique`
        for (const { name } of indexes) yield* sql.unsafe(`DROP INDEX ${name}`)
        yield* sql`
          INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, period_start_at, period_end_at, lines, payment_method, rail, state, status, version,
            sent_at, created_at, paid_at)
          SELECT account_id, livemode, 'chg_0' || ${nth}, customer_id, subscription_id, 1000000 + n, 1, 500000, at, at + interval '1 second',
            '[{"type": "plan", "description": "Plan", "quantity": 1, "unit_amount": 500000, "amount": 500000}]',
            '{"id": "pm_test_success", "type": "card", "brand": "visa", "last4": "4242", "bank_name": null, "exp_month": 12, "exp_year": 2034}',
            'simulator', 'succeeded', 'succeeded', 1, at, at, at FROM (${past}) p`
        yield* sql`
          INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version, recorded_at)
          SELECT account_id, livemode, CASE k WHEN 1 THEN 'chg_0' || ${nth} ELSE subscription_id END, 1000000 + 2 * n + k, CASE k WHEN 1 THEN 'charge' ELSE 'subscription' END, at,
            '{"type": "xstate.after.periodEnd.subscription.active.current", "at": 1700000000000}', 'active.current', 'active.charging', '["attemptCharge"]', 1, at
          FROM (${past}) p, generate_series(1, 3) k`
        yield* sql`
          INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at, recorded_at)
          SELECT account_id, livemode, (${sql.literal(idsByDay)})[1 + n * 28 / (${charges}::int + 1)] || k || lpad((${charges}::int - n)::text, 15, '0'), CASE k WHEN 1 THEN 'charge.succeeded' ELSE 'subscription.renewed' END, subscription_id,
            '{"object": "' || repeat(md5(n::text), 26) || '", "previous_attributes": {}}', at, now() - interval '1 day' - (n / ${charges}::float8) * interval '28 days'
          FROM (${past}) p, generate_series(1, 2) k`
        for (const { definition } of indexes) yield* sql.unsafe(definition)
      }),
    )
    yield* sql`SET statement_timeout = 0`.unprepared
    yield* sql`VACUUM (ANALYZE)`.unprepared
  })
