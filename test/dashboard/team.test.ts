/** Tests the team (decision R2): invitations, owners, and what happens when several members change it at once. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import type { Role } from "../../src/security/role/rights.ts"
import { useOwnInstance } from "../support/instance.ts"
import { hiddenIn, type Member, type Shown, signedIn } from "../support/member.ts"
import { newVisitor, signIn } from "../support/visitor.ts"

const { database, server } = useOwnInstance(() => ({ TRUST_PROXY: "true", RATE_LIMIT_PUBLIC: "100000" }))

/** An account with an owner. */
const newAccount = async (businessName = "Team") => {
  const { account } = await database.run(() => createAccount({ businessName }))
  const member = (role: Role = "owner", email?: string) => signedIn(database, server().origin, account.id, role, email)
  return { id: account.id, member, owner: await member() }
}

const rolesOf = async (account: string): Promise<ReadonlyArray<string>> => {
  const rows = await database.run(
    (sql) =>
      sql<{
        role: string
      }>`SELECT role FROM member WHERE account_id = ${account} AND removed_at IS NULL AND joined_at IS NOT NULL ORDER BY role`,
  )
  return rows.map(({ role }) => role)
}

let people = 0
const someEmail = () => `guest-${people++}@mail.example`

const linkIn = ({ text }: Shown): string => /href="[^"]*(\/dashboard\/invitations\/[\w-]+)"/.exec(text)![1]!

const invite = (by: Member, email: string, role: Role) => by.post("/dashboard/team", { email, role })

const change = (by: Member, of: Member, role: Role) => by.post(`/dashboard/team/${of.id}/role`, { role })
const remove = (by: Member, of: Pick<Member, "id">) => by.post(`/dashboard/team/${of.id}/remove`)

