/** Tests that a transaction's writes are collected and sent as one statement, all or nothing. */
import { PgTypes } from "@effect/sql-pg"
import { Cause, Effect, Exit, Layer, ManagedRuntime } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type CustomerRow, customers } from "../../src/billing/customer/customer.ts"
import { serviceLayer } from "../../src/db/database.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import { isConflict, type UnitOfWork, unitOfWork } from "../../src/db/UnitOfWork.ts"
import { pipelined } from "../../src/postgres/pipelining.ts"
import { isCertainlyRolledBack } from "../../src/postgres/rollback.ts"
import { CurrentTransaction, enqueue, onRollback } from "../../src/postgres/transaction.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()
let runtime: ManagedRuntime.ManagedRuntime<TenantDatabase | SqlClient.SqlClient, unknown>
beforeAll(async () => {
  const service = serviceLayer(database.url())
  runtime = ManagedRuntime.make(Layer.provideMerge(TenantDatabase.layer(database.url()), service))
  await database.run((sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES ('acct_1', 'Gym', now())`)
})
afterAll(() => runtime.dispose())

const TENANT = { account_id: "acct_1", livemode: false }
const customer = (id: string, more: Partial<CustomerRow> = {}): CustomerRow => ({
  ...TENANT,
  id,
  name: "Ada",
  email: null,
  phone: null,
  default_payment_method_id: null,
  test_clock_id: null,
  metadata: {},
  created_at: 0,
  ...more,
})

type Work<A> = Effect.Effect<A, unknown, SqlClient.SqlClient>
const asTenant = <A>(work: Work<A>) =>
  runtime.runPromise(Effect.exit(Effect.flatMap(TenantDatabase, ({ writing }) => writing(TENANT, work))))
const asService = <A>(work: Work<A>) =>
  runtime.runPromise(Effect.exit(Effect.flatMap(SqlClient.SqlClient, (sql) => sql.withTransaction(work))))
const collect = (writes: (unit: UnitOfWork) => void) => Effect.map(unitOfWork, writes)
const insert = (...rows: ReadonlyArray<CustomerRow>) => collect((unit) => unit.insert(customers, rows))
const namesOf = (...ids: ReadonlyArray<string>) =>
  database.run((sql) =>
    Effect.map(sql<{ name: string }>`SELECT name FROM customer WHERE id IN ${sql.in(ids)} ORDER BY id`, (rows) =>
      rows.map(({ name }) => name),
    ),
  )
const statement = (text: string) => Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text))

for (const [whose, run] of [
  ["a tenant's transaction", asTenant],
  ["a transaction of the service", asService],
] as const) {
  const id = (name: string) => `cus_${whose.length}_${name}`

  describe(whose, () => {
    it("writes the collected changes", async () => {
      expect(Exit.isSuccess(await run(insert(customer(id("a")))))).toBe(true)
      expect(await namesOf(id("a"))).toEqual(["Ada"])
    })

    it("reads its own writes", async () => {
      const seen = await run(
        Effect.gen(function* () {
          yield* insert(customer(id("b")))
          const [before] = yield* customers.lock([customer(id("b"))])
          yield* collect((unit) => unit.update(customers, [{ before: before!, after: { ...before!, name: "Bola" } }]))
          return (yield* customers.find(TENANT, [id("b")])).get(id("b"))!.name
        }),
      )
      expect(seen).toEqual(Exit.succeed("Bola"))
    })

    it("writes a row several times in the requested order", async () => {
      const [one, two, three] = ["One", "Two", "Three"].map((name) => customer(id("c"), { name }))
      const change = (before: CustomerRow, after: CustomerRow) =>
        collect((unit) => unit.update(customers, [{ before, after }]))
      await run(Effect.andThen(insert(one!), Effect.andThen(change(one!, two!), change(two!, three!))))
      expect(await namesOf(id("c"))).toEqual(["Three"])
    })

    it("writes nothing if it fails, or if one of its statements fails", async () => {
      const failures: ReadonlyArray<Work<unknown>> = [
        Effect.fail("no"),
        statement("SELECT 1 / 0"),
        insert(customer(id("a"))),
        insert(customer(id("other"), { account_id: "acct_none" })),
        // timestamptz cannot store it: the statement cannot be sent.
        insert(customer(id("other"), { created_at: Number.NaN })),
        Effect.flatMap(SqlClient.SqlClient, (sql) => enqueue(sql`SELECT ${PgTypes.int8(2n ** 80n)}`)),
        Effect.flatMap(SqlClient.SqlClient, (sql) => enqueue(sql`SELECT 1 / 0`)),
        pipelined([statement("SELECT 1"), statement("SELECT 1 / 0"), statement("SELECT 2")]),
      ]
      for (const failing of failures) {
        const before = Effect.andThen(insert(customer(id("never"))), statement("SELECT 1"))
        for (const work of [Effect.andThen(before, failing), Effect.andThen(failing, insert(customer(id("never"))))])
          expect(Exit.isFailure(await run(work))).toBe(true)
      }
      expect(await namesOf(id("never"), id("other"))).toEqual([])
      expect(Exit.isSuccess(await run(insert(customer(id("d")))))).toBe(true)
    })

    it("rolls back in memory if the transaction is not committed, or if that is unknown", async () => {
      const undone: Array<string> = []
      const noting = (name: string) => onRollback(Effect.sync(() => void undone.push(name)))
      await run(Effect.andThen(noting("committed"), insert(customer(id("e")))))
      await run(Effect.andThen(noting("failed"), Effect.fail("no")))
      await run(Effect.andThen(noting("refused"), insert(customer(id("e")))))
      const own = Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`)
      const end = ([row]: ReadonlyArray<{ readonly pid: number }>) =>
        Effect.promise(() => database.run((sql) => sql`SELECT pg_terminate_backend(${row!.pid})`))
      await run(Effect.andThen(noting("lost"), Effect.flatMap(own, end)))
      expect(undone).toEqual(["failed", "refused", "lost"])
    })

    it("writes nothing if one of its expectations fails", async () => {
      let tries = 0
      const work = Effect.gen(function* () {
        tries++
        const sql = yield* SqlClient.SqlClient
        yield* insert(customer(id("expecting")))
        yield* collect((unit) => unit.expect({ name: "none", statement: sql`SELECT 1 WHERE false`, rows: 1 }))
      })
      const exit = await run(work)
      expect(Exit.isFailure(exit) && isConflict(Cause.squash(exit.cause))).toBe(true)
      expect(Exit.isFailure(exit) && isCertainlyRolledBack(exit.cause)).toBe(true)
      expect(await namesOf(id("expecting"))).toEqual([])
      expect(tries).toBe(run === asTenant ? 2 : 1)
    })

    it("gets the rows that a part returns", async () => {
      let received: unknown
      const work = collect((unit) =>
        unit.add([["numbers", unit.sql`SELECT n FROM generate_series(1, 3) n`]], {
          numbers: (rows) => {
            received = rows
          },
        }),
      )
      expect(Exit.isSuccess(await run(work))).toBe(true)
      expect(received).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }])
    })
  })
}

