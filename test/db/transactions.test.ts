/** What requests do in transactions: in one go, whole or not at all, and by key however much there is beside it. */
import { PgTypes } from "@effect/sql-pg"
import { Cause, Effect, Exit, Fiber, Layer, ManagedRuntime } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import { type CustomerRow, customers } from "../../src/customer/customer.ts"
import { poolLayer, serviceLayer } from "../../src/db/database.ts"
import { isOutdated } from "../../src/db/known.ts"
import { inOneGo, sent } from "../../src/db/sending.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import { hasDoneNothing } from "../../src/db/takenBack.ts"
import { byItself, ifItFails } from "../../src/db/transactions.ts"
import { sentWrite } from "../../src/db/writes.ts"
import { useDatabase } from "../support/database.ts"
import { hold } from "../support/hold.ts"

const database = useDatabase()

const services = () => Layer.provideMerge(TenantDatabase.layer(database.url()), poolLayer(database.url(), 4))
let runtime: ManagedRuntime.ManagedRuntime<TenantDatabase | SqlClient.SqlClient, unknown>
beforeAll(() => {
  runtime = ManagedRuntime.make(services())
})
afterAll(() => runtime.dispose())

const LARGEST = { account_id: "acct_largest", livemode: false }
const customerOf = (n: number) => ({ ...LARGEST, id: `cus_${n}` })

/** Runs a transaction of the largest account. */
const writing = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
  runtime.runPromise(Effect.flatMap(TenantDatabase, ({ writing }) => writing(LARGEST, work)))

/** How many rows of customers `work` reads. */
const readBy = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const read = Effect.map(
      sql<{ rows: number }>`
        SELECT coalesce(idx_tup_fetch, 0) + seq_tup_read AS rows FROM pg_stat_xact_user_tables WHERE relname = 'customer'`,
      ([row]) => row!.rows,
    )
    const before = yield* read
    yield* work
    return (yield* read) - before
  })

const names = (sql: SqlClient.SqlClient, ids: ReadonlyArray<string>) =>
  Effect.map(
    sql<{
      name: string
    }>`SELECT name FROM customer WHERE account_id = ${LARGEST.account_id} AND id IN ${sql.in(ids)} ORDER BY id`,
    (rows) => rows.map(({ name }) => name),
  )

const locking = (...of: ReadonlyArray<number>) => customers.lock(of.map(customerOf))

const tag = (rows: ReadonlyArray<CustomerRow>) =>
  customers.update(rows.map((before) => ({ before, after: { ...before, metadata: { tagged: "yes" } } })))

const addCustomers = (sql: SqlClient.SqlClient, from: number, to: number) => sql`
  INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
  SELECT ${LARGEST.account_id}::text, false, 'cus_' || n, 'Ada', '{}', now() FROM generate_series(${from}::int, ${to}::int) n`

beforeAll(async () => {
  await database.run((sql) =>
    Effect.gen(function* () {
      yield* sql`INSERT INTO account (id, business_name, created_at) VALUES (${LARGEST.account_id}, 'Chain', now())`
      yield* addCustomers(sql, 1, 200)
    }),
  )
  // As autovacuum does within a minute. Before, the planner knows nothing, and may believe that an account has one row.
  await database.run((sql) => sql`ANALYZE customer`)
  // The plan that the connection keeps is made while the table is young.
  await writing(Effect.flatMap(locking(1, 2, 3), tag))
  await database.run((sql) => addCustomers(sql, 201, 5_000))
})

describe("an update", () => {
  it("reads the rows that it changes", async () => {
    const update = Effect.flatMap(locking(4_100), (rows) => readBy(tag(rows)))
    const read = await writing(update)
    expect(read).toBeLessThanOrEqual(2)
    expect(read).toBeGreaterThanOrEqual(1)
  })
})

