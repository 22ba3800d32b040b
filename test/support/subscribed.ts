/** Inserts rows for tests of database constraints, without a server. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"

/** `acct_1` with `plan_1`, customer `cus_1`, and its subscriptions `sub_1`, `sub_2` and so on, as of January 2025. */
export const insertSubscribed = (sql: SqlClient.SqlClient, count: number) =>
  Effect.gen(function* () {
    yield* sql`INSERT INTO account (id, business_name, created_at) VALUES ('acct_1', 'Subscribed', now())`
    yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    VALUES ('acct_1', false, 'plan_1', 'Plan', 5000, 'NGN', 'monthly', 0, false, true, '{}', '{}', '{}', '{}', now(), now())`
    yield* sql`INSERT INTO customer (account_id, livemode, id, name, metadata, created_at) VALUES ('acct_1', false, 'cus_1', 'Ada', '{}', now())`
    yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, cancel_at_period_end, bills_made, metadata, created_at)
    SELECT 'acct_1', false, 'sub_' || n, 'cus_1', 'plan_1', 'active.current', 'active', 1, 'monthly', 5000, 1, t, t, 0, t, t + interval '1 month', 1, false, 1, '{}', t
    FROM generate_series(1, ${count}::int) n, (SELECT timestamptz '2025-01-01Z' AS t) at`
  })
