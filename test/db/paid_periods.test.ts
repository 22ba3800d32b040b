/** Tests the database's rule that no two paid periods of a subscription overlap, also under concurrent writes. */
import { Deferred, Effect, Exit, Fiber, Schedule } from "effect"
import type { SqlClient } from "effect/sql"
import { beforeAll, describe, expect, it } from "vitest"
import { useDatabase } from "../support/database.ts"
import { insertSubscribed } from "../support/subscribed.ts"

const database = useDatabase()

beforeAll(() => database.run((sql) => insertSubscribed(sql, 30)))

interface Charge {
  readonly subscription: string
  readonly bill: number
  readonly from: string
  readonly to: string
  readonly status?: string
  readonly refundDue?: boolean
}

const pay = (
  sql: SqlClient.SqlClient,
  { subscription, bill, from, to, status = "succeeded", refundDue = false }: Charge,
) => sql`
  INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, created_at,
    period_start_at, period_end_at, refund_due, paid_at)
  VALUES ('acct_1', false, ${`chg_${subscription}_${bill}`}, 'cus_1', ${subscription}, ${bill}, 1, 5000, '[]', 'simulator', ${status}, ${status}, 1, now(), now(),
    ${from}::text::timestamptz, ${to}::text::timestamptz, ${refundDue}, CASE ${status}::text WHEN 'succeeded' THEN now() END)`

const JANUARY = { from: "2025-01-01Z", to: "2025-02-01Z" }
const FEBRUARY = { from: "2025-02-01Z", to: "2025-03-01Z" }
const MIDDLE = { from: "2025-01-15Z", to: "2025-02-15Z" }

const refused = async (work: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) => {
  const exit = await database.run((sql) => Effect.exit(work(sql)))
  expect(String(Exit.isFailure(exit) && JSON.stringify(exit.cause))).toContain("charge_period_paid_once")
}

let made = 0
/** A separate subscription for each test. */
const next = () => `sub_${++made}`

describe("two paid periods of a subscription", () => {
  it("may be adjacent, and may overlap if they belong to different subscriptions", async () => {
    const [subscription, other] = [next(), next()]
    await database.run((sql) => pay(sql, { subscription, bill: 1, ...JANUARY }))
    await database.run((sql) => pay(sql, { subscription, bill: 2, ...FEBRUARY }))
    await database.run((sql) => pay(sql, { subscription: other, bill: 1, ...MIDDLE }))
  })

  it("cannot overlap, whether inserted as paid or updated to paid", async () => {
    const subscription = next()
    await database.run((sql) => pay(sql, { subscription, bill: 1, ...JANUARY }))
    await refused((sql) => pay(sql, { subscription, bill: 2, ...MIDDLE }))
    await database.run((sql) => pay(sql, { subscription, bill: 2, ...MIDDLE, status: "pending" }))
    await refused(
      (sql) => sql`UPDATE charge SET status = 'succeeded', paid_at = now() WHERE subscription_id = ${subscription}`,
    )
    await refused(
      (sql) => sql`
        WITH paid AS (
          INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, created_at, paid_at, period_start_at, period_end_at)
          SELECT 'acct_1', false, 'chg_both_' || n, 'cus_1', ${next()}, n, 1, 5000, '[]', 'simulator', 'succeeded', 'succeeded', 1, now(), now(), now(), '2025-01-01Z', '2025-02-01Z' FROM generate_series(1, 2) n RETURNING 1
        ) SELECT 1 FROM paid`,
    )
  })

  it("do not count if the money is owed back, or if one ended before it started", async () => {
    const subscription = next()
    await database.run((sql) => pay(sql, { subscription, bill: 1, ...JANUARY }))
    await database.run((sql) => pay(sql, { subscription, bill: 2, ...MIDDLE, refundDue: true }))
    await refused((sql) => sql`UPDATE charge SET refund_due = false WHERE subscription_id = ${subscription}`)
    await database.run((sql) => pay(sql, { subscription, bill: 3, from: MIDDLE.from, to: MIDDLE.from }))
    await database.run(
      (sql) => sql`UPDATE charge SET period_end_at = period_start_at WHERE id = ${`chg_${subscription}_1`}`,
    )
    await database.run((sql) => pay(sql, { subscription, bill: 4, ...MIDDLE }))
  })

  it("cannot overlap when two transactions pay at the same time: the second waits for the first, and is refused", async () => {
    const subscription = next()
    await database.run((sql) =>
      Effect.gen(function* () {
        const [written, finish] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const first = sql.withTransaction(
          pay(sql, { subscription, bill: 1, ...JANUARY }).pipe(
            Effect.andThen(Deferred.succeed(written, undefined)),
            Effect.andThen(Deferred.await(finish)),
          ),
        )
        const one = yield* Effect.forkChild(first)
        yield* Deferred.await(written)
        const two = yield* Effect.forkChild(
          Effect.exit(sql.withTransaction(pay(sql, { subscription, bill: 2, ...MIDDLE }))),
        )
        yield* Effect.repeat(
          sql`SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
          { until: (waiting) => waiting.length > 0, schedule: Schedule.spaced(5) },
        )
        yield* Deferred.succeed(finish, undefined)
        yield* Fiber.join(one)
        const exit = yield* Fiber.join(two)
        expect(String(Exit.isFailure(exit) && JSON.stringify(exit.cause))).toContain("charge_period_paid_once")
      }),
    )
  })

  it("cannot be written by a transaction that would not see other periods", async () => {
    const exit = await database.run((sql) =>
      Effect.exit(
        sql.withTransaction(
          Effect.andThen(
            sql`SET TRANSACTION ISOLATION LEVEL REPEATABLE READ`.unprepared,
            pay(sql, { subscription: next(), bill: 1, ...JANUARY }),
          ),
        ),
      ),
    )
    expect(String(Exit.isFailure(exit) && JSON.stringify(exit.cause))).toContain("0A000")
  })
})
