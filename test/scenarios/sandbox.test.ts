import { Effect, Schema } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { SANDBOX_STEPS } from "../../src/sandbox/reset.ts"
import { createApi } from "../support/api.ts"
import { useInstance } from "../support/instance.ts"
import { RESPONSES } from "../support/responses.ts"
import {
  advance,
  createClock,
  createCustomer,
  createPlan,
  data,
  eventually,
  refusal,
  subscribe,
} from "../support/story.ts"

const { accountId, api, database, live, server, stranger } = useInstance()

const trigger = (body: object) => api.post("/test/events/trigger", body)

describe("POST /test/events/trigger (decision I9)", () => {
  it.each(["__proto__", "constructor", "toString", "__defineGetter__.x", "nothing"])(
    "creates an event of %s",
    async (type) => {
      const event = data(await trigger({ type }), 201)
      expect(event.type).toBe(type)
      expect(event.data.object.object).toBe(type.split(".")[0])
    },
  )

  it.each([
    ["subscription.past_due", "subscription", { status: "past_due" }],
    ["subscription.cancelled", "subscription", { status: "cancelled" }],
    ["subscription.paused", "subscription", { status: "paused" }],
    ["charge.failed", "charge", { status: "failed", failure_code: "insufficient_funds" }],
    ["charge.succeeded", "charge", { status: "succeeded" }],
    ["customer.created", "customer", {}],
    ["test_clock.ready", "test_clock", { status: "ready" }],
  ] as const)("%s is created with an object of its family, as the API shows them", async (type, object, shown) => {
    const event = data(await trigger({ type }), 201)
    expect(event).toMatchObject({ object: "event", type, livemode: false, api_version: "v1" })
    expect(event.data.object).toMatchObject({ object, ...shown })
    expect(event.data.previous_attributes).toEqual({})
    Schema.decodeUnknownSync(RESPONSES.get(object)!)(event.data.object)
    expect(data(await api.get(`/events/${event.id}`))).toEqual(event)
  })

  it("accepts any type, an existing object and overrides, and changes nothing", async () => {
    const { id, customer, created } = await subscribe(api, "2025-01-31T00:00:00Z", "pm_test_success")
    const overrides = { status: "past_due", retry: { attempt: 2 }, metadata: { colour: "red" }, note: "made up" }
    const event = data(await trigger({ type: "subscription.frozen_solid", object: id, overrides }), 201)
    const { latest_charge, ...rest } = created
    expect(event.data.object).toEqual({ ...rest, latest_charge, ...overrides })
    expect(event.created_at).toBe("2025-01-31T00:00:00.000Z")
    expect(data(await api.get(`/subscriptions/${id}`))).toEqual(created)
    const other = data(await trigger({ type: "anything.at_all", overrides: { id: "x_1" } }), 201)
    expect(other.data.object).toMatchObject({ id: "x_1", object: "anything" })
    for (const object of [customer, latest_charge]) {
      expect(data(await trigger({ type: "a.b", object }), 201).data.object.id).toBe(object)
    }
  })

  it("refuses unknown types, and does not exist in live", async () => {
    expect(refusal(await trigger({}))).toEqual([400, "parameter_missing", "type"])
    expect(refusal(await trigger({ type: "" }))).toEqual([400, "parameter_invalid", "type"])
    expect(refusal(await trigger({ type: "a.b", object: "sub_unknown" }))).toEqual([400, "resource_missing", "object"])
    expect(refusal(await trigger({ type: "a.b", overrides: [] }))).toEqual([400, "parameter_invalid", "overrides"])
    const mine = await createCustomer(api)
    expect(refusal(await stranger.post("/test/events/trigger", { type: "a.b", object: mine }))).toEqual([
      400,
      "resource_missing",
      "object",
    ])
    expect(refusal(await live.post("/test/events/trigger", { type: "a.b" }))).toEqual([404, "route_missing", null])
  })
})

