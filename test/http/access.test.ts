import { describe, expect, it } from "vitest"
import { endpoints } from "../../src/app/api.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createAdministrator, createKey, revokeKey, rollKey } from "../../src/security/key/apiKeys.ts"
import { SCOPE_NAMES, type Scopes } from "../../src/security/key/scopes.ts"
import { createApi } from "../support/api.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data, eventually, refusal } from "../support/story.ts"

const { api, live, stranger, administrator, database, keys, accountId, server } = useInstance()
const cli = useCommandLine(database)

const keyed = async (type: "secret" | "publishable" | "restricted", may: object = {}, livemode = false) => {
  const made = await database.run(() => createKey({ account_id: accountId(), livemode }, type, may))
  return { ...made, api: createApi(server().origin, made.key, livemode ? "live" : "sandbox") }
}

const real = (path: string) => path.replaceAll(/:\w+/g, "some_id")

describe("scopes of restricted keys", () => {
  const scoped = endpoints.filter(({ declaration }) =>
    (SCOPE_NAMES as ReadonlyArray<string>).includes(declaration.access),
  )

  it.each(scoped.map(({ declaration }) => [declaration.method, declaration.path, declaration.access] as const))(
    "%s %s needs %s",
    async (method, path, access) => {
      // A forecast is a POST that only reads.
      const level = method === "GET" || path === "/forecasts" ? "read" : "write"
      const others = Object.fromEntries(SCOPE_NAMES.filter((name) => name !== access).map((name) => [name, "write"]))
      const without = await keyed("restricted", { scopes: others })
      const body = method === "GET" ? undefined : {}
      const refused = await without.api.request(method, real(path), body)
      expect(refusal(refused)).toEqual([403, "insufficient_scope", null])
      expect(refused.body.error.message).toContain(`${access}:${level}`)
      if (level === "write") {
        const reading = await keyed("restricted", { scopes: { [access]: "read" } })
        expect(refusal(await reading.api.request(method, real(path), body))[1]).toBe("insufficient_scope")
      }
      const enough = await keyed("restricted", { scopes: { [access]: level } as Scopes })
      expect((await enough.api.request(method, real(path), body)).status).not.toBe(403)
    },
  )

  it("also cover expanded objects (decision B7)", async () => {
    const customer = await createCustomer(api)
    const { id } = data(
      await api.post("/subscriptions", { customer, plan: await createPlan(api), payment_method: "pm_test_success" }),
      201,
    )
    const half = await keyed("restricted", { scopes: { subscriptions: "read", customers: "read" } })
    expect(data(await half.api.get(`/subscriptions/${id}?expand[]=customer`)).customer.id).toBe(customer)
    const refused = await half.api.get(`/subscriptions/${id}?expand[]=customer&expand[]=plan`)
    expect(refusal(refused)).toEqual([403, "insufficient_scope", null])
    expect(refused.body.error.message).toContain("plans:read")
  })

  it("cover the objects that a retry expands", async () => {
    const subscription = {
      customer: await createCustomer(api),
      plan: await createPlan(api),
      payment_method: "pm_test_success",
    }
    const retry = { "idempotency-key": "expanding" }
    const { api: half } = await keyed("restricted", { scopes: { subscriptions: "write" } })
    expect((await half.post("/subscriptions", subscription, retry)).status).toBe(201)
    const refused = await half.post("/subscriptions?expand[]=customer", subscription, retry)
    expect(refusal(refused)).toEqual([403, "insufficient_scope", null])
  })

  it("apply to a retry's response, independent of the first request's key and expansion", async () => {
    const subscription = {
      customer: await createCustomer(api, { name: "Ada Obi" }),
      plan: await createPlan(api),
      payment_method: "pm_test_success",
    }
    const retry = { "idempotency-key": "expanded by another" }
    const first = await api.post("/subscriptions?expand[]=customer&expand[]=plan", subscription, retry)
    expect(data(first, 201).customer.name).toBe("Ada Obi")
    const { api: half } = await keyed("restricted", { scopes: { subscriptions: "write", plans: "read" } })
    const replayed = async (query: string, caller = half) => {
      const answer = await caller.post(`/subscriptions${query}`, subscription, retry)
      expect(answer.headers.get("idempotent-replayed")).toBe("true")
      return answer.body
    }
    const plain = { ...first.body.data, customer: subscription.customer, plan: subscription.plan }
    expect(JSON.stringify(await replayed(""))).toBe(JSON.stringify({ success: true, data: plain }))
    expect((await replayed("?expand[]=plan")).data).toEqual({ ...plain, plan: first.body.data.plan })
    const all = "?expand[]=customer&expand[]=plan"
    expect(JSON.stringify(await replayed(all, api))).toBe(JSON.stringify(first.body))
    data(await api.patch(`/customers/${subscription.customer}`, { name: "Ada Eze" }))
    data(await api.patch(`/subscriptions/${plain.id}`, { quantity: 7 }))
    // Objects that the first request expanded keep their state of that time, in any requested order.
    for (const same of [all, "?expand[]=plan&expand[]=customer&expand[]=plan"])
      expect(JSON.stringify(await replayed(same, api))).toBe(JSON.stringify(first.body))
    // Other objects show their current state. The subscription shows its state of that time.
    const later = (await replayed("?expand[]=customer", api)).data
    expect([later.customer.name, later.quantity]).toEqual(["Ada Eze", plain.quantity])
    expect(refusal(await half.post("/subscriptions?expand[]=customer", subscription, retry))[1]).toBe(
      "insufficient_scope",
    )
    expect(refusal(await half.post("/subscriptions?expand[]=charges", subscription, retry))).toEqual([
      400,
      "parameter_invalid",
      "expand[]",
    ])
  })

  it("do not allow what needs a secret key", async () => {
    const every = await keyed("restricted", { scopes: Object.fromEntries(SCOPE_NAMES.map((name) => [name, "write"])) })
    expect(refusal(await every.api.get("/test/clocks"))).toEqual([403, "secret_key_required", null])
    expect(refusal(await every.api.patch("/providers/me/vertical", { vertical: "waste" }))).toEqual([
      403,
      "secret_key_required",
      null,
    ])
    expect((await every.api.get("/account")).status).toBe(200)
  })
})

