import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { createKey, MAX_KEYS } from "../../src/security/key/apiKeys.ts"
import { createApi } from "../support/api.ts"
import { useCommandLine } from "../support/commandLine.ts"
import { useInstance } from "../support/instance.ts"
import { hiddenIn, type Member, signedIn } from "../support/member.ts"
import { data, eventually, refusal } from "../support/story.ts"

const { database, server, accountId, keys, api } = useInstance()
const cli = useCommandLine(database)

const member = (role: Parameters<typeof signedIn>[3] = "owner", account = accountId()) =>
  signedIn(database, server().origin, account, role)

const SHOWN_KEY = /<code id="secret"[^>]*>([^<]+)<\/code>/

/** Fills in a form that makes a key, and returns the page that follows. */
const make = async (who: Member, path: string, fields: Readonly<Record<string, string>> = {}) => {
  const { attempt = "" } = hiddenIn((await who.get(path)).text)
  const page = await who.post(path, { ...fields, attempt })
  return { page, key: SHOWN_KEY.exec(page.text)?.[1] ?? "", attempt }
}

const keyIn = (text: string): string => /key_\w+/.exec(text)![0]

const activityOf = (id: string) =>
  database.run(
    (sql) => sql<{ action: string; actor_kind: string; actor_name: string | null; livemode: boolean }>`
      SELECT action, actor_kind, actor_name, livemode FROM activity WHERE object_id = ${id} ORDER BY id`,
  )

const NEW = "/dashboard/sandbox/keys/new"

