/** What a transaction leaves behind is one statement; what is over changes in one before, where something new takes its place. */
import { beforeAll, expect, it } from "vitest"
import { type ChargeRow, chargeLifecycle, charges, newCharge } from "../../src/charge/charge.ts"
import { commit } from "../../src/runtime/commit.ts"
import { amended, born } from "../../src/runtime/outcome.ts"
import { useDatabase } from "../support/database.ts"
import { insertSubscribed } from "../support/subscribed.ts"

const database = useDatabase()
const TENANT = { account_id: "acct_1", livemode: false }

beforeAll(() => database.run((sql) => insertSubscribed(sql, 1)))

const attempt = (no: number): ChargeRow =>
  newCharge({
    ...TENANT,
    customer_id: "cus_1",
    subscription_id: "sub_1",
    test_clock_id: null,
    bill_no: 1,
    attempt_number: no,
    amount_kobo: 5_000,
    period_start_at: Date.UTC(2025, 0, 1),
    period_end_at: Date.UTC(2025, 1, 1),
    lines: [],
    purpose: "sale",
    hosted: false,
    payment_method: null,
    payment_method_named: false,
    retry_of: null,
    page_id: null,
    submission: null,
    rail: "simulator",
    sent_at: Date.UTC(2025, 0, 1),
    runner: 1,
    description: null,
    metadata: {},
    created_at: Date.UTC(2025, 0, 1),
  })

const failed = (row: ChargeRow): ChargeRow => ({
  ...row,
  state: "failed",
  status: "failed",
  failure_code: "insufficient_funds",
})

it("makes room for the next attempt at a bill before it makes it", async () => {
  const [first, second] = [attempt(1), attempt(2)]
  await database.run((sql) => sql.withTransaction(commit([born(chargeLifecycle, undefined, first)])))
  await database.run((sql) =>
    sql.withTransaction(
      commit([amended(chargeLifecycle, first, failed(first)), born(chargeLifecycle, undefined, second)]),
    ),
  )
  const found = await database.run(() => charges.find(TENANT, [first.id, second.id]))
  expect([first, second].map(({ id }) => found.get(id)!.status)).toEqual(["failed", "pending"])
})

it("finds several rows by one statement, and one by another", async () => {
  const rows = await database.run((sql) => sql<{ id: string }>`SELECT id FROM charge ORDER BY id`)
  const ids = rows.map(({ id }) => id)
  expect([...(await database.run(() => charges.find(TENANT, ids))).keys()].sort()).toEqual(ids)
  expect([...(await database.run(() => charges.find(TENANT, [ids[0]!]))).keys()]).toEqual([ids[0]])
  expect((await database.run(() => charges.find({ ...TENANT, livemode: true }, [ids[0]!]))).size).toBe(0)
})
