import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { createRateLimit } from "../src/http/rateLimit.ts"
import { createAccount, setPlan } from "../src/merchants/account/accounts.ts"
import { ALLOWANCES, nudgeOverage, thresholdsReached, writeOverage } from "../src/merchants/usage/allowances.ts"
import { createApi } from "./support/api.ts"
import { useInstance } from "./support/instance.ts"
import { startServer } from "./support/server.ts"
import { createCustomer, createPlan, data, eventually, refusal } from "./support/story.ts"

const { api, database, server } = useInstance()

const merchant = async (apiPlan = "starter", email?: string) => {
  const made = await database.run(() =>
    createAccount({
      businessName: "Counted",
      liveAccess: "approved",
      apiPlan: apiPlan as "starter",
      ...(email === undefined ? {} : { email }),
    }),
  )
  return {
    id: made.account.id,
    live: createApi(server().origin, made.keys.sk_live!, "live"),
    sandbox: createApi(server().origin, made.keys.sk_test),
  }
}

const setUsed = (account: string, used: number) =>
  database.run(
    (sql) => sql`
      INSERT INTO usage_counter (account_id, livemode, period_start_at, write_requests) VALUES (${account}, true, date_trunc('month', now(), 'UTC'), ${used})
      ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET write_requests = ${used}, write_threshold = 0`,
  )

const meter = ({ headers }: { readonly headers: Headers }) => [
  headers.get("x-service-billable"),
  headers.get("x-service-write-usage"),
  headers.get("x-service-write-limit"),
]

