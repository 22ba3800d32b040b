import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"

const { database, server, accountId } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const PATH = "/dashboard/account/rail"

const railNow = async () =>
  (await database.run((sql) => sql<{ rail: string }>`SELECT rail FROM account WHERE id = ${accountId()}`))[0]!.rail

describe("the payment rail in the dashboard", () => {
  it("is switched with its credentials, which are never shown", async () => {
    const owner = await member()
    expect((await owner.get("/dashboard/account")).text).toContain("Live payments go by <strong>simulator</strong>")
    const early = await owner.post(PATH, { rail: "paystack" })
    expect(early.status).toBe(422)
    expect(early.text).toContain("Store the credentials of paystack first.")
    const publicKey = await owner.post(`${PATH}/paystack`, { "paystack.secret_key": "pk_live_abcdef" })
    expect(publicKey.status).toBe(400)
    expect(publicKey.text).toContain("secret_key is a public key")
    expect(publicKey.text).not.toContain("pk_live_abcdef")
    const stored = await owner.post(`${PATH}/paystack`, { "paystack.secret_key": "sk_live_abcdef" })
    expect(stored.location).toBe(`${PATH}?notice=rail_switched`)
    expect(await railNow()).toBe("paystack")
    const page = await owner.get(PATH)
    expect(page.text).toContain("Replace the credentials of Paystack")
    expect(page.text).not.toContain("sk_live_abcdef")
    const [row] = await database.run(
      (sql) => sql<{ sealed: Uint8Array }>`SELECT sealed FROM rail_credential WHERE account_id = ${accountId()}`,
    )
    expect(Buffer.from(row!.sealed).toString("latin1")).not.toContain("sk_live_abcdef")
    await owner.post(PATH, { rail: "simulator" })
    expect(await railNow()).toBe("simulator")
    const done = await database.run(
      (sql) =>
        sql<{
          action: string
        }>`SELECT action FROM activity WHERE account_id = ${accountId()} AND actor_id = ${owner.id} ORDER BY id`,
    )
    expect(done.map(({ action }) => action)).toEqual(["account.replace_credentials", "account.switch_rail"])
  })

  it("is for owners and admins with a fresh sign-in", async () => {
    const developer = await member("developer")
    expect((await developer.get(PATH)).status).toBe(403)
    expect((await developer.post(PATH, { rail: "simulator" })).status).toBe(403)
    const admin = await member("admin")
    await database.run(
      (sql) =>
        sql`UPDATE dashboard_session SET signed_in_at = now() - interval '16 minutes' WHERE email = ${admin.email}`,
    )
    expect((await admin.get(PATH)).status).toBe(200)
    expect((await admin.post(PATH, { rail: "simulator" })).location).toContain("/dashboard/sign-in?again=true")
  })

  it("has credentials that requests cannot read", async () => {
    const [may] = await database.run(
      (sql) =>
        sql<{
          may: boolean
        }>`SELECT has_column_privilege('billing_request', 'rail_credential', 'sealed', 'SELECT') AS may`,
    )
    expect(may).toEqual({ may: false })
  })
})
