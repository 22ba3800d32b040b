import { request as httpRequest } from "node:http"
import { connect } from "node:net"
import { Schema } from "effect"
import { beforeAll, describe, expect, it } from "vitest"
import { endpoints } from "../../src/app/api.ts"
import { CATALOGUE } from "../../src/base/catalogue.ts"
import { expireClocks } from "../../src/billing/clock/deletion.ts"
import { createKey } from "../../src/security/key/apiKeys.ts"
import { createApi } from "../support/api.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { useInstance } from "../support/instance.ts"
import { RESPONSES } from "../support/responses.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, live, stranger, administrator, server, keys, database, accountId } = useInstance()

const error = async (answer: Promise<{ status: number; body: { error: object } }>) => {
  const { status, body } = await answer
  return { status, ...body.error } as {
    status: number
    type: string
    code: string
    param: string | null
    message: string
  }
}

describe("keys and environments", () => {
  it.each([
    ["no key", undefined, 401, "key_missing"],
    ["a mistyped key", "sk_test_0000000000000000000000000000000000000A", 401, "key_invalid"],
    ["nonsense", "hello", 401, "key_invalid"],
  ])("refuses %s, before it reveals if the route exists", async (_, key, status, code) => {
    for (const path of ["/customers", "/nothing/here"]) {
      expect(await error(createApi(server().origin, key).get(path))).toMatchObject({
        status,
        type: "authentication_error",
        code,
      })
    }
  })

  it("refuses a key in the other environment", async () => {
    expect(await error(createApi(server().origin, keys().sk_test, "live").get("/account"))).toMatchObject({
      status: 401,
      code: "key_environment_mismatch",
    })
    expect(await error(createApi(server().origin, keys().sk_live, "sandbox").get("/account"))).toMatchObject({
      status: 401,
      code: "key_environment_mismatch",
    })
    expect(data(await live.get("/account"))).toMatchObject({ livemode: true, live_access: "approved" })
  })

  it("allows publishable keys nothing here", async () => {
    expect(await error(createApi(server().origin, keys().pk_test).get("/plans"))).toMatchObject({
      status: 403,
      code: "secret_key_required",
    })
  })

  it("refuses a revoked key as soon as the database has the revocation", async () => {
    const { key, id } = await database.run(() => createKey({ account_id: accountId(), livemode: false }, "secret"))
    const mine = createApi(server().origin, key)
    expect((await mine.get("/account")).status).toBe(200)
    await database.run((sql) => sql`UPDATE api_key SET revoked_at = now() WHERE id = ${id}`)
    const refused = await eventually(async () => {
      const answer = await mine.get("/account")
      return answer.status === 200 ? undefined : answer
    }, 5000)
    expect(refused.body.error).toMatchObject({ type: "authentication_error", code: "key_revoked" })
  })

  it("keeps test helpers out of live", async () => {
    expect(await error(live.get("/test/clocks"))).toMatchObject({ status: 404, code: "route_missing" })
  })

  it("keeps accounts and environments apart", async () => {
    const customer = await createCustomer(api)
    expect(await error(stranger.get(`/customers/${customer}`))).toMatchObject({ status: 404, code: "resource_missing" })
    expect(await error(live.get(`/customers/${customer}`))).toMatchObject({ status: 404, code: "resource_missing" })
    const plan = await createPlan(stranger)
    expect(await error(stranger.post("/subscriptions", { customer, plan }))).toMatchObject({
      status: 400,
      code: "resource_missing",
      param: "customer",
    })
  })
})

