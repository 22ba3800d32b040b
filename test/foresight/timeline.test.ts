/** Tests timelines (decision S3): the transitions of one object, with their causes and what they created. */
import { describe, expect, it } from "vitest"
import { createApi } from "../support/api.ts"
import { checkout, pay } from "../support/checkout.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, refusal } from "../support/story.ts"

const { api, server, stranger, keys, database, accountId } = useOwnInstance()

const keyId = async (key: string) => {
  const [row] = await database.run(
    (sql) => sql<{ id: string }>`SELECT id FROM api_key WHERE hash = sha256(${Buffer.from(key)}::bytea)`,
  )
  return row!.id
}

describe("a timeline", () => {
  it("names the cause of each transition, and lists what it created", async () => {
    const clock = await createClock(api, "2025-01-31T09:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock, email: "ada@example.com" })
    const plan = await createPlan(api, { pause_enabled: true })
    const created = await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" })
    const { id } = data(created, 201)
    await advance(api, clock, "2025-02-28T10:00:00Z")
    const paused = await api.post(`/subscriptions/${id}/pause`)
    data(paused)
    const items = [...(await api.all(`/subscriptions/${id}/timeline`))].reverse()
    const key = await keyId(keys().sk_test)
    const asked = (answer: typeof created) => ({
      kind: "api",
      request_id: answer.headers.get("x-request-id"),
      key,
      member: null,
    })
    const nobody = { request_id: null, key: null, member: null }
    expect(
      items.map(({ version, event, status_before, status_after, cause }) => [
        version,
        event.type,
        status_before,
        status_after,
        cause,
      ]),
    ).toEqual([
      [1, "create", null, "incomplete", asked(created)],
      [2, "charge.succeeded", "incomplete", "active", { kind: "rail", ...nobody }],
      [3, "reminder", "active", "active", { kind: "clock", ...nobody }],
      [4, "after periodEnd", "active", "active", { kind: "clock", ...nobody }],
      [5, "charge.succeeded", "active", "active", { kind: "rail", ...nobody }],
      [6, "pause", "active", "paused", asked(paused)],
    ])
    const ids = async (list: string) => (await api.all(list)).map((one) => one.id as string).reverse()
    expect(items.flatMap(({ charges }) => charges)).toEqual(await ids(`/charges?subscription=${id}`))
    expect(items[0].charges.length).toBe(1)
    expect(items.flatMap(({ nudges }) => nudges)).toEqual(await ids(`/nudges?customer=${customer}`))
    const events = (await api.all("/events")).filter(
      ({ type, data: { object } }) => !type.startsWith("nudge.") && (object.id === id || object.subscription === id),
    )
    expect(items.flatMap((one) => one.events)).toEqual(events.map((one) => one.id).reverse())
    const entries = await database.run(
      (sql) => sql<{ id: string }>`SELECT id FROM ledger_entry WHERE subscription_id = ${id} ORDER BY id`,
    )
    expect(items.flatMap((one) => one.ledger_entries)).toEqual(entries.map((one) => one.id))
    expect(items[3]).toMatchObject({
      object: "transition",
      id: `${id}:4`,
      at: "2025-02-28T09:00:00.000Z",
      event: { at: "2025-02-28T09:00:00.000Z" },
      from: "active.current",
      to: "active.charging",
    })
  })

  it("lists the timers that wait, in words, on its first page", async () => {
    const clock = await createClock(api, "2025-01-31T09:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const body = { customer, plan: await createPlan(api), payment_method: "pm_test_success" }
    const { id } = data(await api.post("/subscriptions", body), 201)
    const first = await api.get(`/subscriptions/${id}/timeline?limit=1`)
    expect(first.body.meta).toEqual({
      has_more: true,
      next_cursor: `${id}:2`,
      limit: 1,
      upcoming: [
        { name: "reminder", at: "2025-02-25T09:00:00.000Z", means: "The customer is reminded." },
        {
          name: "periodEnd",
          at: "2025-02-28T09:00:00.000Z",
          means: "The period ends: the subscription renews, or ends if that was asked.",
        },
      ],
    })
    const second = await api.get(`/subscriptions/${id}/timeline?limit=1&starting_after=${id}:2`)
    expect([second.body.data[0].id, second.body.meta]).toEqual([
      `${id}:1`,
      { has_more: false, next_cursor: null, limit: 1 },
    ])
    const back = await api.get(`/subscriptions/${id}/timeline?limit=1&ending_before=${id}:1`)
    expect([back.body.data[0].id, back.body.meta.has_more]).toEqual([`${id}:2`, false])
    for (const cursor of ["sub_1:1", `${id}:x`, id])
      expect(refusal(await api.get(`/subscriptions/${id}/timeline?starting_after=${cursor}`))).toEqual([
        400,
        "parameter_invalid",
        "starting_after",
      ])
  })

  it("names the page, the rail and the timer", async () => {
    const session = await checkout(api)
    data(await pay(session.url, "pm_test_success"))
    const causes = async (path: string) =>
      (await api.all(path)).map(({ event, cause }) => `${event.type} ${cause.kind}`).reverse()
    expect(await causes(`/subscriptions/${session.subscription}/timeline`)).toEqual([
      "create api",
      "check_out page",
      "charge.succeeded rail",
    ])
    expect(await causes(`/checkout-sessions/${session.id}/timeline`)).toEqual([
      "create api",
      "pay page",
      "complete rail",
    ])
    const expiring = await checkout(api)
    data(await api.post(`/checkout-sessions/${expiring.id}/expire`))
    expect(await causes(`/subscriptions/${expiring.subscription}/timeline`)).toEqual([
      "create api",
      "checkout_expired api",
    ])
  })

  it("names each request of a batch", async () => {
    const plan = await createPlan(api)
    const customers = await Promise.all(Array.from({ length: 12 }, () => createCustomer(api)))
    const answers = await Promise.all(
      customers.map((customer) => api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" })),
    )
    for (const answer of answers) {
      const { id } = data(answer, 201)
      const items = await api.all(`/subscriptions/${id}/timeline`)
      expect(items.at(-1).cause.request_id).toBe(answer.headers.get("x-request-id"))
    }
  })

  it("exists for charges and checkout sessions, and is the account's own", async () => {
    const customer = await createCustomer(api)
    const charge = data(
      await api.post("/charges", { customer, amount: 5000, currency: "NGN", payment_method: "pm_test_success" }),
      201,
    )
    expect(data(await api.get(`/charges/${charge.id}/timeline`))).toMatchObject([
      {
        event: { type: "rail.succeeded" },
        status_before: "pending",
        status_after: "succeeded",
        cause: { kind: "rail" },
      },
    ])
    const session = data(
      await api.post("/checkout-sessions", {
        mode: "setup",
        customer,
        success_url: "https://a.example",
        cancel_url: "https://a.example",
      }),
      201,
    )
    const path = `/checkout-sessions/${session.id}/timeline`
    expect((await api.get(path)).body).toMatchObject({
      data: [{ event: { type: "create" }, cause: { kind: "api" } }],
      meta: { upcoming: [{ name: "expiry", means: "The session expires." }] },
    })
    for (const one of [path, `/charges/${charge.id}/timeline`]) expect(refusal(await stranger.get(one))[0]).toBe(404)
    expect(refusal(await createApi(server().origin, keys().pk_test).get(path))[0]).toBe(403)
    expect(accountId()).toMatch(/^acct_/)
  })
})
