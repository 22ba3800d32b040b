/** Fills an account with subscriptions, charges and their records for the benchmark of the dashboard. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { seedBooks } from "./dashboard-books.ts"

export interface Size {
  readonly subscriptions: number
  /** Charges of each subscription: one a month, the last one in the current month. */
  readonly months: number
  readonly plans: number
}

/** The last part of IDs, as long as that of real ones: the object's number. */
const SUFFIX = 26

/** Transitions of the last subscription. */
const TRANSITIONS = 400

/** The ID of the n-th object of a kind. */
export const seededId = (prefix: string, n: number | string): string => `${prefix}_${String(n).padStart(SUFFIX, "0")}`

/** The bill and the dunning of a subscription of which `starts` is the newest period. */
const BILL = `jsonb_build_object('no', bills, 'purpose', 'renewal', 'quantity', 1, 'lines', jsonb_build_array(jsonb_build_object('type', 'base', 'description', 'Plan', 'amountKobo', 500000)),
  'amountKobo', 500000, 'attempt', 1, 'attemptedAt', ms, 'origin', 'schedule', 'methodId', NULL, 'nextMethod', NULL, 'standIn', NULL,
  'anchorAt', extract(epoch FROM start)::bigint * 1000, 'periodNo', bills - 1, 'periodStart', ms, 'periodEnd', extract(epoch FROM ends)::bigint * 1000)`
const DUNNING = `jsonb_build_object('policy', '{"maxAttempts": 3, "intervalsDays": [1, 3, 7], "escalation": "none", "cancelAfterDays": 60}'::jsonb,
  'firstFailedAt', ms, 'retriesMade', 0, 'nextRetryAt', extract(epoch FROM now() + interval '1 day')::bigint * 1000, 'gaveUp', false)`

