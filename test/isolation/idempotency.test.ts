/** Tests idempotency records: their size and their deletion. */
import { randomBytes } from "node:crypto"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import type { Tenant } from "../../src/db/tenant.ts"
import { unitOfWork } from "../../src/db/UnitOfWork.ts"
import { beginTry, endTry, findOther, insertRecords, type KeyedTry, purge } from "../../src/http/idempotency.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { useDatabase } from "../support/database.ts"
import { useServices } from "../support/services.ts"

const database = useDatabase()
const run = useServices(database)

const REQUEST = { method: "POST", path: "/v1/plans", body: { name: "Gym" } }

const newTenant = async (): Promise<Tenant> => {
  const { account } = await database.run(() => createAccount({ businessName: "Idempotent" }))
  return { account_id: account.id, livemode: true }
}

/** Runs a try of a request with this key. */
const trying = <A, E, R>(
  tenant: Tenant,
  key: string,
  request: typeof REQUEST,
  work: (mine: KeyedTry) => Effect.Effect<A, E, R>,
) => Effect.acquireUseRelease(beginTry(tenant, key, request), work, endTry)

/** What a request finds that another one with this key has left: its response, or a refusal. */
const ask = (tenant: Tenant, key: string, request: object = {}) =>
  run(Effect.result(trying(tenant, key, { ...REQUEST, ...request }, (mine) => findOther(tenant, mine))))

/** A request that does its work and returns this response. */
const work = (tenant: Tenant, key: string, response: { body: string; id: string | null }) =>
  run(
    trying(tenant, key, REQUEST, (mine) =>
      Effect.flatMap(SqlClient.SqlClient, (sql) =>
        sql.withTransaction(
          Effect.map(unitOfWork, (unit) =>
            insertRecords(unit, tenant, [[mine, { status: 201, expanded: null, ...response }]]),
          ),
        ),
      ),
    ),
  )

const stored = (tenant: Tenant) =>
  database.run(
    (sql) => sql<{ key: string; bytes: number }>`
      SELECT key, octet_length(response_body) AS bytes FROM idempotency_record WHERE account_id = ${tenant.account_id} ORDER BY key`,
  )

describe("a stored response", () => {
  it("has at most 256 KiB; for a larger one, the work is done once and the object is named", async () => {
    const tenant = await newTenant()
    const largest = "x".repeat(256 * 1024)
    await work(tenant, "largest", { body: largest, id: "plan_1" })
    expect(await ask(tenant, "largest")).toMatchObject({ success: { status: 201, body: largest } })
    await work(tenant, "larger", { body: `${largest}x`, id: "plan_2" })
    await work(tenant, "no object", { body: `${largest}x`, id: null })
    expect(Math.max(...(await stored(tenant)).map(({ bytes }) => bytes))).toBe(256 * 1024 + 28)
    for (const [key, named] of [
      ["larger", "plan_2"],
      ["no object", "the object that it made"],
    ] as const) {
      const { failure } = (await ask(tenant, key)) as { failure?: unknown }
      expect(failure).toMatchObject({ code: "idempotency_response_not_kept", status: 409 })
      expect((failure as { message: string }).message).toContain(`fetch ${named}`)
    }
    expect(await ask(tenant, "larger", { body: {} })).toMatchObject({ failure: { code: "idempotency_key_reused" } })
    const larger = database.run(
      (sql) => sql`UPDATE idempotency_record SET response_body = ${randomBytes(256 * 1024 + 29)}`,
    )
    await expect(larger).rejects.toMatchObject({
      reason: { cause: { constraint: "idempotency_record_bounded" } },
    })
  })
})

describe("expired records", () => {
  const MANY = 2_500

  it("are deleted in one run, however many; locked ones stay, and block nothing", async () => {
    const tenant = await newTenant()
    await database.run(
      (sql) => sql`
        INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner, token, resource_id, created_at)
        SELECT ${tenant.account_id}, true, n::text, ''::bytea, 1, n::text, 'plan_1', now() - interval '24 hours' - n * interval '1 second' FROM generate_series(1, ${MANY}::integer) n
        UNION ALL SELECT ${tenant.account_id}, true, 'young', '', 1, 'young', 'plan_1', now() - interval '23 hours 59 minutes'`,
    )
    const left = await database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT 1 FROM idempotency_record WHERE key IN ('2', '1234') FOR UPDATE`
          // On other connections.
          yield* Effect.promise(() => Promise.all([run(purge), run(purge)]))
          return yield* Effect.promise(() => stored(tenant))
        }),
      ),
    )
    expect(left.map(({ key }) => key)).toEqual(["1234", "2", "young"])
    await run(purge)
    expect((await stored(tenant)).map(({ key }) => key)).toEqual(["young"])
  })
})