describe("API keys in the dashboard", () => {
  it("are shown once, and a form that is sent again makes no other", async () => {
    const owner = await member()
    const { page, key, attempt } = await make(owner, `${NEW}?type=secret`)
    expect(page.status).toBe(200)
    expect(key).toMatch(/^sk_test_/)
    data(await createApi(server().origin, key).get("/account"))
    const again = await owner.post(`${NEW}?type=secret`, { attempt })
    expect(again.status).toBe(422)
    expect(again.text).toContain("This form has made its key already.")
    const list = await owner.get("/dashboard/sandbox/keys")
    expect(list.text).toContain(`sk_test_…${key.slice(-4)}`)
    expect(list.text).not.toContain(key)
    expect(await activityOf(keyIn(page.text))).toEqual([
      { action: "key.create", actor_kind: "member", actor_name: owner.email, livemode: false },
    ])
  })

  it("may do what their form allows", async () => {
    const owner = await member("developer")
    const restricted = await make(owner, `${NEW}?type=restricted`, { "scope.plans": "read", "scope.customers": "none" })
    const limited = createApi(server().origin, restricted.key)
    data(await limited.get("/plans"))
    expect(refusal(await limited.get("/customers"))[1]).toBe("insufficient_scope")
    const nothing = await owner.post(`${NEW}?type=restricted`, { "scope.plans": "none" })
    expect(nothing.status).toBe(400)
    const publishable = await make(owner, `${NEW}?type=publishable`, { origins: "https://shop.example\n" })
    expect(publishable.key).toMatch(/^pk_test_/)
    expect((await owner.get("/dashboard/sandbox/keys")).text).toContain("browsers at https://shop.example")
    const wrong = await owner.post(`${NEW}?type=publishable`, { origins: "https://*.example" })
    expect(wrong.status).toBe(400)
    expect(wrong.text).toContain("is no origin such as")
  })

  it("are rolled with a grace period, and revoked after a page that says what stops", async () => {
    const owner = await member()
    const first = await make(owner, `${NEW}?type=secret`)
    const id = keyIn(first.page.text)
    const rolled = await make(owner, `/dashboard/sandbox/keys/${id}/roll`, { grace: "1h" })
    expect(rolled.key).toMatch(/^sk_test_/)
    expect((await createApi(server().origin, first.key).get("/account")).status).toBe(200)
    expect(
      (await owner.post(`/dashboard/sandbox/keys/${id}/roll`, { grace: "1h", attempt: rolled.attempt })).status,
    ).toBe(422)
    const confirm = await owner.get(`/dashboard/sandbox/keys/${id}/revoke`)
    expect(confirm.text).toContain("Every request with this key is refused at once")
    expect((await owner.post(`/dashboard/sandbox/keys/${id}/revoke`)).location).toBe(
      "/dashboard/sandbox/keys?notice=key_revoked",
    )
    await eventually(async () =>
      (await createApi(server().origin, first.key).get("/account")).status === 401 ? true : undefined,
    )
    expect((await activityOf(id)).map(({ action }) => action)).toEqual(["key.create", "key.revoke"])
    expect((await activityOf(keyIn(rolled.page.text))).map(({ action }) => action)).toEqual(["key.roll"])
  })

  it("of another account, or of the other environment, do not exist", async () => {
    const owner = await member()
    const [other] = await database.run(
      (sql) => sql<{ id: string }>`
      SELECT id FROM api_key WHERE account_id <> ${accountId()} AND NOT livemode LIMIT 1`,
    )
    const [live] = await database.run(
      (sql) => sql<{ id: string }>`
      SELECT id FROM api_key WHERE account_id = ${accountId()} AND livemode LIMIT 1`,
    )
    for (const { id } of [other!, live!]) {
      expect((await owner.get(`/dashboard/sandbox/keys/${id}/revoke`)).status).toBe(404)
      expect((await owner.post(`/dashboard/sandbox/keys/${id}/revoke`)).status).toBe(404)
      expect((await make(owner, `/dashboard/sandbox/keys/${id}/roll`, { grace: "0" })).page.status).toBe(404)
      const [row] = await database.run((sql) => sql`SELECT revoked_at, expires_at FROM api_key WHERE id = ${id}`)
      expect(row).toEqual({ revoked_at: null, expires_at: null })
    }
  })

  it("of live: secret ones are for owners and admins, and making one needs a fresh sign-in", async () => {
    const path = "/dashboard/live/keys/new"
    const developer = await member("developer")
    expect((await make(developer, `${path}?type=secret`)).page.status).toBe(403)
    expect((await make(developer, `${path}?type=publishable`)).key).toMatch(/^pk_live_/)
    const owner = await member()
    const { key, page } = await make(owner, `${path}?type=secret`)
    expect(key).toMatch(/^sk_live_/)
    const id = keyIn(page.text)
    for (const verb of ["roll", "revoke"])
      expect((await developer.post(`/dashboard/live/keys/${id}/${verb}`, { grace: "0" })).status).toBe(403)
    await database.run(
      (sql) =>
        sql`UPDATE dashboard_session SET signed_in_at = now() - interval '16 minutes' WHERE email = ${owner.email}`,
    )
    const { page: stale } = await make(owner, `${path}?type=secret`)
    expect(stale.location).toContain("/dashboard/sign-in?again=true")
    expect((await make(owner, `${NEW}?type=secret`)).key).toMatch(/^sk_test_/)
  })

  it("of live are made only while live access is approved, and the page says how to get it", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Not live" }))
    const owner = await member("owner", account.id)
    const list = await owner.get("/dashboard/live/keys")
    expect(list.text).toContain("Live keys are made once live access is approved.")
    const { page } = await make(owner, "/dashboard/live/keys/new?type=secret")
    expect(page.status).toBe(403)
    expect(page.text).toContain("live keys need it approved")
  })

  it("are at most 100 that work", async () => {
    const { account: made } = await database.run(() => createAccount({ businessName: "Many keys" }))
    const account = made.id
    for (let count = 0; count < MAX_KEYS; count++)
      await database.run(() => createKey({ account_id: account, livemode: false }, "publishable"))
    const { page } = await make(await member("owner", account), `${NEW}?type=secret`)
    expect(page.status).toBe(422)
    expect(page.text).toContain("There are 100 keys already: revoke one first.")
    // A leaked key can be replaced at once.
    const owner = await member("owner", account)
    const [secret] = await database.run(
      (sql) => sql<{ id: string }>`
        SELECT id FROM api_key WHERE account_id = ${account} AND type = 'secret' AND NOT livemode LIMIT 1`,
    )
    const roll = `/dashboard/sandbox/keys/${secret!.id}/roll`
    expect((await make(owner, roll, { grace: "1h" })).page.status).toBe(422)
    expect((await make(owner, roll, { grace: "0" })).key).toMatch(/^sk_test_/)
  })

  it("are seen by no role without the right", async () => {
    const support = await member("support")
    expect((await support.get("/dashboard/sandbox/keys")).status).toBe(403)
    expect((await support.get("/dashboard/sandbox")).text).not.toContain("/dashboard/sandbox/keys")
    expect((await support.post(`${NEW}?type=secret`)).status).toBe(403)
  })
})

describe("commands that change an account", () => {
  it("are recorded in its activity", async () => {
    const made = JSON.parse(
      (await cli("key", "create", "--account", accountId(), "--mode", "test", "--type", "secret", "--json")).output,
    )
    const rolled = JSON.parse((await cli("key", "roll", made.id, "--grace", "1h", "--json")).output)
    await cli("key", "revoke", made.id)
    const commands = async (id: string) => (await activityOf(id)).map(({ action, actor_kind }) => [actor_kind, action])
    expect(await commands(made.id)).toEqual([
      ["command_line", "key.create"],
      ["command_line", "key.revoke"],
    ])
    expect(await commands(rolled.id)).toEqual([["command_line", "key.roll"]])
    await cli("account", "set-plan", accountId(), "growth")
    await cli("account", "live-access", accountId(), "suspend")
    await cli("account", "live-access", accountId(), "reinstate")
    await cli("account", "rail", accountId(), "simulator")
    await cli("vertical", "set", accountId(), "laundry", "--reason", "They wash clothes")
    const ofAccount = (await commands(accountId())).map(([, action]) => action)
    expect(ofAccount).toEqual([
      "account.set_plan",
      "account.suspend_live_access",
      "account.reinstate_live_access",
      "account.switch_rail",
      "account.set_vertical",
    ])
    expect(keys().sk_test).toMatch(/^sk_test_/)
    data(await api.get("/account"))
  })
})
