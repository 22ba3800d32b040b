/**
 * The writes of a renewal in plain SQL, without machines or decisions: the cost of the database alone. It writes the same rows to the same
 * tables as the engine, in the same two transactions around the rail.
 */
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"

const BATCH = 500

/** As long as the events of the service. */
const EVENT_DATA = JSON.stringify({ object: "x".repeat(820), previous_attributes: { a: "x".repeat(120) } })
const BILL = JSON.stringify({
  no: 2,
  purpose: "renewal",
  lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: 500000, amount: 500000 }],
  amountKobo: 500000,
  attempt: 1,
  attemptedAt: 0,
  automaticRetry: false,
  periodStart: 0,
  periodEnd: 0,
})
const LINES = '[{"type": "plan", "description": "Plan", "quantity": 1, "unit_amount": 500000, "amount": 500000}]'
const METHOD =
  '{"id": "pm_test_success", "type": "card", "brand": "visa", "last4": "4242", "bank_name": null, "exp_month": 12, "exp_year": 2034}'
const EVENT = '{"type": "xstate.after.periodEnd.subscription.active.current", "at": 1700000000000}'

/** Renews the subscriptions of `ids`, each statement for all of them. One ID means row at a time. */
const renew = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    yield* sql.withTransaction(
      Effect.gen(function* () {
        const isInBatch = sql`account_id = 'acct_bench' AND NOT livemode AND id = ANY(${ids}::text[])`
        yield* sql`SELECT * FROM subscription WHERE ${isInBatch} ORDER BY id FOR UPDATE`
        yield* sql`
          UPDATE subscription SET state = 'active.charging', version = version + 1, bills_made = 2, bill = ${BILL}::text::jsonb, latest_charge_id = 'chg_' || substr(id, 5) WHERE ${isInBatch}`
        yield* sql`
          INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, period_start_at, period_end_at, lines, payment_method, rail, state, status, version, sent_at, runner, created_at)
          SELECT account_id, livemode, 'chg_' || substr(id, 5), customer_id, id, 2, 1, 500000, period_end_at, period_end_at + interval '1 month', ${LINES}::text::jsonb, ${METHOD}::text::jsonb,
            'simulator', 'pending.sending', 'pending', 0, period_end_at, 1, now() FROM subscription WHERE ${isInBatch}`
        yield* sql`
          INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version)
          SELECT account_id, livemode, id, version, 'subscription', now(), ${EVENT}::text::jsonb, 'active.current', 'active.charging', '["attemptCharge"]', 1 FROM subscription WHERE ${isInBatch}`
        yield* sql`DELETE FROM timer WHERE account_id = 'acct_bench' AND NOT livemode AND actor_id = ANY(${ids}::text[]) AND name = 'periodEnd'`
      }),
    )
    yield* sql`
      INSERT INTO simulator_attempt (account_id, livemode, reference, customer_id, payment_method_id, amount_kobo, attempts, outcome)
      SELECT account_id, livemode, latest_charge_id, customer_id, 'pm_test_success', 500000, 1, 'succeeded' FROM subscription
      WHERE account_id = 'acct_bench' AND NOT livemode AND id = ANY(${ids}::text[])`
    yield* sql.withTransaction(
      Effect.gen(function* () {
        const isInBatch = sql`account_id = 'acct_bench' AND NOT livemode AND id = ANY(${ids}::text[])`
        yield* sql`SELECT * FROM subscription WHERE ${isInBatch} ORDER BY id FOR UPDATE`
        const charges = ids.map((id) => `chg_${id.slice(4)}`)
        const isCharge = sql`account_id = 'acct_bench' AND NOT livemode AND id = ANY(${charges}::text[])`
        yield* sql`SELECT * FROM charge WHERE ${isCharge} ORDER BY id FOR UPDATE`
        yield* sql`
          UPDATE subscription SET state = 'active.current', version = version + 1, period_no = 1, period_start_at = period_end_at, period_end_at = period_end_at + interval '1 month',
            next_charge_at = period_end_at + interval '1 month', bill = NULL WHERE ${isInBatch}`
        yield* sql`UPDATE charge SET state = 'succeeded', status = 'succeeded', version = 1, runner = NULL, paid_at = now() WHERE ${isCharge}`
        yield* sql`
          INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version)
          SELECT account_id, livemode, id, version, 'subscription', now(), ${EVENT}::text::jsonb, 'active.charging', 'active.current', '["settleCharge", "post paid", "emit charge.succeeded", "emit subscription.renewed"]'::jsonb, 1 FROM subscription WHERE ${isInBatch}
          UNION ALL
          SELECT account_id, livemode, id, 1, 'charge', now(), ${EVENT}::text::jsonb, 'pending.sending', 'succeeded', '["settled succeeded"]'::jsonb, 1 FROM charge WHERE ${isCharge}`
        yield* sql`
          INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event)
          SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current' FROM subscription WHERE ${isInBatch}`
        yield* sql`
          WITH entries AS (
            INSERT INTO ledger_entry (account_id, livemode, id, event, idempotency_key, customer_id, subscription_id, charge_id, plan_id, bill_no, occurred_on, effective_on, line_count)
            SELECT account_id, livemode, 'le_' || substr(id, 5), 'paid', 'paid:' || id || ':2', customer_id, id, latest_charge_id, plan_id, bills_made, now(), now(), 2 FROM subscription WHERE ${isInBatch}
          )
          INSERT INTO ledger_line (account_id, livemode, entry_id, line_no, ledger_account, detail, currency, amount_kobo, effective_on)
          SELECT s.account_id, s.livemode, 'le_' || substr(s.id, 5), l.no, l.account, l.detail, 'NGN', l.amount, now()
          FROM subscription s, (VALUES (1, 'clearing', 'simulator', 500000), (2, 'deferred_revenue', NULL, -500000)) AS l (no, account, detail, amount) WHERE ${isInBatch}`
        yield* sql`
          INSERT INTO revenue_schedule (account_id, livemode, subscription_id, bill_no, part, customer_id, plan_id, price_kobo, amount_kobo, carried_kobo, vat_kobo, start_on, end_on, from_on, until_on)
          SELECT account_id, livemode, id, bills_made, 1, customer_id, plan_id, 500000, 500000, 0, 0, period_start_at, period_end_at, period_start_at, period_end_at FROM subscription WHERE ${isInBatch}`
        yield* sql`
          INSERT INTO event (account_id, livemode, id, type, object_id, data, created_at)
          SELECT account_id, livemode, 'evt_' || k.n || substr(id, 6), k.type, id, ${EVENT_DATA}, now()
          FROM subscription, (VALUES (0, 'charge.succeeded'), (1, 'subscription.renewed')) AS k (n, type) WHERE ${isInBatch}`
      }),
    )
  })

/** Lists due renewals once and distributes them: unlike the engine, it needs no claims. */
const drain = (url: Redacted.Redacted<string>, connections: number, size: number): Promise<void> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const due = yield* sql<{
        id: string
      }>`SELECT actor_id AS id FROM timer WHERE actor_kind = 'subscription' AND test_clock_id IS NULL AND due_at <= now() ORDER BY 1`
      const ids = due.map(({ id }) => id)
      const batches = Array.from({ length: Math.ceil(ids.length / size) }, (_, n) =>
        ids.slice(n * size, (n + 1) * size),
      )
      yield* Effect.forEach(batches, (batch) => renew(sql, batch), { concurrency: connections, discard: true })
    }).pipe(Effect.provide(poolLayer(url, connections))),
  )

export const rowAtATime = (url: Redacted.Redacted<string>, connections: number): Promise<void> =>
  drain(url, connections, 1)

export const setBased = (url: Redacted.Redacted<string>, connections: number): Promise<void> =>
  drain(url, connections, BATCH)
