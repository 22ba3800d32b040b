/** Tests signing up and in (decisions R3, R4): codes and their limits, links, and what a stranger can learn or cause. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { createLink } from "../../src/merchants/member/signIns.ts"
import { createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { data } from "../support/story.ts"
import { askForCode, codeIn, newVisitor, signIn, signUp, type Visitor, wrongCode } from "../support/visitor.ts"

const { database, server, accountId } = useOwnInstance(() => ({ TRUST_PROXY: "true" }))

let networks = 0
/** A browser in a network of its own. */
const visitor = (network = `198.51.${Math.floor(networks / 250)}.${(networks++ % 250) + 1}`) =>
  newVisitor(server().origin, { "x-forwarded-for": network })

let people = 0
const someEmail = () => `person-${people++}@mail.example`

const known = async (): Promise<string> =>
  (await signedIn(database, server().origin, accountId(), "owner", someEmail())).email

const count = async (table: "sign_in" | "letter" | "account" | "member"): Promise<number> => {
  const [row] = await database.run((sql) => sql<{ n: number }>`SELECT count(*)::integer AS n FROM ${sql(table)}`)
  return row!.n
}

/** Moves the sign-ins of an address to earlier. */
const age = (email: string, minutes: number) =>
  database.run(
    (sql) => sql`
      UPDATE sign_in SET created_at = created_at - ${minutes} * interval '1 minute', expires_at = expires_at - ${minutes} * interval '1 minute'
      WHERE email = ${email}`,
  )

const finish = (one: Visitor, code: string) => one.post("/dashboard/sign-in/code", { code })

describe("a sign-up", () => {
  it("makes the account with its sandbox keys and its owner, and shows the keys once", async () => {
    const one = visitor()
    const email = someEmail()
    const { text } = await signUp(one, email.toUpperCase(), `Mama <b>Chidi</b> & Sons`)
    expect(text).toContain("<h1>Welcome, Mama &lt;b&gt;Chidi&lt;/b&gt; &amp; Sons</h1>")
    const key = /id="secret-key">(sk_test_\w+)</.exec(text)![1]!
    const api = createApi(server().origin, key)
    expect(data(await api.get("/account"))).toMatchObject({ business_name: "Mama <b>Chidi</b> & Sons" })
    const home = await one.get("/dashboard/sandbox")
    expect([home.status, home.text.includes("<h1>Home</h1>")]).toEqual([200, true])
    const members = await database.run(
      (sql) => sql`SELECT role, joined_at IS NOT NULL AS joined FROM member WHERE email = ${email}`,
    )
    expect(members).toEqual([{ role: "owner", joined: true }])
    // A reload of the page sends the code again: the keys are not shown again.
    await one.get("/dashboard/sign-in?again=true")
    const again = await finish(one, "000000")
    expect([again.location, again.text]).toEqual(["/dashboard/sign-in", ""])
  })

  it("refuses a form that is not complete, and keeps what was typed", async () => {
    const one = visitor()
    await one.get("/dashboard/sign-up")
    const refused = await one.post("/dashboard/sign-up", { business_name: "", email: "ada@" })
    expect(refused.status).toBe(400)
    expect(refused.text).toContain("Type the name of the business, at most 120 characters.")
    expect(refused.text).toContain("Type an e-mail address such as ada@example.com.")
    expect(refused.text).toContain('value="ada@"')
    expect(
      (await one.post("/dashboard/sign-up", { business_name: "x".repeat(121), email: "a@b.example" })).status,
    ).toBe(400)
  })

  it("makes one account if the code is sent several times at once", async () => {
    const one = visitor()
    const email = someEmail()
    const code = codeIn((await askForCode(one, email, "Twice")).text)
    const answers = await Promise.all(Array.from({ length: 6 }, () => finish(one, code)))
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(1)
    expect(await database.run((sql) => sql`SELECT role FROM member WHERE email = ${email}`)).toHaveLength(1)
  })

  it("makes one account if two browsers finish with the same address at once: the second one signs in", async () => {
    const email = someEmail()
    const [one, two] = [visitor(), visitor()]
    const codes = [
      codeIn((await askForCode(one, email, "One")).text),
      codeIn((await askForCode(two, email, "Two")).text),
    ]
    const answers = await Promise.all([finish(one, codes[0]!), finish(two, codes[1]!)])
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 303])
    expect(await database.run((sql) => sql`SELECT role FROM member WHERE email = ${email}`)).toHaveLength(1)
  })
})