describe("envelopes", () => {
  it("carry a request ID everywhere, and a page that explains each error", async () => {
    const missing = await api.get("/nothing")
    expect(missing.body.error.request_id).toBe(missing.headers.get("x-request-id"))
    expect(missing.body.error.doc_url).toBe(`${server().origin}/docs/errors#route_missing`)
    const page = await (await fetch(`${server().origin}/docs/errors`)).text()
    for (const code of Object.keys(CATALOGUE)) expect(page).toContain(`id="${code}"`)
    expect((await api.get("/account")).headers.get("x-request-id")).toMatch(/^req_[0-9a-z]{26}$/)
  })

  it("list the methods of a path", async () => {
    const answer = await api.delete("/plans")
    expect(answer.status).toBe(404)
    expect(answer.headers.get("allow")).toBe("POST, GET")
  })

  it.each([
    ["GET", "/callbacks/paystack/acct_1", "POST"],
    ["PUT", "/callbacks/whatsapp/all", "GET, POST"],
    ["DELETE", "/checkout/nobodys", "GET"],
    ["DELETE", "/checkout/nobodys/complete", "GET, POST"],
    ["POST", "/pay/nobodys", "GET"],
    ["POST", "/save/nobodys", "GET"],
    ["POST", "/invoices/inv_1.pdf", "GET"],
    ["POST", "/openapi.json", "GET"],
    ["POST", "/healthz", "GET"],
    ["POST", "/readyz", "GET"],
  ])("report without a key that %s %s does not exist, and what exists", async (method, path, allow) => {
    const answer = await fetch(server().origin + path, { method, headers: { accept: "application/json" } })
    const { error } = (await answer.json()) as { error: { code: string } }
    expect([answer.status, error.code, answer.headers.get("allow")]).toEqual([404, "route_missing", allow])
  })

  /** Sends a request with the target exactly as given in its first line. */
  const sent = (
    method: string,
    path: string,
    key: string | undefined,
    headers: Readonly<Record<string, string>> = {},
  ) =>
    new Promise<{
      readonly status: number
      readonly body: string
      readonly headers: Readonly<Record<string, unknown>>
    }>((resolve, reject) => {
      const { hostname, port } = new URL(server().origin)
      const body = JSON.stringify({ name: "Ada" })
      const request = httpRequest(
        {
          hostname,
          port,
          method,
          path,
          headers: {
            ...(key === undefined ? {} : { authorization: `Bearer ${key}` }),
            "content-type": "application/json",
            "content-length": Buffer.byteLength(body),
            ...headers,
          },
        },
        async (response) => {
          const chunks = await response.toArray()
          const text = Buffer.concat(chunks).toString()
          resolve({ status: response.statusCode!, body: text, headers: response.headers })
        },
      )
      request.on("error", reject).end(body)
    })

  it.each([
    ["POST", "//sandbox/v1/customers"],
    ["GET", "//sandbox/v1/customers"],
    ["POST", "//anything/v1/customers"],
    ["POST", "/\\anything/v1/customers"],
    ["GET", "//:/zzz"],
    ["GET", "//[/v1/customers"],
    ["GET", "http://[::1/v1/customers"],
  ])("are not normalised, so %s %s does not exist", async (method, path) => {
    const before = (await live.all("/customers")).length
    for (const key of [keys().sk_live!, keys().sk_test]) {
      const { status, body } = await sent(method, path, key)
      expect([status, JSON.parse(body).error.code]).toEqual([404, "route_missing"])
    }
    expect(await live.all("/customers")).toHaveLength(before)
  })

  it("may be absolute URLs, with any Accept header", async () => {
    const whole = await sent("POST", "http://elsewhere.example/sandbox/v1/customers", keys().sk_test)
    expect(whole.status).toBe(201)
    const expecting = await sent("POST", "/sandbox/v1/customers", keys().sk_test, { expect: "a miracle" })
    expect([expecting.status, typeof expecting.headers["x-request-id"]]).toEqual([201, "string"])
  })

  it("show a page for another method at a page's address", async () => {
    const answer = await fetch(`${server().origin}/checkout/nobodys`, { method: "DELETE" })
    expect([answer.status, answer.headers.get("allow")]).toEqual([404, "GET"])
    expect(answer.headers.get("content-type")).toMatch(/^text\/html/)
  })

  it("show browsers a page for an unknown address, without the routes that need keys (A13)", async () => {
    const look = async (path: string, headers: Readonly<Record<string, string>> = {}, method = "GET") => {
      const accept = "text/html,application/xhtml+xml,*/*;q=0.8"
      const answer = await fetch(server().origin + path, { method, headers: { accept, ...headers } })
      const text = (await answer.text()).replaceAll(/req_\w+/g, "req_")
      expect(answer.headers.get("x-request-id")).toMatch(/^req_/)
      return {
        status: answer.status,
        type: answer.headers.get("content-type"),
        allow: answer.headers.get("allow"),
        text,
      }
    }
    const nothing = await look("/nothing/here")
    expect(nothing).toMatchObject({ status: 404, type: "text/html; charset=utf-8", allow: null })
    expect(nothing.text).toContain("There is no page here")
    for (const path of ["/sandbox/v1/customers", "/sandbox/v1/nothing", "/v1/plans", "/v1", "/sandbox/v1/plans/%zz"])
      expect(await look(path)).toEqual(nothing)
    expect(await look("/sandbox/v1/plans", {}, "DELETE")).toEqual(nothing)
    // A request with a key comes from a program: it gets the API's answer, and the page only for unknown paths.
    const key = { authorization: `Bearer ${keys().sk_test}` }
    expect(await look("/sandbox/v1/account", key)).toMatchObject({ status: 200, type: /json/ })
    expect(await look("/sandbox/v1/nothing", key)).toMatchObject({ status: 404, type: /html/ })
    for (const path of ["/sandbox/v1/account", "/sandbox/v1/nothing"])
      expect(await look(path, { authorization: "Bearer sk_test_x" })).toMatchObject({ status: 401, type: /json/ })
    expect(await look("/nothing", { accept: "*/*" })).toMatchObject({ status: 401, type: /json/ })
  })

  it("are hidden from search engines, and have an icon (A13)", async () => {
    const robots = await fetch(`${server().origin}/robots.txt`)
    expect([robots.status, robots.headers.get("content-type"), await robots.text()]).toEqual([
      200,
      "text/plain; charset=utf-8",
      "User-agent: *\nDisallow: /\n",
    ])
    const icon = await fetch(`${server().origin}/favicon.ico`)
    const bytes = Buffer.from(await icon.arrayBuffer())
    expect([icon.status, icon.headers.get("content-type"), bytes.readUInt32BE(0)]).toEqual([
      200,
      "image/x-icon",
      0x0100,
    ])
  })

  it("answer HEAD as GET", async () => {
    const response = await fetch(`${server().origin}/sandbox/v1/account`, {
      method: "HEAD",
      headers: { authorization: `Bearer ${keys().sk_test}` },
    })
    expect([response.status, await response.text()]).toEqual([200, ""])
  })
})