describe("a statement that is sent and not waited for", () => {
  const renamed = (id: string) =>
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`UPDATE customer SET name = 'Renamed' WHERE account_id = ${LARGEST.account_id} AND id = ${id}`,
    )
  /** Another transaction on each of the pool's connections, which one that was left open would be part of. */
  const othersCommit = () =>
    Promise.all(
      Array.from({ length: 40 }, (_, n) =>
        runtime.runPromise(
          Effect.flatMap(TenantDatabase, ({ writing }) =>
            writing(
              { account_id: `acct_other_${n}`, livemode: false },
              Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT pg_sleep(0.02)`),
            ),
          ),
        ),
      ),
    )

  const isTakenBack = async (id: string, failing: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) => {
    const exit = await runtime.runPromise(
      Effect.exit(
        Effect.flatMap(TenantDatabase, ({ writing }) => writing(LARGEST, Effect.andThen(renamed(id), failing))),
      ),
    )
    expect(Exit.isFailure(exit)).toBe(true)
    await othersCommit()
    expect(await database.run((sql) => names(sql, [id]))).toEqual(["Ada"])
  }

  it("takes its transaction back where it never went out", () =>
    isTakenBack(
      "cus_4500",
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        // No bigint holds it, which is found out before anything is sent.
        sent(sql`SELECT ${PgTypes.int8(2n ** 80n)}`),
      ),
    ))

  it("takes it back where Postgres has refused it long before the end", () =>
    isTakenBack(
      "cus_4501",
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sent(sql`SELECT 1 / 0`)
        yield* Effect.promise(() => database.run((other) => other`SELECT pg_sleep(0.05)`))
      }),
    ))
})

describe("a write that may be all that its transaction does", () => {
  const customerRow = (id: string, account_id = LARGEST.account_id): CustomerRow => ({
    account_id,
    livemode: false,
    id,
    name: "Ada",
    email: null,
    phone: null,
    default_payment_method_id: null,
    test_clock_id: null,
    metadata: {},
    created_at: 0,
  })
  const creating = (row: CustomerRow) => sentWrite((sql) => customers.inserting(sql, [row]))
  const exitOf = <A, E>(work: Effect.Effect<A, E, SqlClient.SqlClient>) =>
    runtime.runPromise(Effect.exit(Effect.flatMap(TenantDatabase, ({ writing }) => writing(LARGEST, work))))
  const found = (...ids: ReadonlyArray<string>) => database.run((sql) => names(sql, ids))
  const failing = Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 / 0`)

  it("is a transaction by itself", async () => {
    await writing(creating(customerRow("cus_alone")))
    expect(await found("cus_alone")).toEqual(["Ada"])
  })

  it("is its tenant's, or nobody's", async () => {
    expect(Exit.isFailure(await exitOf(creating(customerRow("cus_others", "acct_others"))))).toBe(true)
    expect(await database.run((sql) => sql`SELECT FROM customer WHERE id = 'cus_others'`)).toEqual([])
  })

  it("is undone in memory where it is refused", async () => {
    let undone = 0
    const undoing = ifItFails(Effect.sync(() => void undone++))
    expect(Exit.isFailure(await exitOf(Effect.andThen(undoing, creating(customerRow("cus_alone")))))).toBe(true)
    expect(undone).toBe(1)
  })

  it("has done nothing where it never went out", async () => {
    // No timestamptz holds it.
    const exit = await exitOf(creating({ ...customerRow("cus_unsent"), created_at: Number.NaN }))
    expect(Exit.isFailure(exit) && hasDoneNothing(exit.cause)).toBe(true)
    expect(await found("cus_unsent")).toEqual([])
  })

  it("is seen by what comes behind it, and is taken back with that", async () => {
    const seen = await writing(
      Effect.gen(function* () {
        yield* creating(customerRow("cus_first"))
        yield* creating(customerRow("cus_second"))
        return yield* names(yield* SqlClient.SqlClient, ["cus_first", "cus_second"])
      }),
    )
    expect(seen).toEqual(["Ada", "Ada"])
    expect(Exit.isFailure(await exitOf(Effect.andThen(creating(customerRow("cus_third")), failing)))).toBe(true)
    expect(await found("cus_first", "cus_second", "cus_third")).toEqual(["Ada", "Ada"])
  })

  it("stays, where a savepoint behind it is taken back", async () => {
    await writing(
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* creating(customerRow("cus_before"))
        yield* Effect.exit(sql.withTransaction(Effect.andThen(creating(customerRow("cus_within")), failing)))
      }),
    )
    expect(await found("cus_before", "cus_within")).toEqual(["Ada"])
  })

  it("is not sent where its work fails", async () => {
    expect(Exit.isFailure(await exitOf(Effect.andThen(creating(customerRow("cus_never")), Effect.fail("no"))))).toBe(
      true,
    )
    expect(await found("cus_never")).toEqual([])
  })
})

describe("a lock", () => {
  it("reads the rows that it locks, and none of the largest account's others", async () => {
    const read = await writing(readBy(locking(4_000, 17, 900)))
    expect(read).toBeLessThanOrEqual(6)
    expect(read).toBeGreaterThanOrEqual(3)
  })

  it("takes rows in the order of their IDs, and leaves out what is not there", async () => {
    const locked = await writing(customers.lock([customerOf(4_000), { ...LARGEST, id: "cus_none" }, customerOf(17)]))
    expect(locked.map(({ id }) => id)).toEqual(["cus_17", "cus_4000"])
  })
})

describe("a statement by itself", () => {
  let service: ManagedRuntime.ManagedRuntime<SqlClient.SqlClient, unknown>
  beforeAll(() => {
    service = ManagedRuntime.make(serviceLayer(database.url()))
  })
  afterAll(() => service.dispose())
  const rename = (name: string, ...of: ReadonlyArray<number>) =>
    byItself(
      (sql) => sql`
        UPDATE customer SET name = ${name} WHERE account_id = ${LARGEST.account_id} AND id IN ${sql.in(of.map((n) => customerOf(n).id))}`,
    )
  const nameOf = (n: number) =>
    Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.map(names(sql, [customerOf(n).id]), ([name]) => name))

  it("is written whole or not at all, and leaves a connection that serves the next", () =>
    service.runPromise(
      Effect.gen(function* () {
        yield* rename("By itself", 11)
        expect(yield* nameOf(11)).toBe("By itself")
        const refused = yield* Effect.exit(
          byItself(
            (sql) => sql`
              WITH renamed AS (UPDATE customer SET name = 'Half' WHERE account_id = ${LARGEST.account_id} AND id = 'cus_11' RETURNING 1)
              SELECT refuse_outdated((SELECT count(*) FROM renamed), 2)`,
          ),
        )
        expect(Exit.isFailure(refused) && isOutdated(Cause.squash(refused.cause))).toBe(true)
        expect(yield* nameOf(11)).toBe("By itself")
        const sql = yield* SqlClient.SqlClient
        yield* sql.withTransaction(rename("Within", 11))
        yield* rename("Again", 11)
        expect(yield* nameOf(11)).toBe("Again")
      }),
    ))

  it("is not abandoned by who is interrupted meanwhile", async () => {
    const held = await hold(database, (sql) => sql`SELECT 1 FROM customer WHERE id = ${customerOf(12).id} FOR UPDATE`)
    const interrupted = service.runPromise(
      Effect.gen(function* () {
        const renaming = yield* Effect.forkChild(rename("To its end", 12), { startImmediately: true })
        yield* Effect.promise(() => held.stands())
        const interrupting = yield* Effect.forkChild(Fiber.interrupt(renaming), { startImmediately: true })
        // Long enough for whoever does not wait.
        yield* nameOf(13)
        expect(interrupting.pollUnsafe()).toBeUndefined()
        yield* Effect.promise(() => held.release())
        yield* Fiber.join(interrupting)
        return yield* nameOf(12)
      }),
    )
    expect(await interrupted).toBe("To its end")
  })
})

