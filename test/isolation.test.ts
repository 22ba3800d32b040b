/** Tests both layers of tenant isolation: every statement filters by tenant, and row-level security hides the rest. */
import { Effect } from "effect"
import type { SqlClient } from "effect/sql"
import { afterEach, describe, expect, it } from "vitest"
import { endpoints } from "../src/app/api.ts"
import { createApi } from "./support/api.ts"
import { beginPlan, createProduct } from "./support/instalments.ts"
import { useOwnInstance } from "./support/instance.ts"
import { createClock, createCustomer, createPlan, data, eventually, refusal } from "./support/story.ts"

const { api, live, stranger, database, accountId, server } = useOwnInstance()

/** The ID of a request in the log, which is written within a second or so. */
const loggedRequest = async (): Promise<string> => {
  const id = (await api.get("/account")).headers.get("x-request-id")!
  return eventually(async () => ((await api.get(`/requests/${id}`)).status === 200 ? id : undefined))
}

/** One object of each kind that a path can name, of the first account's sandbox. */
const make = async () => {
  const clock = await createClock(api, "2025-01-01T00:00:00Z")
  const customer = await createCustomer(api, { test_clock: clock })
  const plan = await createPlan(api, { pause_enabled: true })
  const created = { customer, plan, payment_method: "pm_test_success" }
  const subscription = data(await api.post("/subscriptions", created), 201)
  const event = (await api.get("/events?limit=1")).body.data[0].id
  const hook = { url: "https://93.184.215.14/hook", enabled_events: ["none.*"] }
  const { id: endpoint } = data(await api.post("/webhook-endpoints", hook), 201)
  const { id: nudge } = data(await api.post("/nudges", { customer, template: "payment_due" }), 201)
  const page = { success_url: "https://shop.example/done", cancel_url: "https://shop.example" }
  const { id: checkout } = data(await api.post("/checkout-sessions", { ...page, mode: "setup", customer }), 201)
  for (const shop of [api, stranger]) data(await shop.patch("/providers/me/vertical", { vertical: "ecommerce" }))
  const product = await createProduct(api)
  const { id: savings } = await beginPlan(createApi(server().origin, undefined), product)
  return {
    product,
    savings,
    checkout,
    nudge,
    clock,
    customer,
    plan,
    subscription: subscription.id,
    charge: subscription.latest_charge,
    event,
    endpoint,
    request: await loggedRequest(),
  }
}

const OWNERS: ReadonlyArray<readonly [prefix: string, kind: keyof Awaited<ReturnType<typeof make>>]> = [
  ["/plans/", "plan"],
  ["/customers/", "customer"],
  ["/subscriptions/", "subscription"],
  ["/charges/", "charge"],
  ["/checkout-sessions/", "checkout"],
  ["/nudges/", "nudge"],
  ["/events/", "event"],
  ["/webhook-endpoints/", "endpoint"],
  ["/test/clocks/", "clock"],
  ["/provider-savings/products/", "product"],
  ["/provider-savings/", "savings"],
  ["/requests/", "request"],
]

describe("another account, and the other environment", () => {
  const named = endpoints
    .map(({ declaration }) => declaration)
    // Invoices exist in live only: test/invoice.test.ts looks for those of others.
    .filter(({ path, access }) => path.includes(":id") && access !== "administrator" && !path.includes("/invoices/"))

  it("covers every endpoint that names an object", () => {
    for (const { path } of named)
      expect(
        OWNERS.some(([prefix]) => path.startsWith(prefix)),
        path,
      ).toBe(true)
  })

  // An account has few places for endpoints.
  afterEach(() => database.run((sql) => sql`DELETE FROM webhook_endpoint RETURNING 1`))

  it.each(named.map(({ method, path, sandboxOnly }) => [method, path, sandboxOnly === true] as const))(
    "finds nothing by %s %s",
    async (method, path, sandboxOnly) => {
      const mine = await make()
      const kind = OWNERS.find(([prefix]) => path.startsWith(prefix))![1]
      const real = path.replace(":id", mine[kind]).replace(":payment_method", "pm_test_success")
      const body =
        method === "POST" && path.endsWith("unit-records")
          ? { quantity: 1 }
          : path.endsWith("advance")
            ? { frozen_time: "2025-02-01T00:00:00Z" }
            : path.endsWith("extend")
              ? { days: 1 }
              : {}
      const ask = (caller: typeof api) => caller.request(method, real, method === "GET" ? undefined : body)
      expect(refusal(await ask(stranger)).slice(0, 2)).toEqual([404, "resource_missing"])
      expect(refusal(await ask(live)).slice(0, 2)).toEqual([404, sandboxOnly ? "route_missing" : "resource_missing"])
    },
  )

  it("finds nothing in lists, and by no reference in a body", async () => {
    const mine = await make()
    for (const list of [
      "/plans",
      "/customers",
      "/subscriptions",
      "/charges",
      "/checkout-sessions",
      "/nudges",
      "/test/nudge-outbox",
      "/events",
      "/webhook-endpoints",
      "/test/clocks",
    ])
      expect((await stranger.get(list)).body.data, list).toEqual([])
    const theirs = { customer: await createCustomer(stranger), plan: await createPlan(stranger) }
    const body = { ...theirs, payment_method: "pm_test_success" }
    for (const [over, param] of [
      [{ customer: mine.customer }, "customer"],
      [{ plan: mine.plan }, "plan"],
    ] as const)
      expect(refusal(await stranger.post("/subscriptions", { ...body, ...over }))).toEqual([
        400,
        "resource_missing",
        param,
      ])
    expect(refusal(await stranger.post("/customers", { name: "X", test_clock: mine.clock }))).toEqual([
      400,
      "resource_missing",
      "test_clock",
    ])
  })
})