describe("a test clock", () => {
  it("goes into internal_failure after three failed steps, and can then only be deleted", async () => {
    const { clock, customer, plan, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    await database.run((sql) => sql`UPDATE subscription SET state = 'nowhere' WHERE id = ${id}`)
    data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2025-03-01T00:00:00Z" }), 202)
    const status = await eventually(async () => {
      const { status } = data(await api.get(`/test/clocks/${clock}`))
      return status === "advancing" ? undefined : (status as string)
    })
    expect(status).toBe("internal_failure")
    const steps = await database.run(
      (sql) => sql`SELECT event->>'type' AS type FROM lifecycle_journal WHERE actor_id = ${clock} ORDER BY version`,
    )
    expect(steps.map(({ type }) => type).slice(-3)).toEqual(["step.failed", "step.failed", "step.failed"])
    const later = { frozen_time: "2025-04-01T00:00:00Z" }
    expect(refusal(await api.post(`/test/clocks/${clock}/advance`, later))).toEqual([422, "test_clock_not_ready", null])
    expect(refusal(await api.post("/customers", { name: "Late", test_clock: clock }))).toEqual([
      422,
      "test_clock_not_ready",
      null,
    ])
    expect(refusal(await api.post("/subscriptions", { customer, plan }))[1]).toBe("test_clock_not_ready")
    expect(refusal(await api.post(`/subscriptions/${id}/cancel`))[1]).toBe("test_clock_not_ready")
    expect(data(await api.delete(`/test/clocks/${clock}`))).toMatchObject({ id: clock, deleted: true })
    expect((await api.get(`/customers/${customer}`)).status).toBe(404)
  })

  it("reports on arrival the values that it showed until then (I6)", async () => {
    const { clock } = await subscribe(
      api,
      "2025-01-01T00:00:00Z",
      "pm_test_success",
      {},
      { start_at: "2025-01-05T00:00:00Z" },
    )
    await advance(api, clock, "2025-01-01T12:00:00Z")
    // It reaches this instant before it is ready: timers due at that instant come first.
    await advance(api, clock, "2025-01-05T00:00:00Z")
    const arrivals = (await api.all("/events?type=test_clock.ready")).filter(
      ({ data: { object } }) => object.id === clock,
    )
    expect(arrivals.map(({ data }) => [data.object.frozen_time, data.previous_attributes])).toEqual([
      ["2025-01-05T00:00:00.000Z", { status: "advancing" }],
      ["2025-01-01T12:00:00.000Z", { status: "advancing", frozen_time: "2025-01-01T00:00:00.000Z" }],
    ])
  })

  it("accepts exactly 10,000 customers", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    await createCustomer(api, { test_clock: clock })
    await database.run((sql) => sql`UPDATE test_clock SET customer_count = 9999 WHERE id = ${clock}`)
    await createCustomer(api, { test_clock: clock })
    expect(refusal(await api.post("/customers", { name: "One more", test_clock: clock }))).toEqual([
      422,
      "test_clock_full",
      null,
    ])
    expect(data(await api.get(`/test/clocks/${clock}`)).customer_count).toBe(10_000)
  })

  it("is deleted with all its dependent objects, and nothing else", async () => {
    const { clock, customer, id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success", {
      overage_per_unit: 10,
    })
    const other = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    data(await api.post(`/subscriptions/${id}/unit-records`, { quantity: 3 }), 201)
    data(await api.post("/charges", { customer, amount: 1000, currency: "NGN", payment_method: "pm_test_visa" }), 201)
    const declined = { customer, amount: 1000, currency: "NGN", payment_method: "pm_test_do_not_honor" }
    const { id: failed } = data(await api.post("/charges", declined), 201)
    data(await api.post(`/charges/${failed}/retry`), 201)
    await advance(api, clock, "2025-03-01T00:00:00Z")
    const events = (await api.all("/events")).length
    data(await api.delete(`/test/clocks/${clock}`))
    for (const path of [`/test/clocks/${clock}`, `/customers/${customer}`, `/subscriptions/${id}`])
      expect((await api.get(path)).status).toBe(404)
    expect(await api.all(`/charges?customer=${customer}`)).toEqual([])
    expect((await api.all("/events")).length).toBeLessThan(events)
    const left = await database.run(
      (sql) => sql`
        SELECT 1 FROM unit_record WHERE subscription_id = ${id} UNION ALL
        SELECT 1 FROM timer WHERE test_clock_id = ${clock} UNION ALL
        SELECT 1 FROM event WHERE test_clock_id = ${clock} UNION ALL
        SELECT 1 FROM lifecycle_journal WHERE actor_id = ANY(ARRAY[${id}, ${failed}, ${clock}]::text[])`,
    )
    expect(left).toEqual([])
    expect(data(await api.get(`/subscriptions/${other.id}`)).status).toBe("active")
  })
})