describe("statements in one go", () => {
  const rename = (sql: SqlClient.SqlClient, id: string, name: string | null) =>
    sql`UPDATE customer SET name = ${name} WHERE account_id = ${LARGEST.account_id} AND NOT livemode AND id = ${id}`

  it("are carried out in their order", async () => {
    await writing(
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        inOneGo(Array.from({ length: 20 }, (_, n) => rename(sql, "cus_1", `Ada ${n}`))),
      ),
    )
    expect(await database.run((sql) => names(sql, ["cus_1"]))).toEqual(["Ada 19"])
  })

  it("fail as the first of them did, and leave nothing behind", async () => {
    const failed = await writing(
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        Effect.flip(inOneGo([rename(sql, "cus_2", "Bola"), rename(sql, "cus_3", null), rename(sql, "cus_4", "Bola")])),
      ),
    ).then(
      () => undefined,
      (error) => error,
    )
    // The error was caught, but the transaction cannot be committed.
    expect(SqlError.isSqlError(failed) && failed.reason.operation).toBe("take back")
    expect(await database.run((sql) => names(sql, ["cus_2", "cus_3", "cus_4"]))).toEqual(["Ada", "Ada", "Ada"])
    const error = await database.run((sql) =>
      Effect.flip(
        sql.withTransaction(inOneGo([rename(sql, "cus_2", "Bola"), rename(sql, "cus_3", null), sql`SELECT 1`])),
      ),
    )
    expect(SqlError.isSqlError(error) && error.reason._tag).toBe("ConstraintError")
    expect(await database.run((sql) => names(sql, ["cus_2"]))).toEqual(["Ada"])
  })

  it("leave a connection that serves the next transaction, however many fail at once", async () => {
    const results = await Promise.all(
      Array.from({ length: 60 }, (_, n) =>
        writing(
          Effect.flatMap(SqlClient.SqlClient, (sql) =>
            inOneGo([
              rename(sql, `cus_${100 + n}`, "Chidi"),
              rename(sql, `cus_${200 + n}`, n % 3 === 0 ? null : "Chidi"),
            ]),
          ),
        ).then(
          () => "written",
          () => "failed",
        ),
      ),
    )
    expect(results.map((result, n) => result === (n % 3 === 0 ? "failed" : "written")).every(Boolean)).toBe(true)
    const [first, second] = await database.run((sql) =>
      Effect.all([
        names(
          sql,
          Array.from({ length: 60 }, (_, n) => `cus_${100 + n}`),
        ),
        names(
          sql,
          Array.from({ length: 60 }, (_, n) => `cus_${200 + n}`),
        ),
      ]),
    )
    expect(first).toEqual(Array.from({ length: 60 }, (_, n) => (n % 3 === 0 ? "Ada" : "Chidi")))
    expect(second).toEqual(first)
  })
})