describe("the database role of requests", () => {
  /** Runs statements in a transaction like a request's. */
  const as = <A, E>(account: string, livemode: boolean, work: (sql: SqlClient.SqlClient) => Effect.Effect<A, E>) =>
    database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SET LOCAL ROLE billing_request`
          yield* sql`SELECT enter_tenant(${account}, ${livemode})::text`
          return yield* work(sql)
        }),
      ),
    )

  it("is enforced by every tenant table, and sees no row of another account or environment", async () => {
    await make()
    const tables = await database.run(
      (sql) => sql<{ name: string; secured: boolean; policies: number; granted: boolean }>`
        SELECT c.relname AS name, c.relrowsecurity AS secured,
          (SELECT count(*) FROM pg_policy p WHERE p.polrelid = c.oid) AS policies,
          has_table_privilege('billing_request', c.oid, 'SELECT') AS granted
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'livemode'
        WHERE c.relkind = 'r' AND c.relnamespace = 'public'::regnamespace ORDER BY 1`,
    )
    expect(tables.length).toBeGreaterThan(15)
    for (const { name, secured, policies } of tables) expect([name, secured, policies]).toEqual([name, true, 1])
    const hidden = tables.filter(({ granted }) => !granted).map(({ name }) => name)
    expect(hidden).toEqual([
      "api_key",
      "ledger_total",
      "rail_callback",
      "rail_credential",
      "rail_throttle",
      "webhook_secret",
    ])
    let seen = 0
    for (const { name } of tables.filter(({ granted }) => granted)) {
      const rows = (account: string, livemode: boolean) =>
        as(account, livemode, (sql) => sql`SELECT account_id, livemode FROM ${sql(name)}`)
      expect([name, await rows("acct_other", false)]).toEqual([name, []])
      for (const livemode of [true, false]) {
        const shown = await rows(accountId(), livemode)
        for (const row of shown) expect(row).toEqual({ account_id: accountId(), livemode })
        seen += shown.length
      }
    }
    expect(seen).toBeGreaterThan(10)
    expect(await as(accountId(), false, (sql) => sql`SELECT id FROM account`)).toEqual([{ id: accountId() }])
  })

  it("cannot write for another account, read keys, change the books, or change its role", async () => {
    const mine = await make()
    const theirs = data(await stranger.get("/account")).id as string
    const customer = await createCustomer(stranger)
    expect(
      await as(accountId(), false, (sql) => sql`UPDATE customer SET name = 'x' WHERE id = ${customer} RETURNING 1`),
    ).toEqual([])
    expect(await as(accountId(), false, (sql) => sql`DELETE FROM customer WHERE id = ${customer} RETURNING 1`)).toEqual(
      [],
    )
    const insert = as(
      accountId(),
      false,
      (sql) => sql`
        INSERT INTO customer (account_id, livemode, id, name, metadata, created_at) VALUES (${theirs}, false, 'cus_forged', 'x', '{}', now())`,
    )
    await expect(insert).rejects.toMatchObject({ reason: { cause: { code: "42501" } } })
    const other = as(accountId(), false, (sql) => sql`UPDATE customer SET livemode = true WHERE id = ${mine.customer}`)
    await expect(other).rejects.toMatchObject({ reason: { cause: { code: "42501" } } })
    for (const statement of [
      "SELECT hash FROM api_key",
      "SELECT * FROM administrator_key",
      "SELECT * FROM service_secret",
      "SELECT sealed FROM webhook_secret",
      "SELECT sealed FROM webhook_secret",
      "UPDATE ledger_line SET amount_kobo = 1",
      "DELETE FROM ledger_entry",
      "ALTER TABLE customer DISABLE ROW LEVEL SECURITY",
      "CREATE TABLE mine (id int)",
    ]) {
      const tried = as(accountId(), false, (sql) => sql.unsafe(statement).unprepared)
      await expect(tried, statement).rejects.toMatchObject({ reason: { cause: { code: "42501" } } })
    }
  })

  it("is set again by a session whose connection was lost", async () => {
    const plan = await createPlan(api)
    expect((await api.get(`/plans/${plan}`)).status).toBe(200)
    const end = (sql: SqlClient.SqlClient) => sql`
      SELECT pg_terminate_backend(pid)::text FROM pg_stat_activity
      WHERE datname = current_database() AND pid <> pg_backend_pid() AND query LIKE '%plan%'`
    expect((await database.run(end)).length).toBeGreaterThan(0)
    await eventually(async () => ((await api.get(`/plans/${plan}`)).status === 200 ? true : undefined))
    for (const caller of [api, stranger, live, api, stranger])
      expect((await caller.get(`/plans/${plan}`)).status).toBe(caller === api ? 200 : 404)
    await database.run(
      (sql) => sql`CREATE POLICY nothing ON plan AS RESTRICTIVE TO billing_request USING (false)`.unprepared,
    )
    try {
      expect((await api.get("/plans")).body.data).toEqual([])
    } finally {
      await database.run((sql) => sql`DROP POLICY nothing ON plan`.unprepared)
    }
  })

  it("is the role that requests run as", async () => {
    // A policy that hides all rows hides them from requests' reads and writes.
    await database.run(
      (sql) => sql`CREATE POLICY nothing ON plan AS RESTRICTIVE TO billing_request USING (false)`.unprepared,
    )
    try {
      expect((await api.get("/plans")).body.data).toEqual([])
      const made = await api.post("/plans", { name: "P", amount: 100, currency: "NGN", billing_cycle: "daily" })
      expect(made.status).toBe(500)
    } finally {
      await database.run((sql) => sql`DROP POLICY nothing ON plan`.unprepared)
    }
    expect((await api.get("/plans")).body.data.length).toBeGreaterThan(0)
  })
})
