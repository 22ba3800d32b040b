/** Tests the database's constraints on the attempts at one bill. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { beforeAll, describe, expect, it } from "vitest"
import { constraintOf } from "../support/constraints.ts"
import { useDatabase } from "../support/database.ts"
import { insertSubscribed } from "../support/subscribed.ts"

const database = useDatabase()

beforeAll(() => database.run((sql) => insertSubscribed(sql, 10)))

let [used, made] = [0, 0]
/** A separate subscription for each test. */
const next = () => `sub_${++used}`

interface Attempt {
  readonly subscription: string
  readonly bill?: number
  readonly number: number
  readonly status: "pending" | "succeeded" | "failed"
}

const attempt = (sql: SqlClient.SqlClient, { subscription, bill = 1, number, status }: Attempt) => sql`
  INSERT INTO charge (account_id, livemode, id, customer_id, subscription_id, bill_no, attempt_number, amount_kobo, lines, rail, state, status, version, sent_at, created_at,
    period_start_at, period_end_at, failure_code, paid_at)
  VALUES ('acct_1', false, ${`chg_${++made}`}, 'cus_1', ${subscription}, ${bill}, ${number}, 5000, '[]', 'simulator', ${status}, ${status}, 1, now(), now(),
    '2025-01-01Z'::timestamptz + ${bill} * interval '1 month', '2025-02-01Z'::timestamptz + ${bill} * interval '1 month',
    CASE ${status}::text WHEN 'failed' THEN 'do_not_honor' END, CASE ${status}::text WHEN 'succeeded' THEN now() END)`

const setStatus = (
  sql: SqlClient.SqlClient,
  subscription: string,
  number: number,
  status: "succeeded" | "failed",
) => sql`
  UPDATE charge SET status = ${status}, failure_code = CASE ${status}::text WHEN 'failed' THEN 'do_not_honor' END, paid_at = CASE ${status}::text WHEN 'succeeded' THEN now() END
  WHERE subscription_id = ${subscription} AND attempt_number = ${number}`

const refusal = (work: (sql: SqlClient.SqlClient) => Effect.Effect<unknown, unknown>) =>
  database.run((sql) => constraintOf(work(sql)))

describe("attempts at a bill", () => {
  it("follow one another after a failure, and the last one pays", async () => {
    const subscription = next()
    await database.run((sql) =>
      Effect.gen(function* () {
        for (const number of [1, 2, 3]) {
          yield* attempt(sql, { subscription, number, status: "pending" })
          yield* setStatus(sql, subscription, number, number === 3 ? "succeeded" : "failed")
        }
        yield* attempt(sql, { subscription, bill: 2, number: 1, status: "pending" })
      }),
    )
  })

  for (const status of ["pending", "succeeded"] as const)
    it(`cannot be added while another is ${status}`, async () => {
      const subscription = next()
      await database.run((sql) => attempt(sql, { subscription, number: 1, status }))
      for (const number of [1, 2])
        expect(await refusal((sql) => attempt(sql, { subscription, number, status: "succeeded" }))).toBe(
          "charge_bill_open_or_paid_once",
        )
    })

  it("cannot pay if another has paid, even after a failure", async () => {
    const subscription = next()
    await database.run((sql) => attempt(sql, { subscription, number: 1, status: "failed" }))
    await database.run((sql) => attempt(sql, { subscription, number: 2, status: "succeeded" }))
    expect(await refusal((sql) => setStatus(sql, subscription, 1, "succeeded"))).toBe("charge_bill_open_or_paid_once")
  })

  it("cannot reuse the number of another failed attempt", async () => {
    const subscription = next()
    await database.run((sql) => attempt(sql, { subscription, number: 1, status: "failed" }))
    expect(await refusal((sql) => attempt(sql, { subscription, number: 1, status: "failed" }))).toBe(
      "charge_bill_open_or_paid_once",
    )
  })

  it("are limited to one in progress for each subscription, across all its bills", async () => {
    const subscription = next()
    await database.run((sql) => attempt(sql, { subscription, number: 1, status: "pending" }))
    expect(await refusal((sql) => attempt(sql, { subscription, bill: 2, number: 1, status: "pending" }))).toBe(
      "charge_under_way_once",
    )
  })
})
