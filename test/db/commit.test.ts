/** What a transaction leaves behind is one statement; what is over changes in one before, where something new takes its place. */
import { Cause, Effect, Exit } from "effect"
import { beforeAll, expect, it } from "vitest"
import { type ChargeRow, chargeLifecycle, charges, newCharge } from "../../src/charge/charge.ts"
import { chargeAfter } from "../../src/collecting/answers.ts"
import { isLockTimeout } from "../../src/db/held.ts"
import { type Check, isOutdated } from "../../src/db/known.ts"
import { withoutAsking } from "../../src/db/withoutAsking.ts"
import { commit, commitAsKnown } from "../../src/runtime/commit.ts"
import { advance } from "../../src/runtime/lifecycle.ts"
import { amended, born, moved } from "../../src/runtime/outcome.ts"
import { useDatabase } from "../support/database.ts"
import { hold } from "../support/hold.ts"
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

/** A charge outside any schedule. */
const pending = async (): Promise<ChargeRow> => {
  const charge = { ...attempt(1), subscription_id: null, bill_no: null, period_start_at: null, period_end_at: null }
  await database.run((sql) => sql.withTransaction(commit([born(chargeLifecycle, undefined, charge)])))
  return charge
}

const settling = (rows: ReadonlyArray<ChargeRow>) =>
  advance(
    chargeLifecycle,
    rows.map((row) => ({ row, event: { type: "rail.failed", at: NOW, code: "insufficient_funds", message: null } })),
  ).map((transition) => moved(chargeLifecycle, transition, chargeAfter(transition, NOW)))

const NOW = Date.UTC(2025, 0, 2)

const writeAsKnown = (rows: ReadonlyArray<ChargeRow>, checks: ReadonlyArray<Check> = []) =>
  database.run(() => Effect.exit(commitAsKnown(settling(rows), checks, 500)))

const statusesOf = async (rows: ReadonlyArray<ChargeRow>) => {
  const found = await database.run(() =>
    charges.find(
      TENANT,
      rows.map(({ id }) => id),
    ),
  )
  const journal = await database.run(
    (sql) =>
      sql<{
        n: number
      }>`SELECT count(*)::integer AS n FROM lifecycle_journal WHERE actor_id = ANY(${rows.map(({ id }) => id)}::text[])`,
  )
  return { statuses: rows.map(({ id }) => found.get(id)!.status), journal: journal[0]!.n }
}

it("writes what is known by one statement, and nothing of it where a row, or what it goes by, has changed since", async () => {
  const [first, second, third] = [await pending(), await pending(), await pending()]
  await database.run((sql) => sql.withTransaction(commit(settling([second]))))
  const outdated = await writeAsKnown([third, second, first])
  expect(Exit.isFailure(outdated) && isOutdated(Cause.squash(outdated.cause))).toBe(true)
  expect(await statusesOf([first, third])).toEqual({ statuses: ["pending", "pending"], journal: 0 })
  const gone: Check = { name: "gone", read: (sql) => sql`SELECT 1 AS one WHERE false`, rows: 1 }
  const unchecked = await writeAsKnown([first], [gone])
  expect(Exit.isFailure(unchecked) && isOutdated(Cause.squash(unchecked.cause))).toBe(true)
  expect(await statusesOf([first])).toEqual({ statuses: ["pending"], journal: 0 })
  expect(Exit.isSuccess(await writeAsKnown([third, first], [{ ...gone, rows: 0 }]))).toBe(true)
  expect(await statusesOf([first, third])).toEqual({ statuses: ["failed", "failed"], journal: 2 })
})

it("does not wait for what somebody else holds for longer than is said", async () => {
  const charge = await pending()
  const held = await hold(database, (sql) => sql`SELECT 1 FROM charge WHERE id = ${charge.id} FOR UPDATE`)
  const exit = await writeAsKnown([charge])
  await held.release()
  expect(Exit.isFailure(exit) && isLockTimeout(Cause.squash(exit.cause))).toBe(true)
  expect(await statusesOf([charge])).toEqual({ statuses: ["pending"], journal: 0 })
})

it("decides without the database only what takes no look at it", async () => {
  const looked = await database.run((sql) => withoutAsking(sql`SELECT 1 AS one`))
  expect(looked).toBeUndefined()
  expect(await database.run(() => withoutAsking(Effect.succeed("known")))).toBe("known")
})