describe("a publishable key (decision G7)", () => {
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
  const bodyOf = (answer: Response): Promise<any> => answer.json()
  const call = (key: string, headers: Readonly<Record<string, string>>, path = "/client/config") =>
    fetch(`${server().origin}/sandbox/v1${path}`, { headers: { authorization: `Bearer ${key}`, ...headers } })

  it("reads the client's configuration from its own origins only", async () => {
    const { key } = await keyed("publishable", { origins: ["https://shop.example"] })
    const answer = await call(key, { origin: "https://shop.example" })
    expect(answer.status).toBe(200)
    expect(answer.headers.get("access-control-allow-origin")).toBe("https://shop.example")
    expect(answer.headers.get("vary")).toBe("Origin")
    expect((await bodyOf(answer)).data).toEqual({
      object: "client_config",
      business_name: "Fit Lagos",
      livemode: false,
    })
    const elsewhere = await call(key, { origin: "https://evil.example" })
    expect([elsewhere.status, (await bodyOf(elsewhere)).error.code]).toEqual([403, "origin_not_allowed"])
    expect(elsewhere.headers.get("access-control-allow-origin")).toBeNull()
    expect((await call(key, {})).status).toBe(200)
    for (const path of ["/account", "/plans", "/customers"])
      expect((await bodyOf(await call(key, { origin: "https://shop.example" }, path))).error.code).toBe(
        "secret_key_required",
      )
  })

  it("answers browsers' preflight requests", async () => {
    const ask = (path: string, origin?: string) =>
      fetch(`${server().origin}/sandbox/v1${path}`, {
        method: "OPTIONS",
        headers: { "access-control-request-method": "GET", ...(origin === undefined ? {} : { origin }) },
      })
    const asked = await ask("/client/config", "https://shop.example")
    expect([asked.status, asked.headers.get("access-control-allow-headers")]).toEqual([204, "authorization"])
    expect((await ask("/client/config")).status).toBe(401)
    expect((await ask("/plans", "https://shop.example")).status).toBe(401)
  })
})

