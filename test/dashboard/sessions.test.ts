/** Tests sessions of the dashboard (decision R5): their cookie, their end, the account that they show, and the rule of 15 minutes. */
import { hash } from "node:crypto"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createApi } from "../support/api.ts"
import { type TestDatabase, useDatabase } from "../support/database.ts"
import { useOwnInstance } from "../support/instance.ts"
import { act, hiddenIn, type Member, signedIn } from "../support/member.ts"
import { startServer } from "../support/server.ts"
import { codeIn, newVisitor, signIn, signUp } from "../support/visitor.ts"

const { database, server, accountId, api, keys } = useOwnInstance(() => ({ TRUST_PROXY: "true" }))

const HOUR = 60

const member = (role: Parameters<typeof signedIn>[3] = "owner", email?: string, account = accountId()) =>
  signedIn(database, server().origin, account, role, email)

const hashOf = (cookie: string) => hash("sha256", cookie, "buffer")

/** Moves the instants of a session to earlier, in minutes. */
const age = ({ cookie }: Pick<Member, "cookie">, used: number, signedInBefore = used, of: TestDatabase = database) =>
  of.run(
    (sql) => sql`
      UPDATE dashboard_session SET last_used_at = last_used_at - ${used} * interval '1 minute', signed_in_at = signed_in_at - ${signedInBefore} * interval '1 minute'
      WHERE hash = ${hashOf(cookie)}`,
  )

const sessionsOf = (email: string) =>
  database.run(
    (sql) => sql<{ id: string; hash: Uint8Array }>`SELECT id, hash FROM dashboard_session WHERE email = ${email}`,
  )

const isIn = async ({ get }: Pick<Member, "get">): Promise<boolean> => (await get("/dashboard/sandbox")).status === 200

describe("the cookie", () => {
  it("has 256 random bits, of which only the hash is stored, and is new at every sign-in, which ends the former session", async () => {
    const { email } = await member()
    const one = newVisitor(server().origin)
    const first = await signIn(one, email)
    const cookie = one.cookie("session")!
    expect(first.headers.getSetCookie().find((set) => set.startsWith("session="))).toBe(
      `session=${cookie}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax`,
    )
    expect(Buffer.from(cookie.slice(-43), "base64url")).toHaveLength(32)
    const before = await sessionsOf(email)
    expect(before.map(({ hash }) => Buffer.from(hash).toString("hex"))).toContain(hashOf(cookie).toString("hex"))
    const [all] = await database.run((sql) => sql`SELECT json_agg(s)::text AS text FROM dashboard_session s`)
    expect(all!.text).not.toContain(cookie)
    await one.get("/dashboard/sign-in?again=true")
    const sent = await one.post("/dashboard/sign-in", { email })
    await one.post("/dashboard/sign-in/code", { code: codeIn((await one.get(sent.location!)).text) })
    expect(one.cookie("session")).not.toBe(cookie)
    const ended = newVisitor(server().origin, { cookie: `session=${cookie}` })
    expect((await ended.get("/dashboard/sandbox")).location).toContain("/dashboard/sign-in")
  })

  it.each(["", "x", "a".repeat(43), "a".repeat(44), "a".repeat(5_000), "%00", "' OR 1=1 --"])(
    "%j is no session",
    async (cookie) => {
      const one = newVisitor(server().origin, { cookie: `session=${cookie}` })
      expect((await one.get("/dashboard/sandbox")).location).toBe("/dashboard/sign-in?next=%2Fdashboard%2Fsandbox")
    },
  )

  it("ends with the session: signing out removes it", async () => {
    const owner = await member()
    const out = await owner.post("/dashboard/sign-out")
    expect([out.status, out.location]).toEqual([303, "/dashboard/sign-in"])
    expect(out.headers.getSetCookie()).toEqual(["session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax"])
    expect(await isIn(owner)).toBe(false)
  })
})