it("reruns a tenant's transaction once after a conflict, and the rerun knows it", async () => {
  const seen: Array<boolean> = []
  const exit = await asTenant(
    Effect.gen(function* () {
      const { sql, isRetry } = (yield* CurrentTransaction)!
      seen.push(isRetry)
      if (!isRetry)
        yield* collect((unit) => unit.expect({ name: "none", statement: sql`SELECT 1 WHERE false`, rows: 1 }))
      yield* insert(customer("cus_again"))
    }),
  )
  expect(Exit.isSuccess(exit)).toBe(true)
  expect(seen).toEqual([false, true])
  expect(await namesOf("cus_again")).toEqual(["Ada"])
})

it("treats a write outside of a transaction as a defect", async () => {
  const exit = await Effect.runPromise(Effect.exit(insert(customer("cus_outside"))))
  expect(Exit.isFailure(exit) && Cause.hasDies(exit.cause)).toBe(true)
})

it("reports an unknown outcome if the connection was lost at commit", () => {
  const lost = new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error("read ECONNRESET") }) })
  expect([Cause.fail(lost), Cause.die(lost)].map(isCertainlyRolledBack)).toEqual([false, false])
  expect([Cause.fail("refused"), Cause.die(new Error("a defect"))].map(isCertainlyRolledBack)).toEqual([true, true])
})
