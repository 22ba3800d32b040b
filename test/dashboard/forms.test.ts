/** Tests what the dashboard takes from browsers (decision R5): where a form comes from, its secret, its size, addresses, rates. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { useDatabase } from "../support/database.ts"
import { useInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { startServer } from "../support/server.ts"
import { newVisitor } from "../support/visitor.ts"

const { database, server, accountId, api } = useInstance()

const member = () => signedIn(database, server().origin, accountId())

const NEW = "/dashboard/sandbox/customers/new"

const customersNamed = async (name: string) => (await api.all("/customers")).filter((one) => one.name === name)

describe("a form is refused", () => {
  it.each([
    ["with the origin of another site", { origin: "https://evil.example" }],
    ["with an origin that is hidden", { origin: "null" }],
    ["with an origin of another port", { origin: "http://127.0.0.1:1" }],
    ["with an origin that is none", { origin: "x" }],
    ["from another site, as the browser says", { "sec-fetch-site": "cross-site" }],
    ["from another host of the same site", { "sec-fetch-site": "same-site" }],
    ["from outside of any page", { "sec-fetch-site": "none" }],
  ])("%s", async (name, headers) => {
    const owner = await member()
    const refused = await owner.post(NEW, { name, intent: "confirm" }, headers)
    expect(refused.status).toBe(403)
    expect(refused.text).toContain("<h1>This form is not valid any more</h1>")
    expect(await customersNamed(name)).toEqual([])
  })

  it.each(["", "x", "a".repeat(43)])("with the secret %j", async (form_token) => {
    const owner = await member()
    expect((await owner.post(NEW, { form_token: [form_token], name: "Ada" })).status).toBe(200)
    const body = new URLSearchParams({ form_token, name: "Wrong secret", intent: "confirm" })
    const refused = await fetch(server().origin + NEW, {
      method: "POST",
      body,
      headers: { cookie: `session=${owner.cookie}`, accept: "text/html" },
    })
    expect(refused.status).toBe(403)
    expect(await customersNamed("Wrong secret")).toEqual([])
  })

  it("with the secret of another member, or of a browser that is not signed in", async () => {
    const [one, other] = [await member(), await member()]
    const visitor = newVisitor(server().origin, { cookie: `session=${one.cookie}` })
    await visitor.get("/dashboard/sign-up")
    expect((await visitor.post(NEW, { name: "Ada" })).status).toBe(403)
    expect((await visitor.post(NEW, { name: "Ada", form_token: other.formToken })).status).toBe(403)
  })

  it("and shown again without a session: the sign-in does not run it", async () => {
    const visitor = newVisitor(server().origin)
    const asked = await visitor.post(NEW, { name: "Without session", intent: "confirm" })
    expect([asked.status, asked.location]).toEqual([303, "/dashboard/sign-in?next=%2Fdashboard"])
    expect((await visitor.post("/dashboard/sign-in", { email: "ada@mail.example" })).status).toBe(403)
  })
})

describe("a form is accepted", () => {
  it.each([
    ["with this origin", () => ({ origin: server().origin, "sec-fetch-site": "same-origin" })],
    ["with another name of this host", () => ({ origin: server().origin })],
    ["without both headers, as programs send it", () => ({})],
  ])("%s", async (_, headers) => {
    const owner = await member()
    expect((await owner.post(NEW, { name: "Ada", intent: "review" }, headers())).status).toBe(200)
  })
})

describe("what is too much", () => {
  it("a large body is refused with 400, many fields and nested JSON with 403", async () => {
    const owner = await member()
    expect((await owner.post(NEW, { name: "x".repeat(2_000_000) })).status).toBe(400)
    const fields = Object.fromEntries(Array.from({ length: 600 }, (_, n) => [`f${n}`, "x"]))
    const many = await owner.post(NEW, fields)
    expect([many.status, many.text.includes("The form cannot be read.")]).toEqual([403, true])
    for (const body of ["[", "null", "1", '"x"', `${"[".repeat(5_000)}${"]".repeat(5_000)}`]) {
      const refused = await fetch(server().origin + NEW, {
        method: "POST",
        body,
        headers: { cookie: `session=${owner.cookie}`, accept: "text/html", "content-type": "application/json" },
      })
      expect(refused.status).toBe(403)
    }
  })

  it("NUL characters, lone surrogates and the names of all objects' fields are text", async () => {
    const owner = await member()
    for (const name of ["a\0b", "\ud800", "__proto__", "constructor"]) {
      const answer = await owner.post(NEW, {
        name,
        __proto__: "x",
        constructor: "y",
        hasOwnProperty: "z",
        intent: "review",
      })
      expect([200, 400]).toContain(answer.status)
    }
  })

  it.each([
    "/dashboard/sandbox/customers/%",
    "/dashboard/sandbox/customers/%ff",
    "/dashboard/sandbox/customers?email=%zz",
  ])("the wrong escape of %s is a page with 400", async (path) => {
    const owner = await member()
    const wrong = await owner.get(path)
    expect(wrong.status).toBe(400)
    expect(wrong.headers.get("content-type")).toBe("text/html; charset=utf-8")
  })

  it.each([
    "/dashboard/sandbox/customers/%00",
    "/dashboard/sandbox/customers/cus_%00",
    "/dashboard/sandbox/customers/..%2f..%2faccount",
    `/dashboard/sandbox/customers/${"a".repeat(5_000)}`,
    "/dashboard/sandbox/customers/%3Cscript%3Ealert(1)%3C%2Fscript%3E",
  ])("%s is a page with 404, without markup of the address", async (path) => {
    const owner = await member()
    const missing = await owner.get(path)
    expect(missing.status).toBe(404)
    expect(missing.text).not.toContain("<script>alert")
  })

  it.each([
    "/dashboard/nothing",
    "/dashboard/production",
    "/dashboard/live/x/y/z",
    "/Dashboard",
    "/dashboard/assets/../../etc/passwd",
    "/dashboard/assets/x.css",
  ])("%s does not exist", async (path) => {
    expect((await (await member()).get(path)).status).toBe(404)
  })

  it.each([
    "?starting_after=%00",
    "?starting_after=cus_x",
    "?email=%00",
    "?phone='",
    "?starting_after=a&starting_after=b",
  ])("the list with %s is an answer, never a failure of the service", async (query) => {
    const owner = await member()
    for (const path of ["/dashboard/sandbox/customers", "/dashboard/activity", "/dashboard/team"])
      expect((await owner.get(path + query)).status).toBeLessThan(500)
  })

  it("a notice in an address is one of ours, or nothing", async () => {
    const owner = await member()
    for (const notice of ["You+won", "__proto__", "constructor", "%3Cb%3E"])
      expect((await owner.get(`/dashboard/sandbox?notice=${notice}`)).text).not.toContain('role="status"')
    const start = await owner.get("/dashboard?notice=x%0d%0aset-cookie:%20a=b")
    expect(start.headers.getSetCookie()).toEqual([])
    expect((await owner.get("/dashboard/sandbox?notice=created")).text).toContain('role="status">Created.')
  })
})

describe("every page", () => {
  it("has a policy under which only files of this host run, is kept by no cache and framed by no site", async () => {
    const owner = await member()
    for (const path of [
      "/dashboard/sandbox",
      "/dashboard/me",
      "/dashboard/sandbox/customers/cus_none",
      "/dashboard/team",
    ]) {
      const { headers, text } = await owner.get(path)
      expect(headers.get("content-security-policy")).toBe(
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
      )
      expect(headers.get("cache-control")).toBe("no-store")
      expect(headers.get("x-frame-options")).toBe("DENY")
      expect(headers.get("referrer-policy")).toBe("same-origin")
      expect(text).not.toMatch(/<style|<script(?! src="\/dashboard\/assets\/[\w.-]+" defer>)| style=| on\w+=/)
      expect(Buffer.byteLength(text)).toBeLessThanOrEqual(60_000)
    }
  })

  it("loads a style and a script that browsers keep, of at most 60 KB", async () => {
    const { text } = await (await member()).get("/dashboard/sandbox")
    const files = [...text.matchAll(/(?:href|src)="(\/dashboard\/assets\/[^"]+)"/g)].map(([, path]) => path!)
    expect(files).toHaveLength(2)
    for (const path of files) {
      const answer = await fetch(server().origin + path)
      expect(answer.headers.get("cache-control")).toBe("public, max-age=31536000, immutable")
      expect((await answer.arrayBuffer()).byteLength).toBeLessThanOrEqual(60_000)
    }
  })
})

describe("requests at a high rate", () => {
  const own = useDatabase()

  it("are refused with 429 for the address that sends them; other addresses and the API go on", async () => {
    const limited = await startServer(own.url(), { RATE_LIMIT_PUBLIC: "10", TRUST_PROXY: "true" })
    const { account, keys } = await own.run(() => createAccount({ businessName: "Calm" }))
    const [loud, calm] = [
      await signedIn(own, limited.origin, account.id),
      await signedIn(own, limited.origin, account.id),
    ]
    const answers = await Promise.all(
      Array.from({ length: 200 }, () => loud.get("/dashboard/sandbox", { "x-forwarded-for": "203.0.113.1" })),
    )
    const refused = answers.filter(({ status }) => status === 429)
    expect(refused.length).toBeGreaterThan(100)
    expect(refused[0]!.text).toContain("<h1>Too many requests</h1>")
    expect(refused[0]!.headers.get("retry-after")).not.toBeNull()
    expect((await calm.get("/dashboard/sandbox", { "x-forwarded-for": "203.0.113.2" })).status).toBe(200)
    const called = await fetch(`${limited.origin}/sandbox/v1/account`, {
      headers: { authorization: `Bearer ${keys.sk_test}` },
    })
    expect(called.status).toBe(200)
    await limited.stop()
  })

  it("of one account take no places of another: pages under way are counted for each account", async () => {
    const limited = await startServer(own.url(), { IN_FLIGHT: "2" })
    const accounts = await Promise.all(
      ["One", "Two"].map((businessName) => own.run(() => createAccount({ businessName }))),
    )
    const [one, two] = await Promise.all(accounts.map(({ account }) => signedIn(own, limited.origin, account.id)))
    const many = Promise.all(Array.from({ length: 60 }, () => one!.get("/dashboard/sandbox")))
    expect((await two!.get("/dashboard/sandbox")).status).toBe(200)
    const statuses = new Set((await many).map(({ status }) => status))
    expect([...statuses].every((status) => status === 200 || status === 429)).toBe(true)
    expect(statuses.has(200)).toBe(true)
    await limited.stop()
  })
})