describe("deleting a clock", () => {
  it("while its customers subscribe leaves nothing behind, and causes no deadlock", async () => {
    const plan = await createPlan(api)
    for (let round = 0; round < 8; round++) {
      const clock = await createClock(api, "2025-01-01T00:00:00Z")
      const customers = await Promise.all(Array.from({ length: 4 }, () => createCustomer(api, { test_clock: clock })))
      const posts = customers.map((customer) =>
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }),
      )
      const [deleted, ...answers] = await Promise.all([api.delete(`/test/clocks/${clock}`), ...posts])
      expect(deleted.status).toBe(200)
      for (const { status } of answers) expect([201, 400, 404]).toContain(status)
      const left = await database.run(
        (sql) => sql`
          SELECT id FROM subscription WHERE test_clock_id = ${clock} UNION ALL SELECT id FROM event WHERE test_clock_id = ${clock}
          UNION ALL SELECT actor_id FROM timer WHERE test_clock_id = ${clock}`,
      )
      expect(left).toEqual([])
    }
    const lost = await database.run(
      (sql) => sql`
        SELECT actor_id FROM lifecycle_journal j WHERE account_id = ${accountId()} AND NOT EXISTS (SELECT 1 FROM subscription WHERE id = j.actor_id)
          AND NOT EXISTS (SELECT 1 FROM charge WHERE id = j.actor_id) AND NOT EXISTS (SELECT 1 FROM test_clock WHERE id = j.actor_id)
          AND NOT EXISTS (SELECT 1 FROM nudge WHERE id = j.actor_id)`,
    )
    expect(lost).toEqual([])
  })
})