describe("an invitation", () => {
  it("is a link, shown in development, that joins by its button, once, and proves the address", async () => {
    const { id, owner } = await newAccount("Mama <b>Chidi</b>")
    const email = someEmail()
    const invited = await invite(owner, email.toUpperCase(), "finance")
    const link = linkIn(invited)
    const guest = newVisitor(server().origin)
    for (let n = 0; n < 3; n++) {
      const { status, text } = await guest.get(link)
      expect(status).toBe(200)
      expect(text).toContain("<h1>Join Mama &lt;b&gt;Chidi&lt;/b&gt;</h1>")
    }
    expect(await rolesOf(id)).toEqual(["owner"])
    const answers = await Promise.all(Array.from({ length: 4 }, () => guest.post(link)))
    expect(answers.map(({ status }) => status).sort()).toEqual([303, 401, 401, 401])
    expect(await rolesOf(id)).toEqual(["finance", "owner"])
    expect((await newVisitor(server().origin).get(link)).status).toBe(404)
    const [row] = await database.run(
      (sql) => sql`SELECT invitation_hash, invited_until FROM member WHERE email = ${email}`,
    )
    expect(row).toEqual({ invitation_hash: null, invited_until: null })
  })

  it("is a letter, with the inviter, the role and the time", async () => {
    const { owner } = await newAccount()
    const email = someEmail()
    await invite(owner, email, "support")
    const [letter] = await database.run(
      (sql) => sql`SELECT subject, body, is_secret FROM letter WHERE recipient = ${email}`,
    )
    expect(letter).toMatchObject({ subject: "Join Team", is_secret: true })
    expect(letter!.body).toContain(`${owner.email} invites you to the account of Team, as support.`)
    expect(letter!.body).toContain("The link works once, for 7 days.")
  })

  it("is sent to one address at most five times a day, also if the member is removed in between", async () => {
    const { owner } = await newAccount()
    const email = someEmail()
    for (let n = 0; n < 5; n++) expect((await invite(owner, email, "support")).status).toBe(200)
    const [member] = await database.run((sql) => sql<{ id: string }>`SELECT id FROM member WHERE email = ${email}`)
    await owner.post(`/dashboard/team/${member!.id}/remove`)
    const refused = await invite(owner, email, "support")
    expect([refused.status, refused.text.includes("Too many invitations were sent today")]).toEqual([429, true])
    expect((await invite(owner, someEmail(), "support")).status).toBe(200)
  })

  it("ends after 7 days, and is replaced by a new one", async () => {
    const { id, owner } = await newAccount()
    const email = someEmail()
    const old = linkIn(await invite(owner, email, "support"))
    const link = linkIn(await invite(owner, email, "developer"))
    const guest = newVisitor(server().origin)
    expect((await guest.get(old)).status).toBe(404)
    const age = (days: number) =>
      database.run(
        (sql) =>
          sql`UPDATE member SET invited_until = invited_until - ${days} * interval '1 day' WHERE email = ${email}`,
      )
    await age(6)
    expect((await guest.get(link)).status).toBe(200)
    await age(1)
    expect((await guest.get(link)).status).toBe(404)
    expect((await guest.post(link)).status).toBe(401)
    expect(await rolesOf(id)).toEqual(["owner"])
  })

  it("is withdrawn by removing the member, and is no way in before the address is proved", async () => {
    const { id, owner } = await newAccount()
    const email = someEmail()
    const link = linkIn(await invite(owner, email, "support"))
    const [{ id: guestId } = { id: "" }] = await database.run(
      (sql) => sql<{ id: string }>`SELECT id FROM member WHERE email = ${email}`,
    )
    expect((await remove(owner, { id: guestId })).status).toBe(303)
    expect((await newVisitor(server().origin).get(link)).status).toBe(404)
    // Invited again: a code to the address proves it as well as the link.
    await invite(owner, email, "support")
    expect((await signIn(newVisitor(server().origin, { "x-forwarded-for": "203.0.113.5" }), email)).location).toBe(
      "/dashboard",
    )
    expect(await rolesOf(id)).toEqual(["owner", "support"])
  })

  it("says what is wrong with it at its field", async () => {
    const { owner } = await newAccount()
    const wrong = await owner.post("/dashboard/team", { email: "ngozi@", role: "king" })
    expect(wrong.status).toBe(400)
    expect(wrong.text).toContain("Type an e-mail address such as ada@example.com.")
    expect(wrong.text).toContain("Choose a role.")
    const twice = await invite(owner, owner.email, "admin")
    expect([twice.status, twice.text.includes(`${owner.email} is a member already.`)]).toEqual([400, true])
  })

  it("is one of at most 200 members", async () => {
    const { id, owner } = await newAccount()
    await database.run(
      (sql) => sql`
        INSERT INTO member (account_id, livemode, id, email, role, created_at, joined_at)
        SELECT ${id}, true, 'mem_many_' || n, 'many-' || n || '-' || repeat('x', 220) || '@mail.example', 'support', now(), now() FROM generate_series(1, 198) n`,
    )
    const answers = await Promise.all([invite(owner, someEmail(), "support"), invite(owner, someEmail(), "support")])
    expect(answers.map(({ status }) => status).sort()).toEqual([200, 422])
    const pages: Array<string> = []
    for (let next: string | undefined = "/dashboard/team"; next !== undefined; ) {
      const { text } = await owner.get(next)
      pages.push(text)
      next = /href="([^"]+)" rel="next"/.exec(text)?.[1]
    }
    expect(pages).toHaveLength(4)
    expect(Math.max(...pages.map((text) => Buffer.byteLength(text)))).toBeLessThanOrEqual(60_000)
    expect(new Set(pages.flatMap((text) => text.match(/team\/mem_\w+/g) ?? [])).size).toBe(200)
  })
})

