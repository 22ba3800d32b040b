import { Effect } from "effect"
import { SqlClient } from "effect/sql"

const ACCOUNT = "acct_bench"

/** Subscriptions as the service would have made them: the first `due` are due now, the others within the month. */
export const seed = (due: number, standing: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`INSERT INTO account (id, business_name, created_at) VALUES (${ACCOUNT}, 'Bench', now())`
    yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    VALUES (${ACCOUNT}, false, 'plan_bench', 'Bench', 500000, 'NGN', 'monthly', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now())`
    const total = due + standing
    yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
    SELECT ${ACCOUNT}, false, 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, '{}', now() FROM generate_series(1, ${total}::int) n`
    yield* sql`
    INSERT INTO payment_method (account_id, livemode, id, customer_id, type, brand, last4, exp_month, exp_year, created_at)
    SELECT ${ACCOUNT}, false, 'pm_test_success', 'cus_' || lpad(n::text, 26, '0'), 'card', 'visa', '4242', 12, 2034, now() FROM generate_series(1, ${total}::int) n`
    yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
    SELECT ${ACCOUNT}, false, 'sub_' || lpad(n::text, 26, '0'), 'cus_' || lpad(n::text, 26, '0'), 'plan_bench', 'pm_test_success', 'active.current', 'active', 2, 'monthly', 500000, 1, start,
      start, 0, start, start + interval '1 month', 1, start + interval '1 month', false, 1, '{}', start
    FROM (
      SELECT n, CASE WHEN n <= ${due}::int THEN date_trunc('day', now()) - interval '1 month' ELSE now() - interval '1 month' + interval '1 day' + (n % 27) * interval '1 day' + (n % 86400) * interval '1 second' END AS start
      FROM generate_series(1, ${total}::int) n
    ) s`
    yield* sql`
    INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event)
    SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current' FROM subscription`
    yield* sql`ANALYZE`.unprepared
  })