describe("bodies", () => {
  const raw = (body: string, type = "application/json") => error(api.post("/customers", body, { "content-type": type }))
  it.each([
    ["{", "json_invalid"],
    ["[]", "json_invalid"],
    ['"x"', "json_invalid"],
    ['{"name": "a\\u0000"}', "json_invalid"],
    ['{"name": "\\ud800"}', "json_invalid"],
    ['{"__proto__": {}}', "json_invalid"],
    ['{"name": "A", "email": null, "name": "A"}', "json_invalid"],
    ['{"name": "A", "metadata": {"\\"x": "1", "\\u0022x": "2"}}', "json_invalid"],
    [`{"metadata": ${"[".repeat(40)}${"]".repeat(40)}}`, "json_invalid"],
    [`{"name": "${"x".repeat(300_000)}"}`, "request_too_large"],
  ])("%.40s", async (body, code) => expect(await raw(body)).toMatchObject({ status: 400, code }))

  it("report the required way to send them", async () => {
    const message = async (body: string, headers: Readonly<Record<string, string>> = {}) =>
      (await api.post("/customers", body, { "content-type": "application/json", ...headers })).body.error.message
    expect(await message('{"name": "A"}', { "content-encoding": "gzip" })).toContain("Content-Encoding")
    expect(await message('\uFEFF{"name": "A"}')).toContain("byte order mark")
  })

  it("need a JSON Content-Type", async () => {
    expect(await raw('{"name": "A"}', "text/plain")).toMatchObject({ status: 400, code: "content_type_invalid" })
    expect(
      (await api.post("/customers", '{"name": "A"}', { "content-type": "application/json; charset=utf-8" })).status,
    ).toBe(201)
    expect(await raw('{"name": "A"}', 'application/json; charset="ISO-8859-1"')).toMatchObject({
      status: 400,
      code: "content_type_invalid",
    })
  })
})