describe("a code", () => {
  it("signs in once, and only in the browser that asked for it", async () => {
    const email = await known()
    const [one, other] = [visitor(), visitor()]
    const code = codeIn((await askForCode(one, email)).text)
    await other.get("/dashboard/sign-in")
    expect((await finish(other, code)).location).toBe("/dashboard/sign-in")
    await askForCode(other, email)
    expect((await finish(other, code)).status).toBe(401)
    expect((await finish(one, `${code.slice(0, 3)} ${code.slice(3)}`)).location).toBe("/dashboard")
    const session = one.cookie("session")
    // Sent again by a second click: the browser is signed in already, and nothing changes.
    await one.get("/dashboard/sign-in?again=true")
    expect((await finish(one, code)).location).toBe("/dashboard/sign-in")
    expect(one.cookie("session")).toBe(session)
  })

  it("is valid for 5 tries, also if they are sent at once", async () => {
    const email = await known()
    const one = visitor()
    const code = codeIn((await askForCode(one, email)).text)
    const wrong = await Promise.all(Array.from({ length: 12 }, () => finish(one, wrongCode(code))))
    expect(new Set(wrong.map(({ status }) => status))).toEqual(new Set([401]))
    const [row] = await database.run((sql) => sql`SELECT tries, used_at FROM sign_in WHERE email = ${email}`)
    expect(row).toEqual({ tries: 5, used_at: null })
    const late = await finish(one, code)
    expect(late.status).toBe(401)
    expect(late.text).toContain("This code is wrong, or it is not valid any more")
    expect(one.cookie("session")).toBeUndefined()
  })

  it("is right at the fifth try", async () => {
    const one = visitor()
    const code = codeIn((await askForCode(one, await known())).text)
    for (let n = 0; n < 4; n++) expect((await finish(one, wrongCode(code))).status).toBe(401)
    expect((await finish(one, code)).location).toBe("/dashboard")
  })

  it("is valid for 10 minutes", async () => {
    const email = await known()
    const [one, two] = [visitor(), visitor()]
    const codes = [codeIn((await askForCode(one, email)).text), codeIn((await askForCode(two, email)).text)]
    await age(email, 9)
    expect((await finish(one, codes[0]!)).location).toBe("/dashboard")
    await age(email, 1)
    expect((await finish(two, codes[1]!)).status).toBe(401)
  })

  it("is replaced by a newer one of the same browser", async () => {
    const email = await known()
    const one = visitor()
    const old = codeIn((await askForCode(one, email)).text)
    const code = codeIn((await askForCode(one, email)).text)
    if (old !== code) expect((await finish(one, old)).status).toBe(401)
    expect((await finish(one, code)).location).toBe("/dashboard")
  })

  it("is not stored: neither itself, nor a hash that a list of all codes finds", async () => {
    const email = await known()
    const code = codeIn((await askForCode(visitor(), email)).text)
    const [row] = await database.run(
      (sql) =>
        sql`SELECT row_to_json(s)::text AS text, encode(secret_hash, 'hex') = encode(sha256(${code}::bytea), 'hex') AS plain FROM sign_in s WHERE email = ${email}`,
    )
    expect(row!.plain).toBe(false)
    expect(row!.text).not.toContain(code)
  })
})