describe("metering (decision K1)", () => {
  it("counts 50 parallel live writes as 50 distinct contiguous numbers", async () => {
    const { live } = await merchant()
    const answers = await Promise.all(
      Array.from({ length: 50 }, (_, n) => live.post("/customers", { name: `Customer ${n}` })),
    )
    const numbers = answers.map((answer) => Number(answer.headers.get("x-service-write-usage"))).sort((a, b) => a - b)
    expect(numbers).toEqual(Array.from({ length: 50 }, (_, n) => n + 1))
    for (const answer of answers) expect(answer.headers.get("x-service-billable")).toBe("true")
    expect(data(await live.get("/usage")).write_requests).toMatchObject({ used: 50, included: 5000, remaining: 4950 })
  })

  it("counts successful writes, once each, and nothing else", async () => {
    const { live, sandbox } = await merchant()
    const key = { "idempotency-key": "once" }
    const first = await live.post("/customers", { name: "Ada" }, key)
    expect(meter(first)).toEqual(["true", "1", "5000"])
    expect(first.headers.get("x-service-usage-period-end")).toMatch(/^\d{4}-\d\d-01T00:00:00\.000Z$/)
    const replay = await live.post("/customers", { name: "Ada" }, key)
    expect([replay.headers.get("idempotent-replayed"), ...meter(replay)]).toEqual(["true", "false", "1", "5000"])
    expect(meter(await live.post("/customers", {}))).toEqual(["false", "1", "5000"])
    const unknownKey = createApi(server().origin, "sk_live_00none", "live")
    expect(meter(await unknownKey.post("/customers", { name: "Ada" }))).toEqual(["false", null, null])
    expect(meter(await unknownKey.get("/customers"))).toEqual([null, null, null])
    expect(meter(await live.post("/nowhere", {}))).toEqual(["false", "1", "5000"])
    expect(meter(await live.get("/customers"))).toEqual([null, null, null])
    const { id } = first.body.data
    expect(meter(await live.patch(`/customers/${id}`, { name: "Ada Obi" }))).toEqual(["true", "2", "5000"])
    expect(meter(await sandbox.post("/customers", { name: "Free" }))).toEqual(["false", "0", "5000"])
    expect(data(await live.get("/usage")).write_requests.used).toBe(2)
  })

  it("counts a write that charges once, with any number of stages", async () => {
    const { live, id } = await merchant()
    const plan = await createPlan(live)
    const customer = await createCustomer(live)
    await database.run(
      (sql) => sql`
        WITH added AS (
          INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at) VALUES (${id}, true, 'pm_test_success', ${customer}, 'card', now()))
        SELECT 1`,
    )
    const created = await live.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" })
    expect(created.status, JSON.stringify(created.body)).toBe(201)
    expect(meter(created)).toEqual(["true", "3", "5000"])
  })

  it("announces 80 % and 100 % once each, to the webhooks and to the owner", async () => {
    const { live, id } = await merchant("starter", "owner@example.com")
    await setUsed(id, 3998)
    for (let n = 0; n < 4; n++) await live.post("/customers", { name: "More" })
    const announcements = async () =>
      (await live.all("/events?type=usage.threshold_reached")).map(({ data: { object } }) => object)
    expect(await announcements()).toEqual([
      { object: "usage_threshold", metric: "write_requests", threshold: 80, used: 4000, included: 5000 },
    ])
    // Both in one step, as after a change of plan.
    await setUsed(id, 5100)
    await live.post("/customers", { name: "Over" })
    expect((await announcements()).map(({ threshold, used }) => [threshold, used])).toEqual([
      [100, 5101],
      [80, 5101],
      [80, 4000],
    ])
    const mails = await database.run(
      (sql) =>
        sql<{
          recipient: string
          subject: string
        }>`SELECT recipient, subject FROM letter WHERE account_id = ${id} ORDER BY id`,
    )
    expect(mails.map(({ subject }) => subject.slice(0, 5))).toEqual(["80 % ", "80 % ", "100 %"])
    expect(data(await live.get("/usage")).write_requests).toMatchObject({
      overage: 101,
      remaining: 0,
      overage_rate_per_1000: 10,
      projected_overage_amount: 10,
    })
  })

  it("counts reads separately from writes", async () => {
    const { live } = await merchant()
    for (let n = 0; n < 7; n++) await live.get("/customers")
    const used = await eventually(async () => {
      const { read_requests } = data(await live.get("/usage"))
      return read_requests.used >= 7 ? read_requests : undefined
    })
    expect(used.metered).toBe(false)
    // Immediately, not when they are written.
    const before = data(await live.get("/usage")).read_requests.used
    await live.get("/customers")
    await eventually(async () => (data(await live.get("/usage")).read_requests.used > before ? true : undefined))
  })

  it("never limits enterprise", async () => {
    const { live } = await merchant("enterprise")
    const made = await live.post("/customers", { name: "Big" })
    expect(meter(made)).toEqual(["true", "1", "unlimited"])
    expect(data(await live.get("/usage"))).toMatchObject({
      plan: "enterprise",
      write_requests: { included: null, remaining: null, overage: 0, overage_rate_per_1000: null },
      nudges: { included: 5000, overage_rate: 2500, overage_cap: 10_000_000 },
    })
  })
})

describe("GET /usage/history", () => {
  it("lists past months, newest first, with the plan of each, by their start", async () => {
    const { live, sandbox, id } = await merchant()
    await database.run(
      (sql) =>
        sql`UPDATE account SET created_at = date_trunc('month', now(), 'UTC') - interval '70 days' WHERE id = ${id}`,
    )
    await database.run(
      (sql) => sql`
        INSERT INTO usage_counter (account_id, livemode, period_start_at, write_requests)
        VALUES (${id}, true, date_trunc('month', now(), 'UTC') - interval '1 month', 7001)`,
    )
    await database.run(() => setPlan(id, "growth"))
    const { data: months, meta } = (await live.get("/usage/history?limit=1")).body
    expect(meta).toMatchObject({ has_more: true, next_cursor: months[0].period.start, limit: 1 })
    expect(months[0]).toMatchObject({
      object: "usage",
      plan: "starter",
      write_requests: { used: 7001, overage: 2001, projected_overage_amount: 30 },
    })
    const all = await live.all("/usage/history")
    expect(all.length).toBeGreaterThanOrEqual(2)
    expect(all.map(({ period }) => period.start)).toEqual([...all.map(({ period }) => period.start)].sort().reverse())
    expect(data(await live.get("/usage")).plan).toBe("growth")
    expect(refusal(await live.get("/usage/history?starting_after=2026-01-02T00:00:00Z"))).toEqual([
      400,
      "parameter_invalid",
      "starting_after",
    ])
    for (const { write_requests } of await sandbox.all("/usage/history")) expect(write_requests.used).toBe(0)
  })
})