describe("parameters", () => {
  const plan = { name: "P", amount: 5000, currency: "NGN", billing_cycle: "monthly" }
  it.each([
    [{ ...plan, amount: 50.5 }, "parameter_invalid", "amount"],
    [{ ...plan, amount: "5000" }, "parameter_invalid", "amount"],
    [{ ...plan, amount: 99 }, "parameter_invalid", "amount"],
    [{ ...plan, amount: 100_000_000_000 }, "parameter_invalid", "amount"],
    [{ ...plan, currency: "USD" }, "parameter_invalid", "currency"],
    [{ ...plan, billing_cycle: "yearly" }, "parameter_invalid", "billing_cycle"],
    [{ ...plan, name: "" }, "parameter_invalid", "name"],
    [{ ...plan, name: " \n\u00a0" }, "parameter_invalid", "name"],
    [{ ...plan, name: "x".repeat(121) }, "parameter_invalid", "name"],
    [{ ...plan, nmae: "x" }, "parameter_unknown", "nmae"],
    [{ ...plan, retry_logic: { max_attempts: 9 } }, "parameter_invalid", "retry_logic.max_attempts"],
    [
      { ...plan, retry_logic: { retry_intervals_days: [1, 31] } },
      "parameter_invalid",
      "retry_logic.retry_intervals_days[1]",
    ],
    [{ ...plan, retry_logic: { retry_intervals_days: [] } }, "parameter_invalid", "retry_logic.retry_intervals_days"],
    [{ ...plan, retry_logic: { intervals: [] } }, "parameter_unknown", "retry_logic.intervals"],
    [{ ...plan, metadata: { color: 5 } }, "parameter_invalid", "metadata[color]"],
    [
      { ...plan, metadata: Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`k${n}`, "v"])) },
      "parameter_invalid",
      "metadata",
    ],
    [{ name: "P", amount: 5000, currency: "NGN" }, "parameter_missing", "billing_cycle"],
    [{}, "parameter_missing", "name"],
    // The first error in the order of the body. Missing parameters come last.
    [{ amount: "x", currency: "USD" }, "parameter_invalid", "amount"],
    [{ currency: "USD", amount: "x" }, "parameter_invalid", "currency"],
  ])("%j", async (body, code, param) =>
    expect(await error(api.post("/plans", body))).toMatchObject({ status: 400, code, param }),
  )

  it("decodes valid escapes, and + as a space", async () => {
    const email = "ada+é%@example.com"
    const customer = await createCustomer(api, { email })
    const found = async (query: string) =>
      data(await api.get(`/customers?${query}`)).map(({ id }: { id: string }) => id)
    expect(await found(`email=${encodeURIComponent(email)}&limit=10&`)).toEqual([customer])
    expect(await found(`%65mail=${encodeURIComponent(email)}`)).toEqual([customer])
    const marked = await createCustomer(api, { metadata: { "the tag": "one two" } })
    expect(await found("metadata[the+tag]=one+two")).toEqual([marked])
    expect(await found("metadata%5Bthe%20tag%5D=one%20two")).toEqual([marked])
  })

  it("refuses a malformed path after the key check, as it refuses an unknown one", async () => {
    expect(await error(createApi(server().origin, undefined).get("/customers/%zz"))).toMatchObject({
      status: 401,
      code: "key_missing",
    })
    const page = await fetch(`${server().origin}/pay/%zz?back=%`, { headers: { accept: "text/html" } })
    expect([page.status, await page.text()]).toEqual([400, expect.stringContaining("percent escape")])
  })

  it("accepts 100.0 and 1e4 as integers", async () => {
    const body = '{"name": "P", "amount": 1e4, "currency": "NGN", "billing_cycle": "daily", "trial_days": 3.0}'
    expect(data(await api.post("/plans", body), 201)).toMatchObject({ amount: 10_000, trial_days: 3 })
  })

  it.each([
    ["/plans?limit=0", "parameter_invalid", "limit"],
    ["/plans?limit=101", "parameter_invalid", "limit"],
    ["/plans?limit=5&limit=6", "parameter_invalid", "limit"],
    ["/plans?status=gone", "parameter_invalid", "status"],
    // Of several errors, the first in the query.
    ["/plans?foo=1&limit=2&limit=3", "parameter_unknown", "foo"],
    ["/plans?limit=2&limit=3&foo=1", "parameter_invalid", "limit"],
    ["/plans?foo=1&limit=%00", "parameter_unknown", "foo"],
    ["/customers?metadata[a]=1&foo=1&metadata[b]=2", "parameter_unknown", "foo"],
    ["/customers?metadata=1", "parameter_invalid", "metadata"],
    ["/subscriptions?foo=1&expand[]=nothing", "parameter_unknown", "foo"],
    ["/subscriptions?expand[]=nothing&foo=1", "parameter_invalid", "expand[]"],
    ["/plans?stat=active", "parameter_unknown", "stat"],
    ["/plans?starting_after=plan_0", "parameter_invalid", "starting_after"],
    ["/subscriptions?expand[]=nothing", "parameter_invalid", "expand[]"],
    ["/subscriptions?expand[]=customer.test_clock", "parameter_invalid", "expand[]"],
    ["/events?created_after=2025-01-01T00:00:00%2B01:00", "parameter_invalid", "created_after"],
    // Invalid escapes, or invalid UTF-8 (A12), in their place among other errors.
    ["/customers?email=%zz", "parameter_invalid", "email"],
    ["/customers?email=100%", "parameter_invalid", "email"],
    ["/customers?email=%ff", "parameter_invalid", "email"],
    ["/customers?email=%ed%a0%80", "parameter_invalid", "email"],
    ["/customers?metadata[a]=%c3", "parameter_invalid", "metadata[a]"],
    ["/customers?%zz=1", "parameter_invalid", "query"],
    ["/customers?foo=1&email=%zz", "parameter_unknown", "foo"],
    ["/customers?email=%zz&foo=1", "parameter_invalid", "email"],
    ["/customers/%zz", "parameter_invalid", "path"],
    ["/customers/cus_%ff/payment-methods", "parameter_invalid", "path"],
    ["/nothing/%", "parameter_invalid", "path"],
  ])("%s", async (path, code, param) => expect(await error(api.get(path))).toMatchObject({ status: 400, code, param }))

  it("validates references and amounts together", async () => {
    const customer = await createCustomer(api)
    const dear = await createPlan(api, { amount: 99_999_999_999 })
    const subscribe = (over: object) =>
      error(api.post("/subscriptions", { customer, plan: dear, payment_method: "pm_test_success", ...over }))
    expect(await subscribe({ quantity: 2 })).toMatchObject({
      status: 400,
      code: "parameter_invalid",
      param: "quantity",
    })
    expect(await subscribe({ plan: "plan_x" })).toMatchObject({ status: 400, code: "resource_missing", param: "plan" })
    expect(await subscribe({ payment_method: "pm_test_nonsense" })).toMatchObject({
      status: 400,
      code: "parameter_invalid",
      param: "payment_method",
    })
    expect(await subscribe({ payment_method: "pm_x" })).toMatchObject({
      status: 400,
      code: "resource_missing",
      param: "payment_method",
    })
    expect(await subscribe({ start_at: "2020-01-01T00:00:00Z" })).toMatchObject({
      status: 400,
      code: "parameter_invalid",
      param: "start_at",
    })
    expect(await subscribe({ start_at: "2025-02-30T00:00:00Z" })).toMatchObject({
      status: 400,
      code: "parameter_invalid",
      param: "start_at",
    })
    expect(await error(api.post("/subscriptions", { customer, plan: dear }))).toMatchObject({
      status: 422,
      code: "payment_method_required",
    })
    data(await api.post(`/plans/${dear}/archive`))
    expect(await subscribe({})).toMatchObject({ status: 422, code: "plan_archived" })
  })

  it("refuses text without visible characters, and control characters in names (A5)", async () => {
    const product = { name: "Inverter", price: 3_000, cycleMonths: 3, mode: "flexible" }
    const fields: ReadonlyArray<readonly [path: string, body: object, field: string]> = [
      ["/plans", plan, "name"],
      ["/plans", plan, "description"],
      ["/plans", plan, "category"],
      ["/customers", {}, "name"],
      ["/test/clocks", { frozen_time: "2025-01-01T00:00:00Z" }, "name"],
      ["/webhook-endpoints", { url: "https://shop.example/hook", enabled_events: ["*"] }, "description"],
      ["/charges", { customer: "cus_x", amount: 5_000 }, "description"],
      ["/nudges", { customer: "cus_x", template: "custom" }, "custom_message"],
      ["/provider-savings/products", product, "name"],
      ["/provider-savings/products", product, "description"],
    ]
    await database.run((sql) => sql`UPDATE account SET vertical = 'ecommerce' WHERE id = ${accountId()}`)
    const nothing = [
      "\u200b",
      "\u202e",
      "\u0001",
      " \u200d\ufeff\n",
      "\u2060\u00ad",
      "\u3164",
      "\u2800",
      "\u{e0020}\ufe0f",
    ]
    const controls = ["Ada\u0001", "\u001b[31mAda", "Ada\u0085Obi", "Ada\u007f", "A\u000bB"]
    for (const [path, body, field] of fields)
      for (const value of [...nothing, ...controls])
        expect(
          await error(api.post(path, { ...body, [field]: value })),
          `${path} ${field} ${JSON.stringify(value)}`,
        ).toMatchObject({ status: 400, code: "parameter_invalid", param: field })
    // Text that people write: lines, tabs, joiners and marks between characters.
    for (const name of ["Ada\tObi\r\nLagos", "👩\u200d🔧 Ṣọlá", "\u200eعائشة", "—"])
      expect(data(await api.post("/customers", { name }), 201).name).toBe(name)
    expect(data(await api.post("/plans", { ...plan, description: "" }), 201).description).toBe("")
  })

  it.each([
    ["+23408031234567", "write +2348031234567"],
    ["08031234567", "write +2348031234567"],
    ["+234 803 123 4567", "write +2348031234567"],
    ["00442079460958", "write +442079460958"],
    ["+2340803123456", ""],
    ["+2340700123456", ""],
    ["+999123456789", ""],
    ["+12", ""],
  ])("refuses the phone number %s, and gives the valid form if there is one (C5)", async (phone, how) => {
    const refused = await error(api.post("/customers", { name: "n", phone }))
    expect(refused).toMatchObject({ status: 400, code: "parameter_invalid", param: "phone" })
    expect(refused.message).toContain("a phone number that can exist")
    expect(refused.message.includes("write +")).toBe(how !== "")
    expect(refused.message).toContain(how)
    const customer = await createCustomer(api)
    expect(await error(api.patch(`/customers/${customer}`, { phone }))).toMatchObject({
      code: "parameter_invalid",
      param: "phone",
    })
  })

  it.each(["+2348031234567", "+2348030000001", "+2342012345678", "+442079460958", "+14155552671", null])(
    "accepts the phone number %s (C5)",
    async (phone) => {
      expect(data(await api.post("/customers", { name: "n", phone }), 201).phone).toBe(phone)
    },
  )

  it("merges metadata and rules field by field in a PATCH", async () => {
    const plan = await createPlan(api, { metadata: { a: "1", b: "2" }, retry_logic: { max_attempts: 5 } })
    const patched = data(
      await api.patch(`/plans/${plan}`, {
        metadata: { a: "", c: "3" },
        retry_logic: { enabled: null, escalation_on_failure: "none" },
        amount: 700_000,
      }),
    )
    expect(patched).toMatchObject({
      metadata: { b: "2", c: "3" },
      amount: 700_000,
      retry_logic: { enabled: true, max_attempts: 5, escalation_on_failure: "none", retry_intervals_days: [1, 3, 7] },
    })
    expect(data(await api.patch(`/plans/${plan}`, { metadata: null })).metadata).toEqual({})
    expect(await error(api.patch(`/plans/${plan}`, { currency: "NGN" }))).toMatchObject({
      code: "parameter_unknown",
      param: "currency",
    })
  })
})

