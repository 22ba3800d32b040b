import { Effect, Layer } from "effect"
import type { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { RecordKeys } from "../../src/http/RecordKeys.ts"
import { LOCKS } from "../../src/postgres/advisoryLocks.ts"
import { createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { startServer } from "../support/server.ts"
import { secretsLayer } from "../support/services.ts"
import { createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const { api, live, database, keys, accountId } = useOwnInstance()

const PARALLEL = 20

const withKey = (key: string) => ({ "idempotency-key": key })

/** Runs a program that works on idempotency records, as a process of the service does. */
const withRecords = <A, E>(program: Effect.Effect<A, E, SqlClient.SqlClient | RecordKeys>) =>
  database.run(() => Effect.provide(program, RecordKeys.layer.pipe(Layer.provide(secretsLayer(database)))))

/** The key of a record. */
const kept = (key: string): Promise<string> =>
  withRecords(Effect.map(RecordKeys, (keys) => keys.of({ account_id: accountId(), livemode: false }, key).name))

describe("Idempotency-Key", () => {
  it.each(["/customers", "/plans"])("20 identical concurrent POSTs to %s make one object", async (path) => {
    const body =
      path === "/customers" ? { name: "One" } : { name: "One", amount: 5000, currency: "NGN", billing_cycle: "daily" }
    const before = (await api.all(path)).length
    const answers = await Promise.all(
      Array.from({ length: PARALLEL }, () => api.post(path, body, withKey(`parallel ${path}`))),
    )
    expect((await api.all(path)).length).toBe(before + 1)
    const made = answers.filter(({ status }) => status === 201)
    expect(new Set(made.map(({ body }) => body.data.id)).size).toBe(1)
    expect(made.filter(({ headers }) => headers.get("idempotent-replayed") === null).length).toBe(1)
    for (const { status, body } of answers.filter(({ status }) => status !== 201)) {
      expect([status, body.error.type, body.error.code]).toEqual([
        409,
        "idempotency_error",
        "idempotency_request_in_progress",
      ])
    }
  })

  it("20 identical concurrent subscriptions charge once", async () => {
    const body = { customer: await createCustomer(api), plan: await createPlan(api), payment_method: "pm_test_success" }
    const answers = await Promise.all(
      Array.from({ length: PARALLEL }, () => api.post("/subscriptions", body, withKey("subscribe"))),
    )
    const again = await api.post("/subscriptions", body, withKey("subscribe"))
    expect(again.headers.get("idempotent-replayed")).toBe("true")
    const ids = new Set([...answers, again].filter(({ status }) => status === 201).map(({ body }) => body.data.id))
    expect(ids.size).toBe(1)
    expect((await api.all(`/charges?customer=${body.customer}`)).length).toBe(1)
  })

  it("replays the response byte for byte", async () => {
    const first = await api.post("/customers", { name: "Same", metadata: { a: "1", b: "2" } }, withKey("same"))
    const replay = await api.post("/customers", { metadata: { b: "2", a: "1" }, name: "Same" }, withKey("same"))
    expect(replay.status).toBe(201)
    expect(replay.body).toEqual(first.body)
    expect([first.headers.get("idempotent-replayed"), replay.headers.get("idempotent-replayed")]).toEqual([
      null,
      "true",
    ])
  })

  it("belongs to one request of one account and environment", async () => {
    await api.post("/customers", { name: "A" }, withKey("reuse"))
    for (const answer of [
      await api.post("/customers", { name: "B" }, withKey("reuse")),
      await api.post("/plans", { name: "A" }, withKey("reuse")),
    ]) {
      expect([answer.status, answer.body.error.code]).toEqual([409, "idempotency_key_reused"])
    }
    expect((await live.post("/customers", { name: "B" }, withKey("reuse"))).status).toBe(201)
  })

  it("refuses another request even while the first one is processed", async () => {
    const answers = await Promise.all(
      Array.from({ length: PARALLEL }, (_, n) => api.post("/customers", { name: `Body ${n}` }, withKey("many bodies"))),
    )
    const refused = answers.filter(({ status }) => status !== 201)
    expect(refused.length).toBe(PARALLEL - 1)
    for (const { status, body } of refused) expect([status, body.error.code]).toEqual([409, "idempotency_key_reused"])
  })

  it("is free again after a refusal", async () => {
    expect((await api.post("/customers", { nmae: "A" }, withKey("mend"))).status).toBe(400)
    const mended = await api.post("/customers", { name: "A" }, withKey("mend"))
    expect([mended.status, mended.headers.get("idempotent-replayed")]).toEqual([201, null])
  })

  it("has at most 255 characters", async () => {
    const answer = await api.post("/customers", { name: "A" }, withKey("k".repeat(256)))
    expect([answer.status, answer.body.error.param]).toEqual([400, "Idempotency-Key"])
  })

  it("makes one object even if its process looks dead for a moment", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const post = () => api.post("/customers", { name: "Slow", test_clock: clock }, withKey("lost lock"))
    const answers = await database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          // The first request waits for the clock's row. Then it loses the connection that shows others it is alive.
          yield* sql`SELECT 1 FROM test_clock WHERE id = ${clock} FOR UPDATE`
          const first = post()
          yield* Effect.promise(() => eventually(async () => ((await post()).status === 409 ? true : undefined)))
          yield* sql`SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::int::oid`
          const more = yield* Effect.promise(() => Promise.all(Array.from({ length: 5 }, post)))
          return { first, more }
        }),
      ),
    )
    for (const { status, body } of answers.more)
      expect([status, body.error?.code]).toEqual([409, "idempotency_request_in_progress"])
    data(await answers.first, 201)
    expect(data(await api.get(`/test/clocks/${clock}`)).customer_count).toBe(1)
    // The process shows again that it is alive. No other process takes over its current records.
    await eventually(async () => {
      const granted = await database.run(
        (sql) => sql`
          SELECT 1 FROM pg_locks WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::int::oid AND granted
            AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`,
      )
      return granted.length > 0 ? true : undefined
    })
  })

  it("is not stored in plain text, nor is the response", async () => {
    const name = `Secret name ${Math.trunc(performance.now())}`
    const first = await api.post("/customers", { name }, withKey("a key of mine"))
    const key = await kept("a key of mine")
    const [row] = await database.run(
      (sql) => sql<{ text: string; body: Uint8Array }>`
        SELECT r::text AS text, response_body AS body FROM idempotency_record r WHERE key = ${key}`,
    )
    expect(row!.text).not.toContain("a key of mine")
    expect(Buffer.from(row!.body).toString("latin1")).not.toContain("Secret")
    const again = await api.post("/customers", { name }, withKey("a key of mine"))
    expect(again.body).toEqual(first.body)
  })

  it("is taken over from a dead process, and its started work is finished", async () => {
    const body = { customer: await createCustomer(api), plan: await createPlan(api), payment_method: "pm_test_success" }
    const answered = data(await api.post("/subscriptions", body, withKey("crash")), 201)
    // The state after a process died between its first transaction and its answer.
    const dead = 424_242
    const key = await kept("crash")
    await database.run(
      (sql) =>
        sql`UPDATE idempotency_record SET response_status = NULL, response_body = NULL, runner = ${dead}, resource_id = ${answered.id} WHERE key = ${key}`,
    )
    const again = await api.post("/subscriptions", body, withKey("crash"))
    expect(data(again, 201)).toEqual(answered)
    expect((await api.all(`/charges?customer=${body.customer}`)).length).toBe(1)
  })

  it("is free for all processes if its request could not finish, and the started work is finished", async () => {
    const other = await startServer(database.url())
    const price = 777_701
    const plan = await createPlan(api, { amount: price })
    const body = { customer: await createCustomer(api), plan, payment_method: "pm_test_success" }
    const statement = (text: string) => database.run((sql) => sql.unsafe(text).unprepared)
    // The simulator cannot write its books. The subscription is started by then.
    await statement(
      "CREATE FUNCTION refuse_attempt() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by the test'; END $$",
    )
    await statement(
      `CREATE TRIGGER refuse_attempt BEFORE INSERT ON simulator_attempt FOR EACH ROW WHEN (new.amount_kobo = ${price}) EXECUTE FUNCTION refuse_attempt()`,
    )
    const started = data(await api.post("/subscriptions", body, withKey("begun")), 201)
    expect(started.status).toBe("incomplete")
    await statement("DROP TRIGGER refuse_attempt ON simulator_attempt")
    const elsewhere = createApi(other.origin, keys().sk_test)
    const made = data(await elsewhere.post("/subscriptions", body, withKey("begun")), 201)
    expect(made.id).toBe(started.id)
    // The charge is still in flight in the process that sent it, which finishes it.
    await eventually(async () =>
      data(await api.get(`/subscriptions/${made.id}`)).status === "active" ? true : undefined,
    )
    expect((await api.all(`/subscriptions?customer=${body.customer}`)).map(({ id }) => id)).toEqual([made.id])
    expect(await api.all(`/charges?customer=${body.customer}`)).toMatchObject([{ status: "succeeded" }])
    expect(await other.stop()).toBe(0)
  })

  it("that a live process no longer knows is free for others after a minute, and for the same process immediately", async () => {
    const other = await startServer(database.url())
    const elsewhere = createApi(other.origin, keys().sk_test)
    const body = { customer: await createCustomer(api), plan: await createPlan(api), payment_method: "pm_test_success" }
    // The state after a process lost its database before it could store the response or release the record.
    const lose = async (name: string) => {
      const { id } = data(await api.post("/subscriptions", body, withKey(name)), 201)
      const key = await kept(name)
      await database.run(
        (sql) => sql`
          UPDATE idempotency_record SET response_status = NULL, response_body = NULL, resource_id = ${id}, token = 'lost' WHERE key = ${key}`,
      )
      return { key, id }
    }
    const lost = await lose("lost")
    const early = await elsewhere.post("/subscriptions", body, withKey("lost"))
    expect([early.status, early.body.error.code]).toEqual([409, "idempotency_request_in_progress"])
    await database.run(
      (sql) => sql`UPDATE idempotency_record SET taken_at = taken_at - interval '1 minute' WHERE key = ${lost.key}`,
    )
    expect(data(await elsewhere.post("/subscriptions", body, withKey("lost")), 201).id).toBe(lost.id)
    expect(data(await api.post("/subscriptions", body, withKey("lost")), 201).id).toBe(lost.id)
    const own = await lose("own")
    expect(data(await api.post("/subscriptions", body, withKey("own")), 201).id).toBe(own.id)
    expect((await api.all(`/charges?customer=${body.customer}`)).length).toBe(2)
    expect(await other.stop()).toBe(0)
  })

  it("of a refused request leaves no record", async () => {
    const post = (body: object) => api.post("/customers", body, withKey("again and again"))
    const key = await kept("again and again")
    const record = () => database.run((sql) => sql`SELECT 1 FROM idempotency_record WHERE key = ${key}`)
    expect((await post({ name: "A", test_clock: "clock_missing" })).status).toBe(400)
    expect(await record()).toEqual([])
    data(await post({ name: "A" }), 201)
    // A reused key is refused before wrong parameters are.
    expect((await post({ name: "" })).body.error.code).toBe("idempotency_key_reused")
    expect((await record()).length).toBe(1)
  })

  it("20 requests with the same key in two processes, each in a batch with others, make one object", async () => {
    const other = await startServer(database.url())
    const both = [api, createApi(other.origin, keys().sk_test)]
    const before = (await api.all("/customers")).length
    const answers = await Promise.all(
      both.flatMap((one) =>
        Array.from({ length: PARALLEL }, (_, n) => one.post("/customers", { name: `${n}` }, withKey(`in both ${n}`))),
      ),
    )
    expect((await api.all("/customers")).length).toBe(before + PARALLEL)
    const made = answers.filter(({ status }) => status === 201)
    expect(new Set(made.map(({ body }) => body.data.id)).size).toBe(PARALLEL)
    expect(made.filter(({ headers }) => headers.get("idempotent-replayed") === null).length).toBe(PARALLEL)
    for (const { status } of answers) expect([201, 409]).toContain(status)
    expect(await other.stop()).toBe(0)
  })

  it("survives a crash of the server during a subscription", async () => {
    const server = await startServer(database.url())
    const mine = createApi(server.origin, keys().sk_test)
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const bodies = Array.from({ length: PARALLEL }, (_, n) => ({
      customer,
      plan,
      payment_method: "pm_test_success",
      metadata: { n: String(n) },
    }))
    const first = bodies.map((body, n) =>
      mine.post("/subscriptions", body, withKey(`killed ${n}`)).catch(() => undefined),
    )
    await eventually(async () => ((await api.all(`/charges?customer=${customer}`)).length > 2 ? true : undefined))
    await server.kill()
    await Promise.all(first)
    const answers = await Promise.all(
      bodies.map((body, n) =>
        eventually(async () => {
          const answer = await api.post("/subscriptions", body, withKey(`killed ${n}`))
          return answer.status === 409 ? undefined : answer
        }),
      ),
    )
    for (const answer of answers) expect(data(answer, 201).status).toBe("active")
    const subscriptions = await api.all(`/subscriptions?customer=${customer}`)
    expect(subscriptions.length).toBe(PARALLEL)
    expect((await api.all(`/charges?customer=${customer}`)).length).toBe(PARALLEL)
    expect(await database.run((sql) => sql`SELECT reference FROM simulator_attempt WHERE attempts > 1`)).toEqual([])
  })

  it("survives a crash during every other request that charges", async () => {
    const server = await startServer(database.url())
    const mine = createApi(server.origin, keys().sk_test)
    const customer = await createCustomer(api)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    const subscriptions = async (plan: object) => {
      const body = { customer, plan: await createPlan(api, { ...plan }) }
      const answers = await Promise.all(Array.from({ length: PARALLEL }, () => api.post("/subscriptions", body)))
      return answers.map((answer) => data(answer, 201).id as string)
    }
    const delivered = await subscriptions({ billing_cycle: "per_delivery" })
    const paused = await subscriptions({ pause_enabled: true, pro_rate: false })
    for (const id of paused) data(await api.post(`/subscriptions/${id}/pause`))
    const before = (await api.all(`/charges?customer=${customer}`)).length
    const requests = Array.from({ length: PARALLEL }, (_, n) => [
      { path: "/charges", body: { customer, amount: 1000 + n, currency: "NGN" }, status: 201 },
      { path: `/subscriptions/${delivered[n]}/unit-records`, body: { quantity: 1 }, status: 201 },
      { path: `/subscriptions/${paused[n]}/resume`, body: {}, status: 200 },
    ]).flat()
    const first = requests.map(({ path, body }, n) =>
      mine.post(path, body, withKey(`charging ${n}`)).catch(() => undefined),
    )
    await eventually(async () =>
      (await api.all(`/charges?customer=${customer}`)).length > before + 2 ? true : undefined,
    )
    await server.kill()
    await Promise.all(first)
    for (const [n, { path, body, status }] of requests.entries()) {
      const answer = await eventually(async () => {
        const answer = await api.post(path, body, withKey(`charging ${n}`))
        return answer.status === 409 ? undefined : answer
      })
      expect(answer.status, `${path} ${JSON.stringify(answer.body)}`).toBe(status)
    }
    const charges = (await api.all(`/charges?customer=${customer}`)).slice(0, -before)
    expect(charges.map(({ status }) => status)).toEqual(requests.map(() => "succeeded"))
    await expectWhole(database)
  })
})
