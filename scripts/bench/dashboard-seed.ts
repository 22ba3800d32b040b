/** Fills an account with subscriptions and charges for the benchmark of the dashboard. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface Size {
  readonly subscriptions: number
  /** Charges of each subscription: one a month, the last one in the current month. */
  readonly months: number
  readonly plans: number
}

/** The last part of IDs, as long as that of real ones: the object's number. */
const SUFFIX = 26

/** The ID of the n-th object of a kind. */
export const seededId = (prefix: string, n: number | string): string => `${prefix}_${String(n).padStart(SUFFIX, "0")}`

/** Inserts plans, customers and their subscriptions. One in twenty is cancelled. */
const subscribers = Effect.fnUntraced(function* (account: string, { subscriptions, plans, months }: Size) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    SELECT ${account}, true, 'plan_' || lpad(n::text, ${SUFFIX}, '0'), 'Plan ' || n, 500000, 'NGN', 'monthly', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now()
    FROM generate_series(1, ${plans}::int) n`
  yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, email, metadata, created_at)
    SELECT ${account}, true, 'cus_' || lpad(n::text, ${SUFFIX}, '0'), 'Customer ' || n, 'customer-' || n || '@example.com', '{}', now()
    FROM generate_series(1, ${subscriptions}::int) n`
  yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at, cancelled_at, cancellation_reason)
    SELECT ${account}, true, 'sub_' || lpad(n::text, ${SUFFIX}, '0'), 'cus_' || lpad(n::text, ${SUFFIX}, '0'), 'plan_' || lpad((n % ${plans}::int + 1)::text, ${SUFFIX}, '0'),
      CASE WHEN n % 20 = 0 THEN 'cancelled.nonpayment' ELSE 'active.current' END, CASE WHEN n % 20 = 0 THEN 'cancelled' ELSE 'active' END, 2, 'monthly', 500000, 1, start,
      start, ${months}::int - 1, start + (${months}::int - 1) * interval '1 month', start + ${months}::int * interval '1 month', 1,
      CASE WHEN n % 20 <> 0 THEN start + ${months}::int * interval '1 month' END, false, ${months}::int, '{}', start,
      CASE WHEN n % 20 = 0 THEN now() END, CASE WHEN n % 20 = 0 THEN 'nonpayment' END
    FROM (
      SELECT n, date_trunc('month', now()) - (${months}::int - 1) * interval '1 month' + (n % 28) * interval '1 day' - interval '28 days' AS start
      FROM generate_series(1, ${subscriptions}::int) n
    ) s`
  yield* sql`
    INSERT INTO mrr_movement (account_id, livemode, subscription_id, version, customer_id, plan_id, moved_on, kind, change_kobo, mrr_kobo)
    SELECT account_id, livemode, id, 2, customer_id, plan_id, start_at::date, 'new', 500000, 500000 FROM subscription WHERE account_id = ${account}`
})

/** Inserts the charges of one month. One in thirty has failed. */
const chargesOf = Effect.fnUntraced(function* (account: string, month: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, currency, period_start_at, period_end_at, lines, rail, state, status, version, failure_code, sent_at, paid_at, created_at)
    SELECT account_id, true, 'chg_' || lpad(${month}::text, 3, '0') || right(id, ${SUFFIX - 3}), customer_id, id, ${month}::int, 1, 500000, 'NGN', starts, starts + interval '1 month', '[]',
      'paystack', CASE WHEN failed THEN 'failed' ELSE 'succeeded' END, CASE WHEN failed THEN 'failed' ELSE 'succeeded' END, 1,
      CASE WHEN failed THEN 'insufficient_funds' END, starts, CASE WHEN failed THEN NULL ELSE starts END, starts
    FROM (
      SELECT account_id, id, customer_id, start_at + (${month}::int - 1) * interval '1 month' AS starts, hashtext(id || ${month}::text) % 30 = 0 AS failed
      FROM subscription WHERE account_id = ${account}
    ) s`
})

/** Fills a live account. IDs are in order of time, like real ones. */
export const seedAccount = Effect.fnUntraced(function* (account: string, size: Size) {
  yield* subscribers(account, size)
  for (let month = 1; month <= size.months; month++) yield* chargesOf(account, month)
})