describe("a session", () => {
  it("ends after 12 hours without use; use prolongs it", async () => {
    const owner = await member()
    await age(owner, 11 * HOUR)
    expect(await isIn(owner)).toBe(true)
    await age(owner, 11 * HOUR)
    expect(await isIn(owner)).toBe(true)
    await age(owner, 12 * HOUR + 2)
    expect(await isIn(owner)).toBe(false)
  })

  it("is not prolonged by a page that is only open and followed", async () => {
    const owner = await member()
    await age(owner, 11 * HOUR, 0)
    const usedAt = () =>
      database.run((sql) => sql`SELECT last_used_at FROM dashboard_session WHERE hash = ${hashOf(owner.cookie)}`)
    const before = await usedAt()
    const followed = await fetch(`${server().origin}/dashboard/sandbox/machines/subscription/live`, {
      headers: { accept: "text/event-stream", cookie: `session=${owner.cookie}` },
    })
    const reader = followed.body!.getReader()
    expect(new TextDecoder().decode((await reader.read()).value)).toContain("data: ")
    await reader.cancel()
    expect(await usedAt()).toEqual(before)
  })

  it("ends 30 days after the sign-in, however much it is used", async () => {
    const owner = await member()
    await age(owner, 0, 30 * 24 * HOUR - 5)
    expect(await isIn(owner)).toBe(true)
    await age(owner, 0, 5)
    expect(await isIn(owner)).toBe(false)
  })

  it("is listed with its browser and network, and another one of the person is ended there", async () => {
    const owner = await member()
    const other = newVisitor(server().origin, { "user-agent": "Fire<b>fox", "x-forwarded-for": "203.0.113.77" })
    await signIn(other, owner.email)
    const page = await owner.get("/dashboard/me")
    expect(page.text).toContain("Fire&lt;b&gt;fox")
    expect(page.text).toContain("203.0.113.77")
    const path = [...page.text.matchAll(/action="(\/dashboard\/me\/sessions\/\w+\/end)"/g)].map(([, one]) => one!)
    expect(path).toHaveLength(2)
    const stranger = await member("support")
    for (const one of path) await stranger.post(one)
    expect([await isIn(owner), await isIn(other)]).toEqual([true, true])
    const rows = await sessionsOf(owner.email)
    const { id } = rows.find(({ hash }) => !Buffer.from(hash).equals(hashOf(owner.cookie)))!
    expect((await owner.post(`/dashboard/me/sessions/${id}/end`)).location).toBe("/dashboard/me?notice=session_ended")
    expect([await isIn(owner), await isIn(other)]).toEqual([true, false])
  })

  it("is one of at most 50 of a person: the one that was used longest ago ends", async () => {
    const owner = await member()
    await age(owner, 5)
    for (let n = 0; n < 50; n++) await newSession(owner.email)
    expect(await sessionsOf(owner.email)).toHaveLength(50)
    expect(await isIn(owner)).toBe(false)
  })

  it("ends at once when the member is removed, in every browser", async () => {
    const [owner, support] = [await member(), await member("support")]
    const second = newVisitor(server().origin, { "x-forwarded-for": "203.0.113.78" })
    await signIn(second, support.email)
    expect([await isIn(support), await isIn(second)]).toEqual([true, true])
    expect((await owner.post(`/dashboard/team/${support.id}/remove`)).location).toBe(
      "/dashboard/team?notice=member_removed",
    )
    expect([await isIn(support), await isIn(second)]).toEqual([false, false])
    const late = await support.post("/dashboard/sandbox/customers/new", { name: "Late", intent: "confirm" })
    expect(late.location).toContain("/dashboard/sign-in")
    expect(await sessionsOf(support.email)).toEqual([])
  })

  it("follows a change of role at once", async () => {
    const [owner, admin] = [await member(), await member("admin")]
    expect((await admin.get("/dashboard/team")).status).toBe(200)
    await owner.post(`/dashboard/team/${admin.id}/role`, { role: "support" })
    expect((await admin.get("/dashboard/team")).status).toBe(403)
  })
})

/** One more session of a person, as its sign-in starts it. */
const newSession = async (email: string) => {
  const { startSession } = await import("../../src/merchants/member/sessions.ts")
  return database.run(() => startSession(email, "code", { network: "127.0.0.1", browser: "test" }, undefined))
}

describe("a member of two accounts", () => {
  it("switches between them, and a form of the other account is refused", async () => {
    const other = await database.run(() => createAccount({ businessName: "Other & Sons" }))
    const email = "two@mail.example"
    const first = await member("owner", email)
    await database.run(
      (sql) => sql`
        INSERT INTO member (account_id, livemode, id, email, role, created_at, joined_at)
        VALUES (${other.account.id}, true, 'mem_two', ${email}, 'support', now(), now())`,
    )
    expect((await first.get("/dashboard/sandbox")).text).toContain(">Other &amp; Sons</option>")
    const stranger = await database.run(() => createAccount({ businessName: "Not mine" }))
    expect((await first.post("/dashboard/switch", { account: stranger.account.id })).location).toBe("/dashboard")
    expect((await first.get("/dashboard/team")).status).toBe(200)
    expect((await first.post("/dashboard/switch", { account: other.account.id })).location).toBe(
      "/dashboard?notice=switched",
    )
    // In the other account the role is another one.
    expect((await first.get("/dashboard/team")).status).toBe(403)
    // A tab that still shows the first account: its forms change nothing in this one.
    const refused = await first.post("/dashboard/sandbox/customers/new", { name: "Wrong account", intent: "confirm" })
    expect(refused.status).toBe(403)
    expect(refused.text).toContain("<h1>This form is not valid any more</h1>")
    const back = hiddenIn((await first.get("/dashboard/sandbox")).text)
    expect(back.form_token).not.toBe(first.formToken)
    expect(await createApi(server().origin, other.keys.sk_test).all("/customers")).toEqual([])
  })

  it("goes on in the second account when the first one removes them", async () => {
    const other = await database.run(() => createAccount({ businessName: "Stays" }))
    const email = "stays@mail.example"
    const [owner, here, there] = [
      await member(),
      await member("admin", email),
      await member("admin", email, other.account.id),
    ]
    await owner.post(`/dashboard/team/${here.id}/remove`)
    expect([await isIn(here), await isIn(there)]).toEqual([false, true])
  })
})

