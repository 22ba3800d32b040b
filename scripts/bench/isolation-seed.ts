/** The data of hostile tenants before a load starts: one statement per table. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface Clocks {
  readonly clocks: number
  readonly customersEach: number
  readonly eventsEach: number
  readonly startAt: Date
}

export const clockId = (n: number): string => `clock_${String(n).padStart(26, "0")}`

/** The ID of the first subscription on a clock. */
export const firstSubscription = (clock: number, { customersEach }: Pick<Clocks, "customersEach">): string =>
  `sub_${String((clock - 1) * customersEach + 1).padStart(26, "0")}`

/** Inserts clocks, each with customers that have a subscription to a daily plan, and with events. */
export const seedClocks = Effect.fnUntraced(function* (
  account: string,
  { clocks, customersEach, eventsEach, startAt }: Clocks,
) {
  const sql = yield* SqlClient.SqlClient
  const start = sql`${startAt}::timestamptz`
  const onClocks = (each: number) =>
    sql`(SELECT n, 'clock_' || lpad(((n - 1) / ${each}::int + 1)::text, 26, '0') AS clock FROM generate_series(1, ${clocks * each}::int) n) s`
  yield* sql`
    INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
    VALUES (${account}, false, 'plan_daily', 'Daily', 10000, 'NGN', 'daily', 0, false, true, '{}',
      '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now())`
  yield* sql`
    INSERT INTO test_clock (account_id, livemode, id, name, frozen_at, state, version, runner, customer_count, created_at, deletes_at, target_at, failed_steps)
    SELECT ${account}, false, 'clock_' || lpad(n::text, 26, '0'), NULL, ${start}, 'ready', 0, NULL, ${customersEach}::int, now(), now() + interval '30 days', NULL, 0
    FROM generate_series(1, ${clocks}::int) n`
  yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, test_clock_id, metadata, created_at)
    SELECT ${account}, false, 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, clock, '{}', ${start} FROM ${onClocks(customersEach)}`
  yield* sql`
    INSERT INTO payment_method (account_id, livemode, id, customer_id, type, brand, last4, exp_month, exp_year, created_at)
    SELECT ${account}, false, 'pm_test_success', 'cus_' || lpad(n::text, 26, '0'), 'card', 'visa', '4242', 12, 2034, ${start}
    FROM ${onClocks(customersEach)}`
  yield* sql`
    INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, test_clock_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
      anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
    SELECT ${account}, false, 'sub_' || lpad(n::text, 26, '0'), 'cus_' || lpad(n::text, 26, '0'), 'plan_daily', 'pm_test_success', clock, 'active.current', 'active', 2, 'daily', 10000, 1, ${start},
      ${start}, 0, ${start}, ${start} + interval '24 hours', 1, ${start} + interval '24 hours', false, 1, '{}', ${start}
    FROM ${onClocks(customersEach)}`
  yield* sql`
    INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event, test_clock_id, customer_id)
    SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current', test_clock_id, CASE WHEN test_clock_id IS NOT NULL THEN customer_id END
    FROM subscription WHERE account_id = ${account}`
  if (eventsEach > 0)
    yield* sql`
      INSERT INTO event (account_id, livemode, id, type, object_id, test_clock_id, data, created_at)
      SELECT ${account}, false, 'evt_' || lpad(n::text, 26, '0'), 'charge.succeeded', 'chg_' || n, clock, '{"object":{},"previous_attributes":{}}', ${start}
      FROM ${onClocks(eventsEach)}`
})

/** Inserts customers with e-mail addresses and metadata, and events over a year. */
export const seedLists = Effect.fnUntraced(function* (account: string, rows: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO customer (account_id, livemode, id, name, email, metadata, created_at)
    SELECT ${account}, false, 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, 'customer' || n || '@example.com', jsonb_build_object('tier', 'gold', 'number', n::text), now()
    FROM generate_series(1, ${rows}::int) n`
  yield* sql`
    INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at)
    SELECT ${account}, false, 'evt_' || lpad(n::text, 26, '0'), 'charge.succeeded', 'chg_' || n, '{"object":{},"previous_attributes":{}}',
      now() - interval '1 year' + n * (interval '1 year' / ${rows}::int)
    FROM generate_series(1, ${rows}::int) n`
})

/** Inserts answers to idempotent requests that are over a day old. */
export const seedExpired = Effect.fnUntraced(function* (account: string, rows: number) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner, token, response_status, response_body, created_at)
    SELECT ${account}, false, 'expired' || n, '\\x00', 0, n::text, 201, decode(repeat('00', 500), 'hex'), now() - interval '25 hours'
    FROM generate_series(1, ${rows}::int) n`
})
