/** Fills books with years of business: subscriptions, their bills, charges, entries and schedules. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** Removes time limits and allows all query plans, for statements that fill a table. */
const unbounded = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`
    SELECT set_config('statement_timeout', '0', false), set_config('enable_seqscan', 'on', false), set_config('enable_hashjoin', 'on', false),
      set_config('enable_mergejoin', 'on', false), set_config('synchronous_commit', 'off', false)`,
)

/** Runs `work` on one connection without triggers and foreign keys: its rows are correct by construction. */
export const filling = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(
      Effect.andThen(Effect.andThen(unbounded, sql`SET LOCAL session_replication_role = 'replica'`.unprepared), work),
    ),
  )

const accountWithPlans = Effect.fnUntraced(function* (account: string, plans: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`INSERT INTO account (id, business_name, created_at) VALUES (${account}, ${account}, '2020-01-01Z')`
  yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    SELECT ${account}, true, ${account} || '_plan_' || n, 'Plan ' || n, 500000, 'NGN', 'monthly', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now()
    FROM generate_series(1, ${plans}::int) n`
})

/** Inserts customers with a subscription each, started on the days of the month `months` before the current one. */
const subscribers = Effect.fnUntraced(function* (account: string, count: number, plans: number, months: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
    SELECT ${account}, true, ${account} || '_cus_' || n, 'Customer ' || n, '{}', now() FROM generate_series(1, ${count}::int) n`
  yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
    SELECT ${account}, true, ${account} || '_sub_' || n, ${account} || '_cus_' || n, ${account} || '_plan_' || (n % ${plans}::int + 1), 'active.current', 'active', 2, 'monthly', 500000, 1, start,
      start, ${months}::int - 1, start + (${months}::int - 1) * interval '1 month', start + ${months}::int * interval '1 month', 1, start + ${months}::int * interval '1 month', false, ${months}::int, '{}', start
    FROM (SELECT n, date_trunc('month', now()) - ${months}::int * interval '1 month' + (n % 28) * interval '1 day' AS start FROM generate_series(1, ${count}::int) n) s`
  yield* sql`
    INSERT INTO mrr_movement (account_id, livemode, subscription_id, version, customer_id, plan_id, moved_on, kind, change_kobo, mrr_kobo)
    SELECT account_id, livemode, id, 2, customer_id, plan_id, start_at::date, 'new', 500000, 500000 FROM subscription WHERE account_id = ${account}`
})

/**
 * Inserts the books of an account with `count` subscribers over `months` months: a bill a month, each with units and a schedule. One in twenty
 * bills is first owed and paid a day later. About 3 lines a bill. IDs are in order of time, like real ones.
 */
export const seedBooks = Effect.fnUntraced(function* (account: string, count: number, plans: number, months: number) {
  const sql = yield* SqlClient.SqlClient
  yield* accountWithPlans(account, plans)
  yield* subscribers(account, count, plans, months)
  for (let month = 0; month < months; month++) {
    const bills = sql`
      (SELECT s.account_id, s.id, s.customer_id, s.plan_id, ${month}::int + 1 AS no, s.start_at + ${month}::int * interval '1 month' AS starts, s.start_at + (${month}::int + 1) * interval '1 month' AS ends,
        hashtext(s.id || ${month}::int) % 20 = 0 AS late, 1000 AS usage, lpad(${month}::text, 3, '0') || '_' || s.id AS key
      FROM subscription s WHERE s.account_id = ${account})`
    yield* sql`
      INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, currency, period_start_at, period_end_at, lines, rail, state, status, version, sent_at, paid_at, created_at)
      SELECT account_id, true, 'chg_' || key, customer_id, id, no, CASE WHEN late THEN 2 ELSE 1 END, 501000, 'NGN', starts, ends, '[]', 'paystack', 'succeeded', 'succeeded', 1, starts, starts, starts FROM ${bills} b`
    yield* sql`
      INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, customer_id, subscription_id, charge_id, plan_id, bill_no, occurred_on, effective_on, line_count)
      SELECT account_id, true, 'le_' || key, CASE WHEN late THEN 'owed' ELSE 'paid' END, key, customer_id, id, CASE WHEN late THEN NULL ELSE 'chg_' || key END, plan_id, no, starts, starts, 3 FROM ${bills} b
      UNION ALL
      SELECT account_id, true, 'le_' || key || '_late', 'overdue_paid', key || '_late', customer_id, id, 'chg_' || key, plan_id, no, starts + interval '1 day', starts + interval '1 day', 2 FROM ${bills} b WHERE late`
    yield* sql`
      INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, detail, currency, amount_kobo, effective_on)
      SELECT account_id, true, 'le_' || key, 1, CASE WHEN late THEN 'receivable' ELSE 'clearing' END, CASE WHEN late THEN customer_id ELSE 'paystack' END, 'NGN', 501000, starts FROM ${bills} b
      UNION ALL SELECT account_id, true, 'le_' || key, 2, 'deferred_revenue', NULL, 'NGN', -500000, starts FROM ${bills} b
      UNION ALL SELECT account_id, true, 'le_' || key, 3, 'usage_revenue', NULL, 'NGN', -1000, starts FROM ${bills} b
      UNION ALL SELECT account_id, true, 'le_' || key || '_late', 1, 'clearing', 'paystack', 'NGN', 501000, starts + interval '1 day' FROM ${bills} b WHERE late
      UNION ALL SELECT account_id, true, 'le_' || key || '_late', 2, 'receivable', customer_id, 'NGN', -501000, starts + interval '1 day' FROM ${bills} b WHERE late`
    yield* sql`
      INSERT INTO revenue_schedule (account_id, livemode, subscription_id, bill_no, part, customer_id, plan_id, price_kobo, amount_kobo, carried_kobo, vat_kobo, start_on, end_on, from_on, until_on)
      SELECT account_id, true, id, no, 1, customer_id, plan_id, 500000, 500000, 0, 0, starts, ends, starts, ends FROM ${bills} b`
  }
  yield* sql`INSERT INTO revenue_book (account_id, livemode, id) VALUES (${account}, true, 'wall')`
})

/** Inserts subscribers in the middle of a period, and nothing else: the data that recognition reads for one day. */
export const seedActiveSubscriptions = Effect.fnUntraced(function* (account: string, count: number, plans: number) {
  const sql = yield* SqlClient.SqlClient
  yield* accountWithPlans(account, plans)
  yield* subscribers(account, count, plans, 1)
  yield* sql`
    INSERT INTO revenue_schedule (account_id, livemode, subscription_id, bill_no, part, customer_id, plan_id, price_kobo, amount_kobo, carried_kobo, vat_kobo, start_on, end_on, from_on, until_on)
    SELECT account_id, true, id, 1, 1, customer_id, plan_id, 500000, 500000 + hashtext(id) % 1000, 0, 0, (now() - (hashtext(id) & 15) * interval '1 day')::date - 1, (now() - (hashtext(id) & 15) * interval '1 day')::date + 29,
      (now() - (hashtext(id) & 15) * interval '1 day')::date - 1, (now() - (hashtext(id) & 15) * interval '1 day')::date + 29
    FROM subscription WHERE account_id = ${account}`
  yield* sql`
    INSERT INTO revenue_book (account_id, livemode, id, closed_on, posted_on) VALUES (${account}, true, 'wall', current_date - 2, current_date - 2)`
})
