/** Tests the commands for members (`cli member …`), for installations without e-mail. */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useOwnInstance } from "../support/instance.ts"
import { newVisitor } from "../support/visitor.ts"

const { database, server } = useOwnInstance()
const cli = useCommandLine(database, { PUBLIC_URL: "https://billing.example" })

const json = async (...args: ReadonlyArray<string>) => {
  const { code, output, errors } = await cli("member", ...args, "--json")
  expect([code, errors]).toEqual([0, ""])
  return JSON.parse(output)
}

/** The path of a link, which begins with PUBLIC_URL. */
const pathOf = (link: string): string => link.replace(/^https:\/\/billing\.example(?=\/dashboard\/)/, "")

const activityOf = (account: string) =>
  database.run(
    (sql) => sql`SELECT actor_kind, action, object_id FROM activity WHERE account_id = ${account} ORDER BY id`,
  )

describe("cli member", () => {
  it("invites the first owner of an account, who joins by the printed link, and lists the members", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Fit" }))
    expect(await json("list", "--account", account.id)).toEqual([])
    const made = await json("invite", "--account", account.id, "--email", "Ada@Fit.example", "--role", "owner")
    const visitor = newVisitor(server().origin)
    await visitor.get(pathOf(made.link))
    expect((await visitor.post(pathOf(made.link))).location).toBe("/dashboard?notice=welcome")
    expect(await json("list", "--account", account.id)).toMatchObject([
      { id: made.id, email: "ada@fit.example", role: "owner", invited_until: null },
    ])
    expect(await activityOf(account.id)).toEqual([
      { actor_kind: "command_line", action: "member.invite", object_id: made.id },
      { actor_kind: "member", action: "session.link", object_id: made.id },
    ])
  })

  it("prints a link that signs a member in once, for an hour", async () => {
    const email = "owner@link.example"
    const { account } = await database.run(() => createAccount({ businessName: "Link", email }))
    const { link } = await json("link", email)
    const [row] = await database.run(
      (sql) =>
        sql`SELECT extract(epoch FROM expires_at - created_at)::integer AS seconds FROM sign_in WHERE email = ${email}`,
    )
    expect(row).toEqual({ seconds: 3_600 })
    const visitor = newVisitor(server().origin)
    await visitor.get(pathOf(link))
    expect((await visitor.post(pathOf(link))).location).toBe("/dashboard?notice=welcome")
    await visitor.get(pathOf(link))
    expect((await visitor.post(pathOf(link))).status).toBe(401)
    expect((await activityOf(account.id)).map(({ action }) => action)).toEqual(["member.create_link", "session.link"])
  })

  it.each([
    [["link", "unknown@link.example"], 1, "No such member: unknown@link.example."],
    [["list", "--account", "acct_none"], 1, "No such account: acct_none."],
    [
      ["invite", "--account", "acct_none", "--email", "a@b.example", "--role", "owner"],
      1,
      "No such account: acct_none.",
    ],
    [["link", "nowhere"], 2, "an e-mail address such as owner@shop.example"],
    [["invite", "--account", "acct_none", "--email", "a@b.example", "--role", "king"], 2, "--role"],
  ] as const)("%j ends with code %i: %s", async (args, code, message) => {
    const finished = await cli("member", ...args, "--json")
    expect([finished.code, finished.output]).toEqual([code, ""])
    expect(finished.errors).toContain(message)
  })
})
