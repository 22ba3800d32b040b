/** Tests that statements planned for small tables still read by key when an account has thousands of rows. */
import { Effect, ManagedRuntime } from "effect"
import { SqlClient } from "effect/sql"
import { afterAll, beforeAll, expect, it } from "vitest"
import { subscriptions } from "../../src/billing/subscription/subscription.ts"
import { readRules, readTerms } from "../../src/billing/subscription/terms.ts"
import { PLANNED_ONCE, poolLayer } from "../../src/db/database.ts"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { closeThrough } from "../../src/ledger/closing.ts"
import { type NewEntry, postEntries } from "../../src/ledger/ledger.ts"
import { bookEntry } from "../support/books.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

/** One connection, which keeps its plans. */
let runtime: ManagedRuntime.ManagedRuntime<SqlClient.SqlClient, unknown>
beforeAll(() => {
  runtime = ManagedRuntime.make(poolLayer(database.url(), 1, PLANNED_ONCE))
})
afterAll(() => runtime.dispose())

const LARGEST = { account_id: "acct_largest", livemode: false }
const PLAN = "plan_gym"
const BEGINNING = 10
const LATER = 4_000

/** Subscriptions, each with its own customer and plan. Every second one pays by its customer's default method. */
const add = (from: number, to: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { account_id } = LARGEST
    const all = sql`generate_series(${from}::int, ${to}::int) n`
    yield* sql`
      INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
      SELECT ${account_id}::text, false, ${PLAN}::text || n, 'Gym', 5000, 'NGN', 'monthly', 0, false, true, '{}', '{}', '{}', '{}', now(), now() FROM ${all}`
    yield* sql`
      INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
      SELECT ${account_id}::text, false, 'cus_' || n, 'Ada', '{}', now() FROM ${all}`
    yield* sql`
      INSERT INTO payment_method (account_id, livemode, id, customer_id, type, brand, last4, exp_month, exp_year, created_at)
      SELECT ${account_id}::text, false, 'pm_test_success', 'cus_' || n, 'card', 'visa', '4242', 12, 2034, now() FROM ${all}`
    yield* sql`
      UPDATE customer SET default_payment_method_id = 'pm_test_success'
      WHERE account_id = ${account_id} AND id IN (SELECT 'cus_' || n FROM ${all} WHERE n % 2 = 0)`
    yield* sql`
      INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
        anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
      SELECT ${account_id}::text, false, 'sub_' || n, 'cus_' || n, ${PLAN}::text || n, CASE WHEN n % 2 = 1 THEN 'pm_test_success' END, 'active.current', 'active', 2, 'monthly', 5000, 1, now(),
        now(), 0, now(), now() + interval '1 month', 1, now() + interval '1 month', false, 1, '{}', now() FROM ${all}`
  })

/** The number of rows of our tables that `work` reads, and its result. */
const readBy = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const read = Effect.map(
      sql<{
        rows: number
      }>`SELECT sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::int AS rows FROM pg_stat_xact_user_tables`,
      ([row]) => row!.rows,
    )
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const before = yield* read
        const result = yield* work
        return { result, rows: (yield* read) - before }
      }),
    )
  })

const refOf = (n: number) => ({ ...LARGEST, id: `sub_${n}` })

/** The rows for the terms of one: itself, its plan, its customer, its payment method. */
const MOST_FOR_EACH = 4

it("reads the terms of subscriptions, and their plans' rules, by key", async () => {
  await database.run(
    (sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES (${LARGEST.account_id}, 'Chain', now())`,
  )
  await database.run(() => add(1, BEGINNING))
  const ask = (...of: ReadonlyArray<number>) => runtime.runPromise(readBy(readTerms(of.map(refOf))))
  const askRules = (...of: ReadonlyArray<number>) =>
    runtime.runPromise(Effect.flatMap(subscriptions.lock(of.map(refOf)), (rows) => readBy(readRules(rows))))
  // The connection makes the plans that it keeps now.
  await ask(1, 2)
  await askRules(1, 2)
  await database.run(() => add(BEGINNING + 1, LATER))

  const some = Array.from({ length: 20 }, (_, n) => 3_000 + n)
  const { result, rows } = await ask(...some)
  expect([...result.values()].map(({ payment_method }) => payment_method?.id)).toEqual(
    some.map(() => "pm_test_success"),
  )
  expect(rows).toBeLessThanOrEqual(some.length * MOST_FOR_EACH)
  expect((await askRules(...some)).rows).toBeLessThanOrEqual(some.length)
})

/** The rows for a correction: the account, its ledger accounts, the corrected entry, its own entry and lines. */
const MOST_FOR_EACH_CORRECTION = 20

it("finds a correction's original entry by the bill or the charge", async () => {
  await database.run(
    (sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES ('acct_books', 'Books', now())`,
  )
  const ofBill = (n: number) => bookEntry("acct_books", { subscriptionId: `sub_${n}`, billNo: 1 })
  const ofCharge = (n: number) => bookEntry("acct_books", { chargeId: `chg_${n}` })
  const both = (...of: ReadonlyArray<number>) => [...of.map(ofBill), ...of.map(ofCharge)]
  const posting = (entries: ReadonlyArray<NewEntry>) =>
    Effect.flatMap(SqlClient.SqlClient, (sql) =>
      sql.withTransaction(Effect.map(unitOfWork, (unit) => postEntries(unit, entries))),
    )
  await runtime.runPromise(posting(both(1, 2)))
  await database.write((unit) => postEntries(unit, both(...Array.from({ length: LATER }, (_, n) => n + BEGINNING))))
  await database.run(() => closeThrough("2025-01", "Made up for this test"))

  const some = Array.from({ length: 20 }, (_, n) => 3_000 + n)
  const { rows } = await runtime.runPromise(readBy(Effect.map(unitOfWork, (unit) => postEntries(unit, both(...some)))))
  const corrections = await database.run(
    (sql) => sql<{ same: boolean }>`
      SELECT (c.subscription_id, c.charge_id) IS NOT DISTINCT FROM (e.subscription_id, e.charge_id) AS same
      FROM ledger_entry e LEFT JOIN ledger_entry c ON c.id = e.corrects
      WHERE e.account_id = 'acct_books' AND e.effective_on > e.occurred_on`,
  )
  expect(corrections).toEqual(both(...some).map(() => ({ same: true })))
  expect(rows).toBeLessThanOrEqual(corrections.length * MOST_FOR_EACH_CORRECTION)
})