describe("POST /test/reset (decision M2)", () => {
  /** Deleted with rows of other tables. */
  const TAKEN_ALONG = [
    "account_closing",
    "customer_metadata_pair",
    "day_total_new",
    "ledger_line",
    "lifecycle_journal",
    "mrr_movement",
    "payment_method",
    "revenue_schedule",
    "timer",
    "webhook_delivery",
  ]
  /** Counts that follow the rows (src/runtime/recounting.ts). */
  const MADE_AGAIN = ["arrow_count", "state_count", "state_counted", "state_outdated"]
  /** Tenant tables that a reset does not clear: keys, endpoints, and what was done. `deletion` is the reset's own. */
  const KEPT = ["activity", "api_key", "api_request", "deletion", "webhook_endpoint", "webhook_secret", ...MADE_AGAIN]
  /** Tables that store live data only. */
  const LIVE_ONLY = [
    "account_plan_change",
    "invoice",
    "ledger_total",
    "letter",
    "member",
    "provider_history",
    "rail_call",
    "rail_callback",
    "rail_credential",
    "rail_exception",
    "rail_throttle",
    "refund",
    "settlement_import",
    "usage_counter",
  ]

  it("clears every table of the sandbox except keys and webhook endpoints", async () => {
    const tables = await database.run(
      (sql) => sql<{ name: string }>`
        SELECT table_name AS name FROM information_schema.columns JOIN information_schema.tables USING (table_schema, table_name)
        WHERE table_schema = 'public' AND column_name = 'livemode' AND table_type = 'BASE TABLE' ORDER BY 1`,
    )
    const emptied = SANDBOX_STEPS.map(({ name }) => name).filter((name) => name !== "close")
    expect([...emptied, ...TAKEN_ALONG, ...KEPT, ...LIVE_ONLY].sort()).toEqual(tables.map(({ name }) => name))
  })

  it("deletes only this account's sandbox, and refuses writes meanwhile", async () => {
    const made = await database.run(() => createAccount({ businessName: "Reset", liveAccess: "approved" }))
    const mine = createApi(server().origin, made.keys.sk_test)
    const mineLive = createApi(server().origin, made.keys.sk_live!, "live")
    const { id, clock } = await subscribe(mine, "2025-01-01T00:00:00Z", "pm_test_success")
    data(await mine.post(`/subscriptions/${id}/unit-records`, { quantity: 1 }), 201)
    await advance(mine, clock, "2025-02-15T00:00:00Z")
    const kept = await createCustomer(mineLive)
    const endpoint = data(
      await mine.post("/webhook-endpoints", { url: "https://example.com/hook", enabled_events: ["*"] }),
      201,
    ).id
    data(await mine.patch(`/webhook-endpoints/${endpoint}`, { status: "disabled" }))
    const bystander = await createCustomer(api)
    const key = { "idempotency-key": "customer-1" }
    data(await mine.post("/customers", { name: "Again" }, key), 201)
    const other = { "idempotency-key": "clock-1" }
    const towards = { frozen_time: "2025-02-20T00:00:00Z" }
    data(await mine.post(`/test/clocks/${clock}/advance`, towards, other), 202)
    // A started request without an answer: its process died after it had made something.
    const cut = { "idempotency-key": "cut-short" }
    data(await mine.post("/plans", { name: "Cut", amount: 5000, currency: "NGN", billing_cycle: "daily" }, cut), 201)
    await database.run(
      (sql) => sql`
        UPDATE idempotency_record SET response_status = NULL, response_body = NULL, resource_id = ${id}
        WHERE account_id = ${made.account.id} AND created_at = (SELECT max(created_at) FROM idempotency_record WHERE account_id = ${made.account.id})`,
    )

    expect(refusal(await mine.post("/test/reset"))).toEqual([400, "parameter_missing", "confirm"])
    expect(refusal(await mine.post("/test/reset", { confirm: "yes" }))).toEqual([400, "parameter_invalid", "confirm"])
    expect(data(await mine.post("/test/reset", { confirm: "RESET" }, { "idempotency-key": "reset-1" }), 202)).toEqual({
      status: "resetting",
    })
    await eventually(async () => ((await mine.get("/customers")).body.data.length === 0 ? true : undefined))
    const replayed = await eventually(async () => {
      const answer = await mine.post("/test/reset", { confirm: "RESET" }, { "idempotency-key": "reset-1" })
      return answer.status === 202 ? answer : undefined
    })
    expect(replayed.headers.get("idempotent-replayed")).toBe("true")
    for (const list of ["/plans", "/customers", "/subscriptions", "/charges", "/events", "/test/clocks"])
      expect((await mine.get(list)).body.data, list).toEqual([])
    const books = await database.run(
      (sql) => sql`SELECT 1 FROM ledger_entry WHERE account_id = ${made.account.id} AND NOT livemode`,
    )
    expect(books).toEqual([])
    expect(data(await mine.get(`/webhook-endpoints/${endpoint}`)).status).toBe("disabled")
    const journals = await database.run(
      (sql) => sql`SELECT to_state FROM lifecycle_journal WHERE account_id = ${made.account.id} AND NOT livemode`,
    )
    expect(journals).toEqual([{ to_state: "disabled" }])
    data(await mineLive.get(`/customers/${kept}`))
    data(await api.get(`/customers/${bystander}`))
    // Keys of requests before the reset are free again.
    const again = await mine.post("/customers", { name: "Again" }, key)
    expect([again.status, again.headers.get("idempotent-replayed")]).toEqual([201, null])
    for (const freed of [other, cut]) {
      const recreated = await mine.post("/customers", { name: "Anew" }, freed)
      expect([recreated.status, recreated.headers.get("idempotent-replayed")]).toEqual([201, null])
    }
    await createPlan(mine)
    expect(refusal(await live.post("/test/reset", { confirm: "RESET" }))).toEqual([404, "route_missing", null])
  })

  it("refuses writes, and only these, while it runs", async () => {
    const made = await database.run(() => createAccount({ businessName: "Slow" }))
    const mine = createApi(server().origin, made.keys.sk_test)
    const customer = await createCustomer(mine)
    // An unfinished transaction delays the reset.
    const { promise: released, resolve: release } = Promise.withResolvers<void>()
    const { promise: locked, resolve: lock } = Promise.withResolvers<void>()
    const busy = database.run((sql) =>
      sql.withTransaction(
        sql`SELECT 1 FROM customer WHERE id = ${customer} FOR UPDATE`.pipe(
          Effect.tap(() => Effect.sync(lock)),
          Effect.andThen(Effect.promise(() => released)),
        ),
      ),
    )
    await locked
    expect((await mine.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
    for (const answer of [
      await mine.post("/customers", { name: "Meanwhile" }),
      await mine.patch(`/customers/${customer}`, { name: "Meanwhile" }),
      await mine.post("/test/reset", { confirm: "RESET" }),
    ]) {
      expect(refusal(answer)).toEqual([409, "reset_in_progress", null])
    }
    data(await mine.get(`/customers/${customer}`))
    expect((await api.post("/customers", { name: "Bystander" })).status).toBe(201)
    release()
    await busy
    await eventually(async () => ((await mine.get(`/customers/${customer}`)).status === 404 ? true : undefined))
    await eventually(async () => ((await mine.post("/customers", { name: "After" })).status === 201 ? true : undefined))
  })

  it("keeps everything that was written after its request", async () => {
    const made = await database.run(() => createAccount({ businessName: "Eager" }))
    const mine = createApi(server().origin, made.keys.sk_test)
    for (let round = 0; round < 12; round++) {
      expect((await mine.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
      const answers = await Promise.all(Array.from({ length: 4 }, () => mine.post("/customers", { name: "Next" })))
      const accepted = answers.filter(({ status }) => status === 201)
      for (const answer of answers.filter(({ status }) => status !== 201))
        expect(refusal(answer)).toEqual([409, "reset_in_progress", null])
      await eventually(async () =>
        (await mine.post("/customers", { name: "Last" })).status === 201 ? true : undefined,
      )
      for (const { body } of accepted) data(await mine.get(`/customers/${body.data.id}`))
    }
  })

  it("is the only way to delete from the books, and only in its own sandbox", async () => {
    const { id } = await subscribe(api, "2025-01-01T00:00:00Z", "pm_test_success")
    for (const [account, attempt] of [
      ["", "DELETE FROM ledger_line"],
      ["", "DELETE FROM ledger_entry"],
      ["", "TRUNCATE ledger_line"],
      ["acct_other", "DELETE FROM ledger_line"],
      ["acct_other", "DELETE FROM ledger_entry"],
      ["acct_other", "UPDATE ledger_line SET amount_kobo = 1"],
    ] as const) {
      const tried = database.run((sql) =>
        sql.withTransaction(
          Effect.andThen(
            sql`SELECT set_config('billing.sandbox_reset', ${account}, true)`,
            sql.unsafe(attempt).unprepared,
          ),
        ),
      )
      await expect(tried, attempt).rejects.toMatchObject({ reason: { cause: { constraint: "ledger_append_only" } } })
    }
    const entries = await database.run((sql) => sql`SELECT 1 FROM ledger_entry WHERE subscription_id = ${id}`)
    expect(entries).toHaveLength(1)
  })
})