describe("codes are limited", () => {
  const LIMIT = "Too many codes were asked for. Try again in an hour, or sign in with a passkey."

  it("to 5 an hour for an address, also if they are asked for at once, from many networks", async () => {
    for (const email of [await known(), someEmail()]) {
      const shown = await Promise.all(Array.from({ length: 9 }, () => askForCode(visitor(), email)))
      expect(shown.map(({ status }) => status).sort()).toEqual([...Array(5).fill(200), ...Array(4).fill(429)])
      expect(shown.find(({ status }) => status === 429)!.text).toContain(LIMIT)
      await age(email, 61)
      expect((await askForCode(visitor(), email)).status).toBe(200)
    }
  })

  it("to 20 an hour for a network, also if they are asked for at once, for many addresses; other networks go on", async () => {
    const network = "203.0.113.9"
    const shown = await Promise.all(Array.from({ length: 30 }, () => askForCode(visitor(network), someEmail(), "Many")))
    expect(shown.filter(({ status }) => status === 200)).toHaveLength(20)
    const before = await count("sign_in")
    const letters = await count("letter")
    expect((await askForCode(visitor(network), someEmail(), "One more")).status).toBe(429)
    expect([await count("sign_in"), await count("letter")]).toEqual([before, letters])
    expect((await askForCode(visitor(), someEmail(), "Another")).status).toBe(200)
  })

  it("and a visit, a refused form or a thousand of both store nothing", async () => {
    const before = await count("sign_in")
    const one = visitor()
    await one.get("/dashboard/sign-up")
    for (let round = 0; round < 10; round++)
      await Promise.all(
        Array.from({ length: 20 }, (_, n) =>
          n % 2 === 0
            ? visitor("203.0.113.10").get("/dashboard/sign-in")
            : one.post("/dashboard/sign-up", { business_name: "", email: someEmail() }),
        ),
      )
    expect(await count("sign_in")).toBe(before)
  })

  it("and so are challenges of passkeys: 300 an hour for a network, one for a browser", async () => {
    const network = "203.0.113.11"
    const ask = async () => {
      const one = newVisitor(server().origin.replace("127.0.0.1", "localhost"), { "x-forwarded-for": network })
      await one.get("/dashboard/sign-in")
      const options = () => one.post("/dashboard/sign-in/passkey/options", {}, { accept: "application/json" })
      return [(await options()).status, (await options()).status]
    }
    for (let round = 0; round < 15; round++) await Promise.all(Array.from({ length: 20 }, ask))
    expect(await ask()).toEqual([429, 429])
    const [row] = await database.run(
      (sql) => sql`SELECT count(*)::integer AS n FROM sign_in WHERE network = ${network} AND purpose = 'passkey'`,
    )
    expect(row).toEqual({ n: 300 })
  })
})