describe("cost the amounts of the price list", () => {
  it("cost what the price list says", () => {
    expect(writeOverage(5000, ALLOWANCES.starter)).toEqual({ overage: 0, blocks: 0, amountKobo: 0 })
    expect(writeOverage(5001, ALLOWANCES.starter)).toEqual({ overage: 1, blocks: 1, amountKobo: 10 })
    expect(writeOverage(7000, ALLOWANCES.starter)).toEqual({ overage: 2000, blocks: 2, amountKobo: 20 })
    expect(writeOverage(10_000_000, ALLOWANCES.enterprise).amountKobo).toBe(0)
    expect(nudgeOverage(301, ALLOWANCES.growth)).toEqual({ overage: 1, amountKobo: 3500 })
    expect(nudgeOverage(9_000, ALLOWANCES.enterprise)).toEqual({ overage: 4000, amountKobo: 10_000_000 })
  })

  it("announce each threshold once, for any changes of the count", () => {
    fc.assert(
      fc.property(
        fc.array(fc.integer({ min: 0, max: 40 }), { maxLength: 50 }),
        fc.integer({ min: 1, max: 300 }),
        (steps, included) => {
          let used = 0
          let announced = 0
          const thresholds: Array<number> = []
          for (const step of steps) {
            used += step
            const reached = thresholdsReached(used, included, announced)
            thresholds.push(...reached)
            announced = reached.at(-1) ?? announced
          }
          expect(thresholds).toEqual([80, 100].filter((percent) => used * 100 >= included * percent))
        },
      ),
    )
  })
})

describe("rate limits (decision J6)", () => {
  it("allow a burst of twice the rate, and the rate after that", () => {
    const limit = createRateLimit(50)
    const taken = Array.from({ length: 105 }, () => limit.take("a", 0).allowed)
    expect(taken.filter(Boolean)).toHaveLength(100)
    expect(limit.take("b", 0)).toEqual({
      allowed: true,
      headers: { "ratelimit-limit": "100", "ratelimit-remaining": "99", "ratelimit-reset": "1" },
    })
    expect(limit.take("a", 0).headers["retry-after"]).toBe("1")
    expect(Array.from({ length: 60 }, () => limit.take("a", 1000).allowed).filter(Boolean)).toHaveLength(50)
  })

  it("return 429 by account and environment, with the time to wait", async () => {
    const slow = await startServer(database.url(), { RATE_LIMIT_SANDBOX: "2", RATE_LIMIT_PUBLIC: "2" })
    try {
      const { sandbox: mine, live } = await merchant()
      const made = await database.run(() => createAccount({ businessName: "Fast" }))
      const fast = createApi(slow.origin, made.keys.sk_test)
      const answers = await Promise.all(Array.from({ length: 60 }, () => fast.get("/account")))
      const limited = answers.filter(({ status }) => status === 429)
      expect(limited.length).toBeGreaterThan(4)
      expect(limited[0]!.body.error).toMatchObject({ type: "rate_limit_error", code: "rate_limited" })
      expect(Number(limited[0]!.headers.get("retry-after"))).toBeGreaterThan(0)
      for (const { headers } of answers)
        expect(["limit", "remaining", "reset"].map((name) => headers.has(`ratelimit-${name}`))).toEqual([
          true,
          true,
          true,
        ])
      // Others are not affected, and unknown keys have no rate.
      expect((await mine.get("/account")).status).toBe(200)
      expect((await live.get("/account")).status).toBe(200)
      const pages = await Promise.all(Array.from({ length: 60 }, () => fetch(`${slow.origin}/docs/errors`)))
      expect(pages.map(({ status }) => status)).toContain(429)
      expect((await fetch(`${slow.origin}/healthz`)).status).toBe(200)
    } finally {
      await slow.stop()
    }
  })

  it("are on every answer to a valid key, errors included", async () => {
    for (const answer of [await api.get("/account"), await api.get("/nowhere"), await api.post("/plans", {})])
      expect(answer.headers.get("ratelimit-limit")).toBe("200000")
  })
})