describe("what a transaction has noted in memory", () => {
  const undone: Array<string> = []
  const noting = (name: string) => ifItFails(Effect.sync(() => void undone.push(name)))
  const endOf = async (work: Effect.Effect<unknown, unknown, SqlClient.SqlClient>) => {
    undone.length = 0
    const whole = Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.exit(sql.withTransaction(work)))
    const { _tag } = await Effect.runPromise(Effect.provide(whole, serviceLayer(database.url())))
    return [_tag, ...undone]
  }

  it("stays where it is committed, and is undone where it fails", async () => {
    expect(await endOf(noting("kept"))).toEqual(["Success"])
    expect(await endOf(Effect.andThen(noting("lost"), Effect.fail("no")))).toEqual(["Failure", "lost"])
  })

  it("is undone where the answer to the commit is lost", async () => {
    const own = Effect.flatMap(SqlClient.SqlClient, (sql) => sql<{ pid: number }>`SELECT pg_backend_pid() AS pid`)
    const ends = ([row]: ReadonlyArray<{ readonly pid: number }>) =>
      Effect.promise(() => database.run((sql) => sql`SELECT pg_terminate_backend(${row!.pid})`))
    const work = Effect.andThen(noting("unknown"), Effect.flatMap(own, ends))
    expect(await endOf(work)).toEqual(["Failure", "unknown"])
  })

  it("is undone with the whole of it, not with a savepoint", async () => {
    const inner = (sql: SqlClient.SqlClient) =>
      Effect.ignore(sql.withTransaction(Effect.andThen(noting("inner"), Effect.fail("no"))))
    const work = Effect.flatMap(SqlClient.SqlClient, inner)
    expect(await endOf(work)).toEqual(["Success"])
    expect(await endOf(Effect.andThen(work, Effect.fail("no")))).toEqual(["Failure", "inner"])
  })
})

it("of which nobody knows whether they were committed are those that lost their connection, also where that was no expected error", () => {
  const lost = new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause: new Error("read ECONNRESET") }) })
  expect([Cause.fail(lost), Cause.die(lost)].map(hasDoneNothing)).toEqual([false, false])
  expect([Cause.fail("refused"), Cause.die(new Error("a defect"))].map(hasDoneNothing)).toEqual([true, true])
})