describe("lists", () => {
  it("are newest first, and can be paged both ways", async () => {
    const mine = createApi(server().origin, keys().sk_live, "live")
    const ids: Array<string> = []
    for (let n = 0; n < 5; n++)
      ids.unshift(await createCustomer(mine, { name: `C${n}`, email: `C${n}@Example.com`, metadata: { n: String(n) } }))
    const first = await mine.get("/customers?limit=2")
    expect(first.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(0, 2))
    expect(first.body.meta).toEqual({ has_more: true, next_cursor: ids[1], limit: 2 })
    const last = await mine.get(`/customers?limit=3&starting_after=${ids[1]}`)
    expect(last.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(2))
    expect(last.body.meta).toEqual({ has_more: false, next_cursor: null, limit: 3 })
    const back = await mine.get(`/customers?limit=2&ending_before=${ids[3]}`)
    expect(back.body.data.map(({ id }: { id: string }) => id)).toEqual(ids.slice(1, 3))
    expect(back.body.meta.has_more).toBe(true)
    expect(await error(mine.get(`/customers?starting_after=${ids[0]}&ending_before=${ids[1]}`))).toMatchObject({
      status: 400,
    })
    const found = async (query: string) =>
      (await mine.get(`/customers?${query}`)).body.data.map(({ id }: { id: string }) => id)
    expect(await found("email=c3@example.COM")).toEqual([ids[1]])
    data(await mine.patch(`/customers/${ids[1]}`, { phone: "+2348039998877" }))
    for (const plus of ["%2B", "+"]) expect(await found(`phone=${plus}2348039998877`)).toEqual([ids[1]])
    expect(await found("metadata[n]=2")).toEqual([ids[2]])
    expect(await found("metadata[n]=9")).toEqual([])
  })

  it("omit nothing that is committed behind newer objects, if followed by cursor (B9)", async () => {
    const seen = await createCustomer(api)
    // Made next.
    const older = `${seen.slice(0, -4)}zzzz`
    const writing = await lockUntilReleased(
      database,
      (sql) => sql`
        INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
        SELECT account_id, livemode, ${older}, name, metadata, created_at FROM customer WHERE id = ${seen}`,
    )
    const newer = await createCustomer(api)
    const following = api.get(`/customers?ending_before=${seen}`)
    await eventually(() =>
      database
        .run(
          (sql) => sql`
            SELECT 1 FROM pg_stat_activity
            WHERE datname = current_database() AND ltrim(query, E' \n') LIKE 'SELECT virtualtransaction AS writer%'`,
        )
        .then(([row]) => row),
    )
    await writing.release()
    const { data: shown, meta } = (await following).body
    expect(shown.map(({ id }: { id: string }) => id)).toEqual([newer, older])
    expect(meta.has_more).toBe(false)
  })

  it("expand related objects on request", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api)
    const { id } = data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_mastercard" }), 201)
    const path = `expand[]=customer&expand[]=plan&expand[]=latest_charge`
    const [listed] = (await api.get(`/subscriptions?customer=${customer}&${path}`)).body.data
    expect(listed).toEqual(data(await api.get(`/subscriptions/${id}?${path}`)))
    expect(listed).toMatchObject({
      customer: { id: customer, object: "customer" },
      plan: { id: plan, amount: 500_000 },
      latest_charge: { status: "succeeded", payment_method: { brand: "mastercard" } },
    })
    expect(data(await api.get(`/customers/${customer}?expand[]=test_clock`)).test_clock).toMatchObject({
      id: clock,
      customer_count: 1,
    })
    for (const [object, name] of [
      [listed.customer, "customer"],
      [listed.plan, "plan"],
      [listed.latest_charge, "charge"],
      [listed, "subscription"],
      [data(await api.get(`/test/clocks/${clock}`)), "test_clock"],
      [data(await api.get("/account")), "account"],
      [(await api.get("/events?limit=1")).body.data[0], "event"],
    ] as const) {
      Schema.decodeUnknownSync(RESPONSES.get(name)!, { onExcessProperty: "error" })(object)
    }
  })
})

