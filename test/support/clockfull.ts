/** Fills a test clock with much data, as after a long life: directly as rows, since there are many. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export interface Full {
  readonly customers: number
  /** For each customer's subscription. */
  readonly journal: number
  /** For each customer. */
  readonly events: number
}

/** Every table with a clock's rows, and the condition that finds them by the clock's ID (`$1`). */
const ROWS: Readonly<Record<string, string>> = {
  test_clock: "id = $1",
  customer: "test_clock_id = $1",
  payment_method: "customer_id IN (SELECT id FROM customer WHERE test_clock_id = $1)",
  subscription: "test_clock_id = $1",
  checkout_session: "test_clock_id = $1",
  unit_record: "test_clock_id = $1",
  charge: "test_clock_id = $1",
  nudge: "test_clock_id = $1",
  timer: "test_clock_id = $1",
  event: "test_clock_id = $1",
  simulator_attempt: "test_clock_id = $1",
  // IDs of a clock's objects end with its ID (below).
  lifecycle_journal: "right(actor_id, length($1) - 6) = substr($1, 7)",
}

/** The number of rows that a clock has left, by table. */
export const rowsLeft = Effect.fnUntraced(function* (clock: string) {
  const sql = yield* SqlClient.SqlClient
  const counts = Object.entries(ROWS).map(
    ([name, mine]) => `SELECT '${name}' AS name, count(*) AS n FROM ${name} WHERE ${mine}`,
  )
  const rows = yield* sql.unsafe<{ name: string; n: number }>(counts.join(" UNION ALL "), [clock])
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]))
})

/** Creates a clock of an account in 2025, with a plan of its own. Returns its ID. */
export const fullClock = Effect.fnUntraced(function* (
  account: string,
  tag: string,
  { customers, journal, events }: Full,
) {
  const sql = yield* SqlClient.SqlClient
  const end = tag.padStart(26, "0")
  const clock = `clock_${end}`
  const id = (prefix: string) => `'${prefix}_' || lpad(n::text, 6, '0') || '${end}'`
  const mine = `'${account}', false`
  const each = `FROM generate_series(1, ${customers}) AS s (n)`
  const at = "'2025-01-01Z'::timestamptz"
  yield* Effect.forEach(
    [
      `INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
        VALUES (${mine}, 'plan_${end}', 'P', 5000, 'NGN', 'monthly', 0, false, true, '{}', '{}', '{}', '{}', now(), now())`,
      `INSERT INTO test_clock (account_id, livemode, id, frozen_at, state, version, customer_count, created_at, deletes_at, failed_steps)
        VALUES (${mine}, '${clock}', ${at}, 'ready', 0, ${customers}, now(), now() + interval '1 day', 0)`,
      `INSERT INTO customer (account_id, livemode, id, name, metadata, created_at, test_clock_id)
        SELECT ${mine}, ${id("cus")}, 'C', '{}', ${at}, '${clock}' ${each}`,
      `INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
        SELECT ${mine}, 'pm_test_success', ${id("cus")}, 'card', ${at} ${each}`,
      `UPDATE customer SET default_payment_method_id = 'pm_test_success' WHERE test_clock_id = '${clock}'`,
      `INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, test_clock_id, state, status, version, billing_cycle, price_kobo, quantity, start_at, anchor_at, period_no,
          period_start_at, period_end_at, period_quantity, cancel_at_period_end, bills_made, metadata, created_at)
        SELECT ${mine}, ${id("sub")}, ${id("cus")}, 'plan_${end}', 'pm_test_success', '${clock}', 'active.current', 'active', ${journal}, 'monthly', 5000, 1, ${at}, ${at}, 0,
          ${at}, '2025-02-01Z', 1, false, 1, '{}', ${at} ${each}`,
      `INSERT INTO mrr_movement (account_id, livemode, subscription_id, version, customer_id, plan_id, moved_on, kind, change_kobo, mrr_kobo)
        SELECT ${mine}, ${id("sub")}, 1, ${id("cus")}, 'plan_${end}', '2025-01-01', 'new', 5000, 5000 ${each}`,
      `INSERT INTO checkout_session (account_id, livemode, id, mode, plan_id, quantity, price_kobo, trial_days, test_clock_id, success_url, cancel_url, metadata, token_hash, state, status, version,
          customer_id, customer_is_new, subscription_id, expires_at, created_at)
        SELECT ${mine}, ${id("cs")}, 'subscription', 'plan_${end}', 1, 5000, 0, '${clock}', 'https://shop.example', 'https://shop.example', '{}', ${id("cs")}, 'expired', 'expired', 0,
          ${id("cus")}, false, ${id("sub")}, '2025-01-02Z', ${at} ${each}`,
      `INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version)
        SELECT ${mine}, ${id("sub")}, v, 'subscription', ${at}, '{}', 'a', 'b', '[]', 1 ${each}, generate_series(1, ${journal}) AS j (v)`,
      `INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event, test_clock_id, customer_id)
        SELECT ${mine}, ${id("sub")}, 'periodEnd', 'subscription', 1, '2025-02-01Z', 1, 'xstate.after.periodEnd.subscription.active.current', '${clock}', ${id("cus")} ${each}`,
      `INSERT INTO unit_record (account_id, livemode, id, subscription_id, test_clock_id, quantity, action, period_total, reported_at, created_at)
        SELECT ${mine}, ${id("ur")}, ${id("sub")}, '${clock}', 1, 'increment', 1, ${at}, ${at} ${each}`,
      // A failed one-off charge, and one that retries it.
      ...["NULL", id("chg1")].map(
        (retried, no) =>
          `INSERT INTO charge (account_id, livemode, id, customer_id, test_clock_id, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, failure_code, created_at, retry_of)
            SELECT ${mine}, ${id(`chg${no + 1}`)}, ${id("cus")}, '${clock}', 1, 5000, '[]', 'simulator', 'failed', 'failed', 0, ${at}, 'declined', ${at}, ${retried} ${each}`,
      ),
      `INSERT INTO nudge (account_id, livemode, id, customer_id, test_clock_id, source, template, state, status, version, channels, contacts, channel, position, tries, attempts, message, counts, created_at)
        SELECT ${mine}, ${id("ndg")}, ${id("cus")}, '${clock}', 'api', 'payment_due', 'failed', 'failed', 0, '{}', '{}', 'sms', 0, 0, '[]', '{}', false, ${at} ${each}`,
      `INSERT INTO simulator_attempt (account_id, livemode, reference, customer_id, payment_method_id, amount_kobo, attempts, outcome, test_clock_id)
        SELECT ${mine}, ${id("chg1")}, ${id("cus")}, 'pm_test_success', 5000, 1, 'failed', '${clock}' ${each}`,
      `INSERT INTO event (account_id, livemode, id, type, object_id, test_clock_id, data, created_at)
        SELECT ${mine}, 'evt_' || lpad(e::text, 6, '0') || ${id("")}, 'made.up', ${id("sub")}, '${clock}', '{"object": {}, "previous_attributes": {}}', ${at}
        ${each}, generate_series(1, ${events}) AS e`,
    ],
    (statement) => sql.unsafe(statement).unprepared,
    { discard: true },
  )
  return clock
})