/** Inserts plans, customers and their subscriptions. One in twenty is cancelled, and one in forty overdue. */
const subscribers = Effect.fnUntraced(function* (account: string, { subscriptions, plans, months }: Size) {
  const sql = yield* SqlClient.SqlClient
  // Shops have all pages.
  yield* sql`UPDATE account SET vertical = 'ecommerce' WHERE id = ${account}`
  yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    SELECT ${account}, true, 'plan_' || lpad(n::text, ${SUFFIX}, '0'), 'Plan ' || n, 500000, 'NGN', 'monthly', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}',
      '{"enabled": true, "channels": ["email"], "pre_due_days": [3], "post_due_days": [1]}', '{}', now(), now()
    FROM generate_series(1, ${plans}::int) n`
  yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, email, metadata, created_at)
    SELECT ${account}, true, 'cus_' || lpad(n::text, ${SUFFIX}, '0'), 'Customer ' || n, 'customer-' || n || '@example.com', '{}', now()
    FROM generate_series(1, ${subscriptions}::int) n`
  yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, bill, dunning, metadata, created_at, cancelled_at, cancellation_reason)
    SELECT ${account}, true, 'sub_' || lpad(n::text, ${SUFFIX}, '0'), 'cus_' || lpad(n::text, ${SUFFIX}, '0'), 'plan_' || lpad((n % ${plans}::int + 1)::text, ${SUFFIX}, '0'),
      CASE WHEN n % 20 = 0 THEN 'cancelled' WHEN n % 40 = 1 THEN 'overdue.retrying' ELSE 'active.current' END,
      CASE WHEN n % 20 = 0 THEN 'cancelled' WHEN n % 40 = 1 THEN 'past_due' ELSE 'active' END, 2, 'monthly', 500000, 1, start,
      start, bills - 1, starts, ends, 1, CASE WHEN n % 20 <> 0 AND n % 40 <> 1 THEN ends END, false, bills,
      CASE WHEN n % 40 = 1 THEN ${sql.literal(BILL)} END, CASE WHEN n % 40 = 1 THEN ${sql.literal(DUNNING)} END, '{}', start,
      CASE WHEN n % 20 = 0 THEN now() END, CASE WHEN n % 20 = 0 THEN 'nonpayment' END
    FROM (
      SELECT n, ${months}::int AS bills, start, start + (${months}::int - 1) * interval '1 month' AS starts, start + ${months}::int * interval '1 month' AS ends,
        extract(epoch FROM start + (${months}::int - 1) * interval '1 month')::bigint * 1000 AS ms
      FROM (
        SELECT n, date_trunc('month', now()) - (${months}::int - 1) * interval '1 month' + (n % 28) * interval '1 day' - interval '28 days' AS start
        FROM generate_series(1, ${subscriptions}::int) n
      ) t
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

/** The transitions of the subscriptions in their newest period; the last one has hundreds. */
const transitionsOf = Effect.fnUntraced(function* (account: string, { subscriptions }: Size) {
  const sql = yield* SqlClient.SqlClient
  const last = seededId("sub", subscriptions)
  const columns = sql.literal(
    "account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version, recorded_at, status_from, status_to",
  )
  yield* sql`
    INSERT INTO lifecycle_journal (${columns})
    SELECT account_id, livemode, id, 2, 'subscription', period_start_at, jsonb_build_object('type', 'charge.succeeded', 'at', extract(epoch FROM period_start_at)::bigint * 1000),
      'active.renewing', state, '[]', 1, now() - (hashtext(id) & 2047) * interval '10 minutes', 'active', status FROM subscription WHERE account_id = ${account}`
  yield* sql`
    INSERT INTO lifecycle_journal (${columns})
    SELECT account_id, livemode, id, n, 'subscription', period_start_at, jsonb_build_object('type', 'units', 'at', extract(epoch FROM period_start_at)::bigint * 1000, 'quantity', n, 'action', 'increment'),
      state, state, '[]', 1, now(), status, status FROM subscription, generate_series(3, ${TRANSITIONS}::int) n WHERE account_id = ${account} AND id = ${last}`
  yield* sql`UPDATE subscription SET version = ${TRANSITIONS} WHERE account_id = ${account} AND id = ${last}`
})

/** Inserts a request, a record of activity and an event for each subscription. */
const recordsOf = Effect.fnUntraced(function* (account: string, { subscriptions }: Size) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO api_request (account_id, livemode, id, at, method, path, status, error_code, key_id, key_last4, duration_us, is_replay)
    SELECT ${account}, true, 'req_' || lpad(n::text, ${SUFFIX}, '0'), now(), 'POST', '/v1/subscriptions/sub_' || lpad(n::text, ${SUFFIX}, '0') || '/units',
      CASE WHEN n % 50 = 0 THEN 402 ELSE 200 END, CASE WHEN n % 50 = 0 THEN 'payment_failed' END, 'key_bench', 'abcd', 5000, false
    FROM generate_series(1, ${subscriptions}::int) n`
  yield* sql`
    INSERT INTO activity (account_id, livemode, id, at, actor_kind, actor_id, actor_name, action, object_kind, object_id, request_id)
    SELECT account_id, livemode, 'act_' || right(id, ${SUFFIX}), at, 'key', key_id, key_last4, 'subscription.units', 'subscription', 'sub_' || right(id, ${SUFFIX}), id
    FROM api_request WHERE account_id = ${account}`
  yield* sql`
    INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at)
    SELECT account_id, livemode, 'evt_' || right(id, ${SUFFIX}), CASE status WHEN 'past_due' THEN 'subscription.past_due' ELSE 'subscription.updated' END, id,
      jsonb_build_object('object', jsonb_build_object('id', id))::text, period_start_at FROM subscription WHERE account_id = ${account}`
})

/** Fills a live account. IDs are in order of time, like real ones. */
export const seedAccount = Effect.fnUntraced(function* (account: string, size: Size) {
  yield* subscribers(account, size)
  for (let month = 1; month <= size.months; month++) yield* chargesOf(account, month)
  yield* transitionsOf(account, size)
  yield* recordsOf(account, size)
  yield* seedBooks(account, size.months)
})