describe("keys over their lifetime", () => {
  it("stop immediately when they are revoked", async () => {
    const { id, api: revoked } = await keyed("secret")
    data(await revoked.get("/account"))
    await database.run(() => revokeKey({ account_id: accountId(), livemode: false, id }))
    await eventually(async () => ((await revoked.get("/account")).status === 401 ? true : undefined))
    expect(refusal(await revoked.get("/account"))).toEqual([401, "key_revoked", null])
  })

  it("keep working for their grace period after a roll, then expire; without one they are revoked", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Rolling" }))
    const keyed = async (type: "secret" | "restricted", may: object = {}) => {
      const made = await database.run(() => createKey({ account_id: account.id, livemode: false }, type, may))
      return { ...made, api: createApi(server().origin, made.key) }
    }
    const roll = (id: string, grace: "0" | "1h") =>
      database.run(() => rollKey({ account_id: account.id, livemode: false, id }, grace))
    const old = await keyed("restricted", { scopes: { plans: "read" } })
    const rolled = await roll(old.id, "1h")
    const fresh = createApi(server().origin, rolled.key)
    expect((await fresh.get("/plans")).status).toBe(200)
    expect(refusal(await fresh.get("/customers"))[1]).toBe("insufficient_scope")
    expect((await old.api.get("/plans")).status).toBe(200)
    await database.run((sql) => sql`UPDATE api_key SET expires_at = now() - interval '1 second' WHERE id = ${old.id}`)
    await eventually(async () => ((await old.api.get("/plans")).status === 401 ? true : undefined))
    expect(refusal(await old.api.get("/plans"))[1]).toBe("key_expired")
    await expect(roll(old.id, "1h")).rejects.toThrow("expired")

    const gone = await keyed("secret")
    await roll(gone.id, "0")
    await eventually(async () => ((await gone.api.get("/plans")).status === 401 ? true : undefined))
    expect(refusal(await gone.api.get("/plans"))[1]).toBe("key_revoked")
  })

  it("show the minute of their last use, administrators' keys too", async () => {
    const { id, api: used } = await keyed("secret")
    const lastUse = async (table: "api_key" | "administrator_key", key: string) =>
      (
        await database.run(
          (sql) => sql<{ at: number | null }>`SELECT last_used_at AS at FROM ${sql(table)} WHERE id = ${key}`,
        )
      )[0]!.at
    const person = await database.run(() => createAdministrator("Last used"))
    expect([await lastUse("api_key", id), await lastUse("administrator_key", person.id)]).toEqual([null, null])
    const before = Date.now()
    await used.get("/account")
    await createApi(server().origin, person.key).get("/account")
    for (const [table, key] of [
      ["api_key", id],
      ["administrator_key", person.id],
    ] as const) {
      const at = await eventually(async () => (await lastUse(table, key)) ?? undefined)
      expect(at % 60_000).toBe(0)
      expect(at).toBeGreaterThanOrEqual(before - (before % 60_000))
      expect(at).toBeLessThanOrEqual(Date.now())
    }
  })

  it("are stored as hashes only", async () => {
    const { key } = await keyed("secret")
    const tables = await database.run(
      (sql) =>
        sql<{
          name: string
        }>`SELECT table_name AS name FROM information_schema.tables WHERE table_schema = 'public' AND table_type = 'BASE TABLE'`,
    )
    for (const { name } of tables) {
      const found = await database.run((sql) =>
        sql.unsafe(`SELECT 1 FROM ${name} t WHERE t::text LIKE '%${key.slice(8, 40)}%' LIMIT 1`),
      )
      expect(found, name).toEqual([])
    }
  })
})

describe("administrators' keys", () => {
  const admin = async (...args: ReadonlyArray<string>) => {
    const { code, output, errors } = await cli("admin", ...args, "--json")
    return code === 0 ? JSON.parse(output) : [code, output, errors]
  }

  it("are created, listed and revoked by the command line, with immediate effect on all servers", async () => {
    const { id, key, ...rest } = await admin("create", "--name", "Ngozi")
    expect([rest, key]).toEqual([{}, expect.stringMatching(/^adm_\w{38}$/)])
    const listed = async () => (await admin("list")).find((one: { id: string }) => one.id === id)
    const ngozi = { id, name: "Ngozi", last4: key.slice(-4), status: "active", last_used_at: null }
    expect(await listed()).toEqual(ngozi)
    await database.run(
      (sql) => sql`UPDATE administrator_key SET last_used_at = '2026-11-21T11:43:00Z' WHERE id = ${id}`,
    )
    expect(await listed()).toEqual({ ...ngozi, last_used_at: "2026-11-21T11:43:00.000Z" })

    const api = createApi(server().origin, key)
    const ask = () => api.get(`/providers/${accountId()}/history`)
    data(await ask())
    expect(await admin("revoke", id)).toEqual({ id, status: "revoked" })
    await eventually(async () => ((await ask()).status === 401 ? true : undefined))
    expect(refusal(await ask())).toEqual([401, "key_revoked", null])
    expect((await listed()).status).toBe("revoked")
    expect(await admin("revoke", id)).toEqual({ id, status: "revoked" })
    expect(await admin("revoke", "key_nowhere")).toEqual([1, "", "No such administrator: key_nowhere.\n"])
  })
})

