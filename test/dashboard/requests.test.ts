import { describe, expect, it } from "vitest"
import { KEPT_DAYS, purge } from "../../src/http/RequestLog.ts"
import { createApi } from "../support/api.ts"
import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { createCustomer, createPlan, data, eventually, refusal } from "../support/story.ts"

const { database, server, accountId, api, stranger, keys } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

/** Waits until the log has a request. */
const logged = (id: string) =>
  eventually(async () => {
    const answer = await api.get(`/requests/${id}`)
    return answer.status === 200 ? answer.body.data : undefined
  })

const idOf = (answer: { readonly headers: Headers }): string => answer.headers.get("x-request-id")!

const SECRET = "a-secret-that-is-not-logged"

describe("the log of API requests", () => {
  it("has method, path, status, error, key, duration and replay; never bodies, headers or queries", async () => {
    const plan = { name: SECRET, amount: 1_000, currency: "NGN", billing_cycle: "monthly" }
    const headers = { "Idempotency-Key": SECRET }
    const made = await api.post("/plans", plan, headers)
    const replayed = await api.post("/plans", plan, headers)
    const failed = await api.post(`/plans?note=${SECRET}`, {})
    const first = await logged(idOf(made))
    expect(first).toEqual({
      id: idOf(made),
      object: "request",
      livemode: false,
      created_at: expect.any(String),
      method: "POST",
      path: "/sandbox/v1/plans",
      status: 201,
      error_code: null,
      key: expect.stringMatching(/^key_/),
      key_last4: keys().sk_test.slice(-4),
      duration_ms: expect.any(Number),
      idempotent_replay: false,
    })
    expect((await logged(idOf(replayed))).idempotent_replay).toBe(true)
    expect(await logged(idOf(failed))).toMatchObject({
      status: 400,
      path: "/sandbox/v1/plans",
      idempotent_replay: false,
    })
    const kept = await database.run((sql) => sql`SELECT * FROM api_request WHERE account_id = ${accountId()}`)
    expect(JSON.stringify(kept)).not.toContain(SECRET)
  })

  it("is listed by outcome, for secret keys only, and by account", async () => {
    const refused = await api.get("/customers/cus_unknown")
    await logged(idOf(refused))
    const failed = data(await api.get("/requests?status=failed"))
    expect(failed.map(({ id }: { id: string }) => id)).toContain(idOf(refused))
    const succeeded = data(await api.get("/requests?status=succeeded&limit=100"))
    expect(succeeded.every(({ status }: { status: number }) => status < 400)).toBe(true)
    expect((await stranger.get(`/requests/${idOf(refused)}`)).status).toBe(404)
    const publishable = createApi(server().origin, keys().pk_test)
    expect(refusal(await publishable.get("/requests"))[1]).toBe("secret_key_required")
    expect(refusal(await publishable.get("/activity"))[1]).toBe("secret_key_required")
  })

  it("is a page with filters, and one of each request that links its object", async () => {
    const developer = await member("developer")
    const refused = await api.get("/customers/cus_01m7yyp0a6e08v7r97jkyz1pj0?expand[]=plan")
    await logged(idOf(refused))
    const list = await developer.get("/dashboard/sandbox/requests?status=failed")
    expect(list.text).toContain("<h1>Requests</h1>")
    expect(list.text).toContain(idOf(refused))
    const page = await developer.get(`/dashboard/sandbox/requests/${idOf(refused)}`)
    expect(page.text).toContain("GET /sandbox/v1/customers/cus_01m7yyp0a6e08v7r97jkyz1pj0</h1>")
    expect(page.text).toContain('href="/dashboard/sandbox/customers/cus_01m7yyp0a6e08v7r97jkyz1pj0"')
    expect((await developer.get("/dashboard/live/requests")).text).not.toContain(idOf(refused))
    const csv = await developer.get("/dashboard/sandbox/requests.csv?status=failed")
    expect(csv.text).toContain("id,created_at,method,path,status,error_code")
    const finance = await member("finance")
    expect((await finance.get("/dashboard/sandbox/requests")).status).toBe(403)
  })

  it("leads from an event to the request that caused it, and from there to what it made", async () => {
    const developer = await member("developer")
    const customer = await createCustomer(api)
    const plan = await createPlan(api)
    const body = { customer, plan, payment_method: "pm_test_success" }
    const made = await api.post("/subscriptions", body)
    const { id } = data(made, 201)
    await logged(idOf(made))
    const [event] = data(await api.get("/events?type=subscription.created&limit=1"))
    const ofEvent = await developer.get(`/dashboard/sandbox/events/${event.id}`)
    expect(ofEvent.text).toContain(`href="/dashboard/sandbox/requests/${idOf(made)}"`)
    const ofRequest = await eventually(async () => {
      const { text } = await developer.get(`/dashboard/sandbox/requests/${idOf(made)}`)
      return text.includes("subscription.create") ? text : undefined
    })
    expect(ofRequest).toContain(`href="/dashboard/sandbox/subscriptions/${id}"`)
    const read = await api.get(`/subscriptions/${id}`)
    await logged(idOf(read))
    expect((await developer.get(`/dashboard/sandbox/requests/${idOf(read)}`)).text).toContain("It changed nothing.")
  })

  it("keeps 30 days, and of an account the newest up to a number", async () => {
    const account_id = "acct_of_many_requests"
    const tenant = { account_id, livemode: false }
    const insert = (n: number, days: number) =>
      database.run(
        (sql) => sql`
          INSERT INTO api_request (account_id, livemode, id, at, method, path, status, key_id, key_last4, duration_us, is_replay)
          VALUES (${account_id}, false, ${`req_${n}`}, now() - make_interval(hours => ${days * 24}), 'GET', '/v1/plans', 200, 'key_1', 'abcd', 1, false)`,
      )
    await insert(1, KEPT_DAYS + 1)
    for (const n of [2, 3, 4, 5]) await insert(n, KEPT_DAYS - 1)
    const ids = async () =>
      (
        await database.run(
          (sql) => sql<{ id: string }>`SELECT id FROM api_request WHERE account_id = ${account_id} ORDER BY id`,
        )
      ).map(({ id }) => id)
    await database.run(() => purge(new Map([["few", { ...tenant, count: 1 }]]), 3))
    expect(await ids()).toEqual(["req_2", "req_3", "req_4", "req_5"])
    await database.run(() => purge(new Map([["many", { ...tenant, count: 10_000 }]]), 3))
    expect(await ids()).toEqual(["req_3", "req_4", "req_5"])
  })
})