describe("owners", () => {
  it("are added, changed and removed by owners only", async () => {
    const { id, owner, member } = await newAccount()
    const admin = await member("admin")
    for (const refused of [
      await invite(admin, someEmail(), "owner"),
      await change(admin, owner, "admin"),
      await change(admin, admin, "owner"),
      await remove(admin, owner),
    ]) {
      expect(refused.status).toBe(403)
      expect(refused.text).toContain("Only an owner may add, change or remove owners.")
    }
    expect(await rolesOf(id)).toEqual(["admin", "owner"])
    expect((await change(owner, admin, "owner")).status).toBe(303)
    expect((await change(admin, owner, "support")).status).toBe(303)
    expect(await rolesOf(id)).toEqual(["owner", "support"])
  })

  it("never run out: the last one can neither go nor become something else", async () => {
    const { id, owner, member } = await newAccount()
    // An invited owner may never come.
    await invite(owner, someEmail(), "owner")
    await member("admin")
    for (const refused of [await remove(owner, owner), await change(owner, owner, "admin")]) {
      expect(refused.status).toBe(422)
      expect(refused.text).toContain("An account needs an owner: make another member an owner first.")
    }
    expect(await rolesOf(id)).toEqual(["admin", "owner"])
  })

  it("keep one if two remove each other at once", async () => {
    for (let round = 0; round < 5; round++) {
      const { id, owner, member } = await newAccount()
      const other = await member()
      const answers = await Promise.all([remove(owner, other), remove(other, owner)])
      // The other one is refused, or signed out already.
      expect(answers.filter(({ location }) => location === "/dashboard/team?notice=member_removed")).toHaveLength(1)
      expect(await rolesOf(id)).toEqual(["owner"])
    }
  })

  it("keep one if two step down at once", async () => {
    for (let round = 0; round < 5; round++) {
      const { id, owner, member } = await newAccount()
      const other = await member()
      const answers = await Promise.all([change(owner, owner, "support"), change(other, other, "support")])
      expect(answers.map(({ status }) => status).sort()).toEqual([303, 422])
      expect(await rolesOf(id)).toEqual(["owner", "support"])
    }
  })
})

describe("the team of another account", () => {
  it("is neither seen nor changed", async () => {
    const [mine, theirs] = [await newAccount("Mine"), await newAccount("Theirs")]
    const other = await theirs.member("support")
    expect((await mine.owner.get("/dashboard/team")).text).not.toContain(other.email)
    for (const refused of [await change(mine.owner, other, "admin"), await remove(mine.owner, other)])
      expect(refused.status).toBe(404)
    for (const id of ["%00", "mem_%27", "..%2F..%2Fx", "a".repeat(3_000)])
      expect((await mine.owner.post(`/dashboard/team/${id}/remove`)).status).toBe(404)
    expect((await mine.owner.post("/dashboard/me/sessions/%00/end")).status).toBe(303)
    expect((await mine.owner.post("/dashboard/me/passkeys/%00/remove")).status).toBe(303)
    expect(await rolesOf(theirs.id)).toEqual(["owner", "support"])
  })
})

describe("the activity", () => {
  it("says who changed the team, when and from where", async () => {
    const { id, owner, member } = await newAccount()
    const support = await member("support")
    await owner.post(`/dashboard/team/${support.id}/role`, { role: "finance" }, { "x-forwarded-for": "203.0.113.8" })
    const rows = await database.run(
      (sql) =>
        sql`SELECT actor_kind, actor_id, actor_name, action, object_kind, object_id, address, request_id LIKE 'req_%' AS has_request FROM activity WHERE account_id = ${id}`,
    )
    expect(rows).toEqual([
      {
        actor_kind: "member",
        actor_id: owner.id,
        actor_name: owner.email,
        action: "member.change_role",
        object_kind: "member",
        object_id: support.id,
        address: "203.0.113.8",
        has_request: true,
      },
    ])
    const page = await owner.get("/dashboard/activity")
    expect(page.text).toContain("member.change_role")
    expect(page.text).toContain("203.0.113.8")
    // A refused change is not in it.
    expect((await remove(owner, owner)).status).toBe(422)
    expect(hiddenIn(page.text).form_token).toBe(owner.formToken)
    expect(await database.run((sql) => sql`SELECT FROM activity WHERE account_id = ${id}`)).toHaveLength(1)
  })

  it("has sign-ins, with how", async () => {
    const { id, owner } = await newAccount()
    await signIn(newVisitor(server().origin, { "x-forwarded-for": "203.0.113.6" }), owner.email)
    const rows = await database.run(
      (sql) => sql`SELECT action, actor_name, address FROM activity WHERE account_id = ${id}`,
    )
    expect(rows).toEqual([{ action: "session.code", actor_name: owner.email, address: "203.0.113.6" }])
  })
})