describe("a stranger learns nothing", () => {
  /** A response without what differs between any two. */
  const comparable = (text: string, email: string) =>
    text
      .replaceAll(email, "EMAIL")
      .replaceAll(/name="form_token" value="[^"]+"/g, "TOKEN")
      .replace(/<section class="notice warning.*?<\/section>/s, "")
  const headersOf = (headers: Headers) =>
    [...headers].filter(
      ([name]) =>
        ![
          "date",
          "x-request-id",
          "set-cookie",
          "content-length",
          "ratelimit-remaining",
          "x-ratelimit-remaining",
        ].includes(name),
    )

  it.each([undefined, "Shop"])("about an address that is known or not (sign-up: %s)", async (businessName) => {
    const seen = []
    for (const email of [await known(), someEmail()]) {
      const one = visitor()
      const path = businessName === undefined ? "/dashboard/sign-in" : "/dashboard/sign-up"
      await one.get(path)
      const sent = await one.post(path, {
        email,
        ...(businessName === undefined ? {} : { business_name: businessName }),
      })
      const page = await one.get(sent.location!)
      const wrong = await finish(one, "000000")
      seen.push({
        sent: [sent.status, sent.location, headersOf(sent.headers).map(([name]) => name)],
        page: [page.status, comparable(page.text, email)],
        wrong: [wrong.status, comparable(wrong.text, email)],
      })
    }
    expect(seen[0]).toEqual(seen[1])
  })

  it("the letter says it", async () => {
    expect((await askForCode(visitor(), await known(), "Again")).text).toContain(
      "This address was given to sign up. It has an account already: sign in at",
    )
    expect((await askForCode(visitor(), someEmail())).text).toContain("It belongs to no account: sign up at")
  })
})

describe("the way back", () => {
  it.each([
    [
      "/dashboard/sandbox/customers?email=a%40b.example&status=",
      "/dashboard/sandbox/customers?email=a%40b.example&status=",
    ],
    ["/dashboard/sandbox/search?q=Ada+Obi", "/dashboard/sandbox/search?q=Ada+Obi"],
    ["https://evil.example/", "/dashboard"],
    ["//evil.example", "/dashboard"],
    ["/\\evil.example", "/dashboard"],
    ["/dashboard//evil.example", "/dashboard"],
    ["/dashboardx", "/dashboard"],
    ["/dashboard@evil.example", "/dashboard"],
    ["/dashboard/\r\nset-cookie: session=x", "/dashboard"],
    ["javascript:alert(1)", "/dashboard"],
    ["/dashboard/a\0b", "/dashboard"],
  ])("to %j is %s", async (next, location) => {
    const one = visitor()
    const signed = await signIn(one, await known(), next)
    expect([signed.status, signed.location]).toEqual([303, location])
    expect((await one.get(`/dashboard/sign-in?next=${encodeURIComponent(next)}`)).location).toBe(location)
  })

  it("leads to the page that was asked for, with its filters", async () => {
    const asked = await visitor().get("/dashboard/sandbox/customers?email=ada%40b.example")
    expect(asked.location).toBe(
      "/dashboard/sign-in?next=%2Fdashboard%2Fsandbox%2Fcustomers%3Femail%3Dada%2540b.example",
    )
  })
})

describe("a link", () => {
  const link = (email: string, ms = 60_000) => database.run(() => createLink(email, ms))

  it("signs in once; looking at it changes nothing", async () => {
    const token = await link(await known())
    const one = visitor()
    for (let n = 0; n < 3; n++)
      expect((await visitor().get(`/dashboard/links/${token}`)).text).toContain("This link signs you in, once.")
    await one.get(`/dashboard/links/${token}`)
    const answers = await Promise.all(Array.from({ length: 5 }, () => one.post(`/dashboard/links/${token}`)))
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 401, 401, 401, 401])
    expect(answers.find(({ status }) => status === 401)!.text).toContain("<h1>This link is not valid any more</h1>")
  })

  it("ends, is stored as a hash, and leads a person without an account to a message", async () => {
    const [ended, stranger] = [await link(await known(), -1), await link(someEmail())]
    const one = visitor()
    await one.get(`/dashboard/links/${ended}`)
    expect((await one.post(`/dashboard/links/${ended}`)).status).toBe(401)
    const refused = await one.post(`/dashboard/links/${stranger}`)
    expect([refused.status, refused.text.includes("<h1>You belong to no account</h1>")]).toEqual([403, true])
    const rows = await database.run(
      (sql) => sql`SELECT row_to_json(s)::text AS text FROM sign_in s WHERE purpose = 'link'`,
    )
    expect(rows.map(({ text }) => text).join()).not.toContain(stranger)
  })
})

it("deletes what ended a day ago", async () => {
  const { purgeSignIns } = await import("../../src/merchants/member/signIns.ts")
  await database.run((sql) => sql`UPDATE sign_in SET expires_at = expires_at - interval '25 hours'`)
  await database.run(() => Effect.repeat(purgeSignIns, { times: 3 }))
  expect(await count("sign_in")).toBe(0)
})