describe("payment methods", () => {
  it("are attached by naming a test method, and cleared by null", async () => {
    const customer = await createCustomer(api)
    const method = {
      id: "pm_test_verve",
      type: "card",
      brand: "verve",
      last4: "5060",
      bank_name: null,
      exp_month: 12,
      exp_year: 2034,
    }
    expect(
      data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_verve" }))
        .default_payment_method,
    ).toEqual(method)
    expect(data(await api.patch(`/customers/${customer}`, { name: "Ada" })).default_payment_method).toEqual(method)
    expect(
      data(await api.patch(`/customers/${customer}`, { default_payment_method: null })).default_payment_method,
    ).toBeNull()
    expect(await error(api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_no" }))).toMatchObject({
      code: "parameter_invalid",
      param: "default_payment_method",
    })
  })

  it("of the sandbox do not exist in live", async () => {
    const customer = await createCustomer(live)
    expect(
      await error(live.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" })),
    ).toMatchObject({ status: 400, code: "resource_missing" })
  })
})

describe("test clocks", () => {
  it("refuse impossible times", async () => {
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const to = (frozen_time: unknown) => error(api.post(`/test/clocks/${clock}/advance`, { frozen_time }))
    for (const time of ["2025-01-31T00:00:00Z", "2025-01-01T00:00:00Z", "2026-01-31T00:00:00.001Z", "2025-02-01", 5]) {
      expect(await to(time)).toMatchObject({ status: 400, code: "parameter_invalid", param: "frozen_time" })
    }
    await advance(api, clock, "2026-01-31T00:00:00Z")
    expect(data(await api.get(`/test/clocks/${clock}`)).frozen_time).toBe("2026-01-31T00:00:00.000Z")
  })

  it("accept years 1970 to 8999, and the refusal says so", async () => {
    const at = (frozen_time: string) => api.post("/test/clocks", { frozen_time })
    for (const time of ["1969-12-31T23:59:59.999Z", "9000-01-01T00:00:00Z", "2025-02-30T00:00:00Z"]) {
      const { code, message } = await error(at(time))
      expect(code).toBe("parameter_invalid")
      expect(message).toBe("frozen_time must be a timestamp in UTC such as 2026-01-31T09:00:00Z, from 1970 to 8999.")
    }
    for (const time of ["1970-01-01T00:00:00Z", "8999-12-31T23:59:59.999Z"]) data(await at(time), 201)
  })

  it("are deleted when they expire", async () => {
    const [expired, other] = [
      await createClock(api, "2025-01-31T00:00:00Z"),
      await createClock(api, "2025-01-31T00:00:00Z"),
    ]
    const customer = await createCustomer(api, { test_clock: expired })
    await database.run(
      (sql) => sql`UPDATE test_clock SET deletes_at = now() - interval '1 minute' WHERE id = ${expired}`,
    )
    await database.run(() => expireClocks)
    expect((await api.get(`/test/clocks/${expired}`)).status).toBe(404)
    await eventually(async () => ((await api.get(`/customers/${customer}`)).status === 404 ? true : undefined))
    expect((await api.get(`/test/clocks/${other}`)).status).toBe(200)
  })

  it("are deleted with all their objects", async () => {
    const clock = await createClock(api, "2025-01-31T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const { id } = data(
      await api.post("/subscriptions", { customer, plan: await createPlan(api), payment_method: "pm_test_success" }),
      201,
    )
    const before = (await api.all("/events")).length
    expect(data(await api.delete(`/test/clocks/${clock}`))).toMatchObject({ id: clock, deleted: true })
    for (const path of [`/customers/${customer}`, `/subscriptions/${id}`, `/test/clocks/${clock}`])
      expect((await api.get(path)).status).toBe(404)
    expect((await api.all("/events")).length).toBe(before - 2)
    expect(await error(api.post("/customers", { name: "B", test_clock: clock }))).toMatchObject({
      status: 400,
      code: "resource_missing",
      param: "test_clock",
    })
  })
})

describe("health", () => {
  it("needs no key", async () => {
    expect((await fetch(`${server().origin}/healthz`)).status).toBe(200)
    expect((await fetch(`${server().origin}/readyz`)).status).toBe(200)
  })
})

describe("unknown parameters", () => {
  beforeAll(async () => {
    expect((await api.patch("/providers/me/vertical", { vertical: "ecommerce" })).status).toBe(200)
  })
  // If a key is optional, the object in the path is looked up first: test/instalment/plans.test.ts.
  const keyed = endpoints.map(({ declaration }) => declaration).filter(({ access }) => access !== "public")

  it.each(keyed.map(({ method, path, access }) => [method, path, access] as const))(
    "of %s %s are named",
    async (method, path, access) => {
      const caller = access === "administrator" ? administrator : api
      const real = path.replace(":id", "some_id")
      expect(
        await error(caller.request(method, `${real}?colour=red`, method === "GET" ? undefined : {})),
      ).toMatchObject({
        status: 400,
        code: "parameter_unknown",
        param: "colour",
      })
      if (method === "GET" || method === "DELETE") return
      const answer = await error(caller.request(method, real, { colour: "red" }))
      expect(answer).toMatchObject({ status: 400, code: "parameter_unknown", param: "colour" })
    },
  )
})

describe("unusual requests", () => {
  it.each([
    ["GET", "/customers/%00", 404],
    ["GET", "/customers/%zz", 400],
    ["GET", `/customers/${"x".repeat(3000)}`, 404],
    ["GET", "/customers/cus_%F0%9F%92%B3", 404],
    ["GET", "/customers?email=%00", 400],
    ["GET", "/customers?metadata[%00]=1", 400],
    ["GET", "/customers?metadata[a%0Ab]=1", 200],
    ["GET", "/customers?metadata[a]=%00", 400],
    ["GET", "/customers?metadata[]=1", 400],
    ["GET", "/customers?email=%E0%A4%A", 400],
    ["GET", "/customers?constructor=1", 400],
    ["GET", "/customers?__proto__=1", 400],
    ["GET", "/plans?expand[]=customer", 400],
    ["GET", "/plans?starting_after=%27%3B--", 400],
    ["GET", "//", 404],
    ["GET", "/customers/", 404],
    ["PATCH", "/customers/%00", 404],
    ["OPTIONS", "/customers", 404],
    ["PUT", "/customers", 404],
  ])("%s %.40s is %i, and never 500", async (method, path, status) => {
    expect((await api.request(method, path)).status).toBe(status)
  })

  it.each([
    ["/customers", { name: 5 }],
    ["/customers", { name: null }],
    ["/customers", { name: "A", email: "a@b" }],
    ["/customers", { name: "A", email: "a@b..com" }],
    ["/customers", { name: "A", email: ".a@b.com" }],
    ["/customers", { name: "A", email: "a@-b.com" }],
    ["/customers", { name: "A", email: "a@[127.0.0.1]" }],
    ["/customers", { name: "A", email: `a@${"-.".repeat(50_000)}` }],
    ["/customers", { name: "A", phone: "08031234567" }],
    ["/customers", { name: "A", metadata: [] }],
    ["/customers", { name: "A", metadata: { "": "x" } }],
    ["/customers", { name: "A", test_clock: {} }],
    ["/plans", { name: "P", amount: 1e21, currency: "NGN", billing_cycle: "daily" }],
    ["/plans", { name: "P", amount: -5, currency: "NGN", billing_cycle: "daily" }],
    ["/plans", { name: "P", amount: 500, currency: "NGN", billing_cycle: "daily", retry_logic: [] }],
    [
      "/plans",
      { name: "P", amount: 500, currency: "NGN", billing_cycle: "daily", reminders: { channels: ["sms", "sms"] } },
    ],
    ["/plans", { name: "P", amount: 500, currency: "NGN", billing_cycle: "daily", service_config: "x" }],
    ["/subscriptions", { customer: 1, plan: 2 }],
    ["/subscriptions", { customer: "cus_x", plan: "plan_x", quantity: 0 }],
    ["/subscriptions", { customer: "cus_x", plan: "plan_x", quantity: 2 ** 40 }],
    ["/subscriptions", { customer: "cus_x", plan: "plan_x", trial_days: 366 }],
    ["/test/clocks", { frozen_time: "0000-01-01T00:00:00Z" }],
    ["/test/clocks", { frozen_time: "9999-12-31T23:59:59Z" }],
    ["/test/clocks", { frozen_time: "2025-01-01T00:00:00Z", name: "x".repeat(101) }],
  ])("POST %s %j is 400, and never 500", async (path, body) => {
    expect((await api.post(path, body)).status).toBe(400)
  })
})

describe("input that is not HTTP", () => {
  it("gets an error in the envelope", async () => {
    const { port, hostname } = new URL(server().origin)
    const answer = await new Promise<string>((resolve, reject) => {
      let text = ""
      const socket = connect(Number(port), hostname, () => socket.write("HELLO\r\n\r\n"))
      socket.on("data", (chunk) => {
        text += chunk
      })
      socket.on("end", () => resolve(text))
      socket.on("error", reject)
    })
    expect(answer).toMatch(/^HTTP\/1\.1 400 /)
    expect(answer).toMatch(/X-Request-Id: req_/)
    expect(JSON.parse(answer.split("\r\n\r\n")[1]!).error.code).toBe("request_malformed")
  })
})

describe("large bodies", () => {
  it("are refused before they have arrived", async () => {
    const status = await new Promise((resolve, reject) => {
      const request = httpRequest(`${server().origin}/sandbox/v1/customers`, {
        method: "POST",
        headers: {
          authorization: `Bearer ${keys().sk_test}`,
          "content-type": "application/json",
          "content-length": 10_000_000,
        },
      })
      request.on("response", (response) => resolve(response.statusCode))
      request.on("error", reject)
      request.write("{")
    })
    expect(status).toBe(400)
  })
})
