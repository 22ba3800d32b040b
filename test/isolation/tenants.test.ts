/** Tests that one tenant's actions do not affect others: its delays, refusals and used limits are its own. */
import { connect } from "node:net"
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { createKey, revokeKey } from "../../src/security/key/apiKeys.ts"
import { generateKey } from "../../src/security/key/key.ts"
import { createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { LISTENING } from "../support/listening.ts"
import { type Server, startServer } from "../support/server.ts"
import { createCustomer, data, eventually, refusal } from "../support/story.ts"

const { api, stranger, database, keys, accountId, server } = useOwnInstance()

/** Keeps `lock`'s locks while `work` runs. */
const holding = <A>(lock: string, work: () => Promise<A>): Promise<A> =>
  database.run((sql) =>
    sql.withTransaction(
      Effect.andThen(
        sql.unsafe(lock).unprepared,
        Effect.promise(() => work()),
      ),
    ),
  )

const codes = (answers: ReadonlyArray<{ readonly status: number; readonly body: unknown }>) =>
  new Set(answers.map(({ status, body }) => `${status} ${(body as { error?: { code: string } }).error?.code ?? ""}`))

describe("writes that wait for a row", () => {
  it("are refused in time, and leave connections for others", async () => {
    const id = await createCustomer(api)
    const { first, patches } = await holding(`SELECT 1 FROM customer WHERE id = '${id}' FOR UPDATE`, async () => {
      let answered = 0
      const patches = Array.from({ length: 20 }, async (_, n) => {
        const answer = await api.patch(`/customers/${id}`, { metadata: { n: String(n) } })
        answered++
        return answer
      })
      // Twenty wait, more than there are connections: by the tenant's share of them.
      await eventually(async () => {
        const [row] = await database.run(
          (sql) => sql<{ n: number }>`SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted`,
        )
        return row!.n >= 6 ? true : undefined
      })
      await createCustomer(stranger)
      data(await stranger.get("/customers"))
      expect(answered).toBe(0)
      return { patches, first: await Promise.race(patches) }
    })
    expect(refusal(first)).toEqual([409, "lock_timeout", null])
    const found = codes(await Promise.all(patches))
    expect([...found].filter((code) => !["200 ", "409 lock_timeout"].includes(code))).toEqual([])
    expect(found).toContain("200 ")
  })

  it("keep their idempotency key free for another try", async () => {
    const { id } = data(await api.post("/test/clocks", { frozen_time: "2025-01-01T00:00:00Z" }), 201)
    const join = () => api.post("/customers", { name: "Ada", test_clock: id }, { "idempotency-key": "waiting" })
    const refused = await holding(`SELECT 1 FROM test_clock WHERE id = '${id}' FOR UPDATE`, join)
    expect(refusal(refused)).toEqual([409, "lock_timeout", null])
    data(await join(), 201)
  })
})

describe("slow lists", () => {
  it("are refused, and leave reading sessions for others", async () => {
    const { first, slow } = await holding("LOCK TABLE customer IN ACCESS EXCLUSIVE MODE", async () => {
      const slow = Array.from({ length: 20 }, () => api.get("/customers"))
      // Background work may wait for the table, too.
      const waiting = () =>
        database.run(
          (sql) => sql`
            SELECT pid FROM pg_locks JOIN pg_stat_activity USING (pid)
            WHERE relation = 'customer'::regclass AND NOT granted AND query LIKE '%ORDER BY%LIMIT%'`,
        )
      await eventually(async () => ((await waiting()).length > 0 ? true : undefined))
      // One tenant has one session, whichever lock it waits for.
      expect((await waiting()).length).toBe(1)
      data(await stranger.get("/plans"))
      return { slow, first: await Promise.race(slow) }
    })
    expect(refusal(first)).toEqual([503, "query_too_slow", null])
    expect(Number(first.headers.get("retry-after"))).toBeGreaterThan(0)
    await Promise.all(slow)
    data(await api.get("/customers"))
  })
})

describe("a process with low limits", () => {
  const withServer = async (env: Readonly<Record<string, string>>, work: (low: Server) => Promise<void>) => {
    const low = await startServer(database.url(), env)
    try {
      await work(low)
    } finally {
      await low.stop()
    }
  }
  const many = <A>(count: number, one: () => Promise<A>) => Promise.all(Array.from({ length: count }, one))

  it("counts a publishable key's requests by key and address, and leaves the account its own limit", () =>
    withServer({ RATE_LIMIT_SANDBOX: "5", RATE_LIMIT_PUBLIC: "2" }, async (low) => {
      const shown = createApi(low.origin, keys().pk_test)
      const answers = await many(40, () => shown.get("/client/config"))
      expect(codes(answers)).toEqual(new Set(["200 ", "429 rate_limited"]))
      expect(answers[0]!.headers.get("ratelimit-limit")).toBe("4")
      const mine = await createApi(low.origin, keys().sk_test).get("/account")
      expect([mine.status, mine.headers.get("ratelimit-limit"), mine.headers.get("ratelimit-remaining")]).toEqual([
        200,
        "10",
        "9",
      ])
      // Another key of the account, at the same address, has its own rate.
      const other = await database.run(() => createKey({ account_id: accountId(), livemode: false }, "publishable"))
      data(await createApi(low.origin, other.key).get("/client/config"))
    }))

  it("counts each unknown key and each wrong signature as a request of its address", () =>
    withServer({ RATE_LIMIT_PUBLIC: "2" }, async (low) => {
      // Well-formed, so that each is looked up.
      const wrong = () => createApi(low.origin, Redacted.value(generateKey("secret", false).key)).get("/account")
      const callback = () => fetch(`${low.origin}/callbacks/termii/all`, { method: "POST", body: "{}" })
      const began = performance.now()
      expect([(await wrong()).status, (await callback()).status]).toEqual([401, 403])
      const answers = (await Promise.all([many(20, wrong), many(20, callback)])).flat()
      const seconds = (performance.now() - began) / 1000
      // The address's initial budget and its refill meanwhile, for both together.
      const refused = answers.filter(({ status }) => status === 429).length
      expect(2 + answers.length - refused).toBeLessThanOrEqual(4 + Math.ceil(2 * seconds))
      // A caller with a valid key is served, though the key is new here.
      data(await createApi(low.origin, keys().sk_test).get("/account"))
    }))

  it("asks a caller to retry, in time, if its key cannot be looked up", () =>
    withServer({}, async (low) => {
      const { key } = await database.run(() => createKey({ account_id: accountId(), livemode: false }, "secret"))
      const api = createApi(low.origin, key)
      await holding("LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE", async () => {
        const refused = await api.get("/account")
        expect([refused.status, refused.body.error.code]).toEqual([503, "service_unavailable"])
        expect(refused.headers.get("retry-after")).toMatch(/^\d+$/)
      })
      data(
        await eventually(async () =>
          (await api.get("/account")).status === 200 ? await api.get("/account") : undefined,
        ),
      )
    }))

  it("releases the limits of callers that hung up before they were identified", () =>
    withServer({ IN_FLIGHT: "2" }, async (low) => {
      const { key } = await database.run(() => createKey({ account_id: accountId(), livemode: false }, "secret"))
      const body = JSON.stringify({ name: "Ada" })
      const head = `POST /sandbox/v1/customers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${key}`
      const call = `${head}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
      await holding("LOCK TABLE api_key IN ACCESS EXCLUSIVE MODE", async () => {
        const callers = Array.from({ length: 2 }, () => connect(Number(new URL(low.origin).port), "127.0.0.1"))
        for (const caller of callers) caller.write(call)
        await eventually(async () => {
          const [row] = await database.run(
            (sql) =>
              sql<{
                n: number
              }>`SELECT count(*)::int AS n FROM pg_locks WHERE NOT granted AND relation = 'api_key'::regclass`,
          )
          return row!.n >= 1 ? true : undefined
        })
        for (const caller of callers) caller.destroy()
      })
      const api = createApi(low.origin, key)
      // Both permits at the same time. With one lost, this could never happen.
      await eventually(async () => {
        const answers = await many(2, () => api.get("/account"))
        return answers.every(({ status }) => status === 200) ? true : undefined
      }, 30_000)
    }))

  it("limits the requests in progress of one account only", () =>
    withServer({ IN_FLIGHT: "3" }, async (low) => {
      const mine = createApi(low.origin, keys().sk_test)
      await holding("LOCK TABLE customer IN ACCESS EXCLUSIVE MODE", async () => {
        const waiting = many(4, () => mine.get("/customers"))
        data(await createApi(low.origin, await strangersKey()).get("/plans"))
        const refused = (await waiting).filter(({ status }) => status === 429)
        expect(refused.map(refusal)).toEqual([[429, "too_many_in_flight", null]])
        expect(refused[0]!.headers.get("retry-after")).toBe("1")
      })
      data(await mine.get("/account"))
    }))
})

const strangersKey = async () => {
  const { body } = await stranger.get("/account")
  const { key } = await database.run(() => createKey({ account_id: body.data.id, livemode: false }, "secret"))
  return key
}

describe("a revoked key", () => {
  it("stops even if the connection that announces its end has silently died", async () => {
    const { id, key } = await database.run(() => createKey({ account_id: accountId(), livemode: false }, "secret"))
    const revoked = createApi(server().origin, key)
    data(await revoked.get("/account"))
    const lines = await database.run(
      (sql) =>
        sql<{
          pid: number
        }>`SELECT pid FROM pg_stat_activity WHERE ${sql.literal(LISTENING)}`,
    )
    expect(lines.length).toBeGreaterThan(0)
    const send = (signal: NodeJS.Signals) => {
      for (const { pid } of lines) process.kill(pid, signal)
    }
    send("SIGSTOP")
    try {
      await database.run(() => revokeKey({ account_id: accountId(), livemode: false, id }))
      const refused = await eventually(async () => {
        const answer = await revoked.get("/account")
        return answer.status === 401 ? answer : undefined
      })
      expect(refusal(refused)).toEqual([401, "key_revoked", null])
    } finally {
      send("SIGCONT")
    }
  })
})
