/** Tests batches of requests that lose their connection at COMMIT: the outcome is unknown, nothing is made twice. */
import { Effect, Exit, Layer, ManagedRuntime } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest"
import { poolLayer } from "../../src/db/database.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import type { Tenant } from "../../src/db/tenant.ts"
import { Batches } from "../../src/http/batches.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

const TENANT = { account_id: "acct_batch", livemode: false }
const ENDPOINT = {}

/** The faults of the next transactions after their work. No fault if the list is empty. */
let fates: Array<"is lost after its commit" | "is refused" | "goes well"> = []
let started = 0

/** The ways to lose a connection: with a socket error code, or without one. */
const LOSSES = [undefined, "ECONNRESET", "EPIPE", "ETIMEDOUT"] as const
let loss: (typeof LOSSES)[number]

const lost = () => {
  const cause = Object.assign(new Error("gone"), loss === undefined ? {} : { code: loss, syscall: "read" })
  return new SqlError.SqlError({ reason: new SqlError.ConnectionError({ cause, message: "gone", operation: "query" }) })
}

/** The database, with connections that are lost at COMMIT. */
const breaking = Layer.effect(
  TenantDatabase,
  Effect.map(TenantDatabase, (real) => ({
    ...real,
    writing: ((tenant, work) =>
      Effect.suspend(() => {
        started++
        const fate = fates.shift()
        if (fate === "is refused")
          return real.writing(
            tenant,
            Effect.andThen(
              work,
              Effect.flatMap(SqlClient.SqlClient, (sql) => sql`SELECT 1 / 0`),
            ),
          ) as never
        return fate === "is lost after its commit"
          ? Effect.andThen(real.writing(tenant, work), Effect.fail(lost()))
          : real.writing(tenant, work)
      })) as typeof real.writing,
  })),
)

const services = () =>
  breaking.pipe(Layer.provide(TenantDatabase.layer(database.url())), Layer.provideMerge(poolLayer(database.url(), 2)))
let runtime: ManagedRuntime.ManagedRuntime<TenantDatabase | SqlClient.SqlClient, unknown>

beforeAll(() => {
  runtime = ManagedRuntime.make(services())
  return database.run(
    (sql) => sql`INSERT INTO account (id, business_name, created_at) VALUES (${TENANT.account_id}, 'Batch', now())`,
  )
})
afterAll(() => runtime.dispose())
beforeEach(() => {
  started = 0
  return database.run((sql) => sql`DELETE FROM customer`)
})

interface Request {
  readonly name: string
}

const startAll = (tenant: Tenant, requests: ReadonlyArray<Request>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
      SELECT ${tenant.account_id}, false, 'cus_' || gen_random_uuid(), name, '{}', now() FROM unnest(${requests.map(({ name }) => name)}::text[]) AS r (name)`
    return requests.map(({ name }) => Exit.succeed(name))
  })

/** The first goes alone. The others come while it is in progress, and are the next batch. */
const ask = (names: ReadonlyArray<string>) =>
  runtime.runPromise(
    Effect.provide(
      Effect.flatMap(Batches, (batches) =>
        Effect.forEach(names, (name) => Effect.exit(batches.start(ENDPOINT, TENANT, "", { name }, startAll)), {
          concurrency: "unbounded",
        }),
      ),
      Batches.layer,
    ),
  )

const written = () =>
  database.run((sql) =>
    Effect.map(sql<{ name: string }>`SELECT name FROM customer ORDER BY name`, (rows) => rows.map(({ name }) => name)),
  )

describe("a batch", () => {
  it.each(LOSSES)("with an unknown outcome (%s) fails for all of its requests, and is not run again", async (how) => {
    loss = how
    fates = ["goes well", "is lost after its commit"]
    const all = await ask(["a", "b", "c"])
    expect(all.map(Exit.isSuccess)).toEqual([true, false, false])
    expect(started).toBe(2)
    expect(await written()).toEqual(["a", "b", "c"])
  })

  it("that the database refused has changed nothing: its requests are run again one by one", async () => {
    fates = ["goes well", "is refused", "goes well", "goes well"]
    const all = await ask(["a", "b", "c"])
    expect(all).toEqual(["a", "b", "c"].map((name) => Exit.succeed(name)))
    expect(started).toBe(4)
    expect(await written()).toEqual(["a", "b", "c"])
  })
})