describe("a sign-in of the last 15 minutes", () => {
  it.each([
    ["/dashboard/team", { email: "new@mail.example", role: "support" }],
    ["/dashboard/live-access", {}],
    ["/dashboard/team/mem_none/role", { role: "support" }],
    ["/dashboard/team/mem_none/remove", {}],
  ])("is needed for POST %s", async (path, fields) => {
    const owner = await member()
    await age(owner, 0, 14)
    expect((await owner.post(path, fields)).location ?? "").not.toContain("again")
    const late = await member()
    await age(late, 0, 15)
    const asked = await late.post(path, fields, { referer: `${server().origin}/dashboard/team?notice=invited` })
    expect(asked.location).toBe("/dashboard/sign-in?again=true&next=%2Fdashboard%2Fteam%3Fnotice%3Dinvited")
    const elsewhere = await late.post(path, fields, { referer: "https://evil.example/dashboard/team" })
    expect(elsewhere.location).toBe("/dashboard/sign-in?again=true&next=%2Fdashboard")
    // Pages are shown, and other actions are done.
    expect((await late.get("/dashboard/team")).status).toBe(200)
    expect((await act(late, "/dashboard/sandbox/customers/new", { name: "Ada" })).status).toBe(303)
  })

  it("is needed to add a passkey", async () => {
    const owner = await member()
    await age(owner, 0, 15)
    const asked = await owner.post("/dashboard/me/passkeys/options", {}, { accept: "application/json" })
    expect([asked.status, JSON.parse(asked.text).error.code]).toEqual([401, "sign_in_required"])
  })

  it("is asked for with the address filled in", async () => {
    const { cookie, email } = await member()
    const again = await newVisitor(server().origin, { cookie: `session=${cookie}` }).get(
      "/dashboard/sign-in?again=true",
    )
    expect(again.text).toContain("<h1>Sign in again</h1>")
    expect(again.text).toContain(`value="${email}"`)
  })
})

describe("keys and sessions", () => {
  it("are not accepted in each other's place", async () => {
    const owner = await member()
    const withKey = newVisitor(server().origin, { authorization: `Bearer ${keys().sk_test}` })
    expect((await withKey.get("/dashboard/sandbox")).location).toContain("/dashboard/sign-in")
    const asCookie = newVisitor(server().origin, { cookie: `session=${keys().sk_test}` })
    expect((await asCookie.get("/dashboard/sandbox")).location).toContain("/dashboard/sign-in")
    const cookie = { cookie: `session=${owner.cookie}` }
    const anonymous = createApi(server().origin, undefined)
    expect((await anonymous.request("GET", "/customers", undefined, cookie)).status).toBe(401)
    expect((await createApi(server().origin, owner.cookie).get("/customers")).status).toBe(401)
    expect((await api.get("/customers")).status).toBe(200)
  })
})

describe("over HTTPS", () => {
  const own = useDatabase()

  it("the cookie is bound to the host, and forms come from it only", async () => {
    const origin = "https://billing.example"
    const secure = await startServer(own.url(), { PUBLIC_URL: origin, TRUST_PROXY: "true" })
    const one = newVisitor(secure.origin, { "x-forwarded-proto": "https", host: "billing.example" })
    const welcome = await signUp(one, "https@mail.example", "Secure")
    const cookie = one.cookie("__Host-session")!
    expect(welcome.headers.getSetCookie()).toEqual([
      `__Host-session=${cookie}; Path=/; Max-Age=2592000; HttpOnly; SameSite=Lax; Secure`,
    ])
    expect((await one.get("/dashboard/sandbox")).status).toBe(200)
    const plain = newVisitor(secure.origin, { "x-forwarded-proto": "https", cookie: `session=${cookie}` })
    expect((await plain.get("/dashboard/sandbox")).location).toContain("/dashboard/sign-in")
    await one.get("/dashboard/account")
    const rename = (headers: Readonly<Record<string, string>>) =>
      one.post("/dashboard/account", { business_name: "Renamed" }, headers)
    expect((await rename({ origin })).status).toBe(303)
    for (const from of ["http://billing.example", "https://evil.example", "null", secure.origin])
      expect((await rename({ origin: from })).status).toBe(403)
    await secure.stop()
  })
})