describe("administrators (decision J3)", () => {
  const change = (id: string, body: object, caller = administrator) => caller.patch(`/providers/${id}/vertical`, body)

  it("change a provider's business type for a reason, which is stored", async () => {
    const reason = "They sell diesel now"
    expect(refusal(await change(accountId(), { vertical: "fuel", reason }, api))).toEqual([
      403,
      "administrator_key_required",
      null,
    ])
    const { api: publishable } = await keyed("publishable", { origins: ["https://shop.example"] })
    expect(refusal(await change(accountId(), { vertical: "fuel", reason }, publishable))).toEqual([
      403,
      "secret_key_required",
      null,
    ])
    expect(refusal(await change("acct_unknown", { vertical: "fuel", reason }))).toEqual([404, "resource_missing", null])
    expect(refusal(await administrator.get("/providers/acct_unknown/history"))).toEqual([404, "resource_missing", null])
    expect(refusal(await change(accountId(), { vertical: "fuel", reason: "why" }))).toEqual([
      400,
      "parameter_invalid",
      "reason",
    ])
    expect(refusal(await change(accountId(), { vertical: "bakery", reason }))).toEqual([
      400,
      "parameter_invalid",
      "vertical",
    ])
    expect(data(await change(accountId(), { vertical: "fuel", reason }))).toMatchObject({
      id: accountId(),
      object: "provider",
      vertical: "fuel",
      live_access: "approved",
      livemode: false,
    })
    data(await change(accountId(), { vertical: "fuel", reason }))
    data(await change(accountId(), { vertical: "waste", reason: "Back to waste" }))
    const history = (await administrator.get(`/providers/${accountId()}/history`)).body.data
    expect(
      history.map((entry: Record<string, string>) => [
        entry.previous_vertical,
        entry.new_vertical,
        entry.administrator,
        entry.reason,
      ]),
    ).toEqual([
      ["fuel", "waste", "Ops", "Back to waste"],
      [null, "fuel", "Ops", reason],
    ])
    expect(refusal(await administrator.get("/plans"))).toEqual([403, "secret_key_required", null])
  })
})

describe("a provider's own business type", () => {
  it("is chosen freely while approval is pending", async () => {
    for (const vertical of ["gym_fitness", "laundry"])
      expect(data(await stranger.patch("/providers/me/vertical", { vertical }))).toMatchObject({
        vertical,
        live_access: "not_requested",
      })
  })

  it("is chosen once if the provider is approved", async () => {
    const before = data(await administrator.get(`/providers/${accountId()}/history`)).length
    await database.run((sql) => sql`UPDATE account SET vertical = NULL WHERE id = ${accountId()}`)
    expect(data(await live.patch("/providers/me/vertical", { vertical: "ecommerce" }))).toMatchObject({
      vertical: "ecommerce",
      livemode: true,
    })
    expect(data(await api.patch("/providers/me/vertical", { vertical: "ecommerce" })).vertical).toBe("ecommerce")
    expect(refusal(await api.patch("/providers/me/vertical", { vertical: "fuel" }))).toEqual([
      403,
      "vertical_locked",
      null,
    ])
    expect(data(await administrator.get(`/providers/${accountId()}/history`)).length).toBe(before)
    expect(keys().sk_live).toBeTruthy()
  })
})

describe("headers of valid keys", () => {
  const headersOf = (answer: { readonly headers: Headers }) =>
    [
      "ratelimit-limit",
      "ratelimit-remaining",
      "x-service-billable",
      "x-service-write-usage",
      "x-service-write-limit",
    ].map((name) => answer.headers.get(name) !== null)

  it("are on refusals by the environment and on administrators' writes, which never count", async () => {
    const wrong = await createApi(server().origin, keys().sk_test, "live").post("/customers", { name: "X" })
    expect(refusal(wrong)[1]).toBe("key_environment_mismatch")
    expect(headersOf(wrong)).toEqual([true, true, true, true, true])
    const body = { vertical: "waste", reason: "They collect waste" }
    const changed = await administrator.patch(`/providers/${accountId()}/vertical`, body)
    expect([changed.status, changed.headers.get("x-service-billable")]).toEqual([200, "false"])
    expect(headersOf(changed)).toEqual([true, true, true, true, true])
  })
})