describe("GET /activity", () => {
  it("lists who did what to which object, from where, with the request's ID", async () => {
    const owner = await member()
    const made = await act(owner, "/dashboard/sandbox/customers/new", { name: "Ada" })
    const customer = /customers\/(cus_\w+)/.exec(made.location!)![1]!
    const byKey = await api.post("/customers", { name: "Obi" })
    const other = data(byKey, 201).id as string
    // What keys did is written within a second or so.
    const all = await eventually(async () => {
      const rows = await api.all("/activity")
      return rows.some(({ target }) => (target as { id: string } | null)?.id === other) ? rows : undefined
    })
    const of = (id: string) => all.find(({ target }) => (target as { id: string } | null)?.id === id)
    expect(of(customer)).toEqual({
      id: expect.stringMatching(/^act_/),
      object: "activity",
      livemode: false,
      created_at: expect.any(String),
      actor: { kind: "member", id: owner.id, name: owner.email },
      action: "customer.create",
      target: { kind: "customer", id: customer },
      address: expect.any(String),
      request: expect.stringMatching(/^req_/),
    })
    expect(of(other)).toMatchObject({
      actor: { kind: "key", name: keys().sk_test.slice(-4) },
      request: idOf(byKey),
    })
    expect(
      (await stranger.all("/activity")).some(({ target }) => (target as { id: string } | null)?.id === customer),
    ).toBe(false)
  })
})
