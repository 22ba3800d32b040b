/** Tests what each role sees and may do (decisions R2, R6, R7), and the record of activity. */
import { Cause, Effect, Exit } from "effect"
import { describe, expect, it } from "vitest"
import { customerApi } from "../../src/billing/customer/api.ts"
import { planApi } from "../../src/billing/plan/api.ts"
import { rightOf } from "../../src/http/access.ts"
import { may, RIGHTS, type Right, ROLES, type Role } from "../../src/security/role/rights.ts"
import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { database, server, accountId, api, live, keys } = useInstance()

const member = (role: Role) => signedIn(database, server().origin, accountId(), role)

/** The contract, by hand: the environments in which a role has a right. */
const CONTRACT: Readonly<Record<Right, Readonly<Partial<Record<Role, "both" | "sandbox">>>>> = {
  see: { owner: "both", admin: "both", developer: "both", finance: "both", support: "both" },
  operate: { owner: "both", admin: "both", support: "both", developer: "sandbox" },
  refund: { owner: "both", admin: "both", finance: "both" },
  develop: { owner: "both", admin: "both", developer: "both" },
  secrets: { owner: "both", admin: "both" },
  finance: { owner: "both", admin: "both", finance: "both" },
  account: { owner: "both", admin: "both" },
}

it.each(ROLES)("the rights of %s are those of the contract", (role) => {
  for (const right of Object.keys(RIGHTS) as ReadonlyArray<Right>) {
    const where = CONTRACT[right][role]
    expect([right, may(role, right, true), may(role, right, false)]).toEqual([
      right,
      where === "both",
      where !== undefined,
    ])
  }
})

/** Pages by the right that they need. More of them are one line each. */
const PAGES: ReadonlyArray<readonly [path: string, right: Right]> = [
  ["/dashboard/sandbox", "see"],
  ["/dashboard/live", "see"],
  ["/dashboard/sandbox/customers", "see"],
  ["/dashboard/live/customers", "see"],
  ["/dashboard/live/customers.csv", "see"],
  ["/dashboard/sandbox/customers/new", "operate"],
  ["/dashboard/live/customers/new", "operate"],
  ["/dashboard/account", "account"],
  ["/dashboard/team", "account"],
  ["/dashboard/activity", "account"],
  ["/dashboard/live-access", "account"],
  ["/dashboard/me", "see"],
]

describe.each(ROLES)("%s", (role) => {
  it("is shown the pages of the rights, and gets 403 from the others", async () => {
    const one = await member(role)
    for (const [path, right] of PAGES) {
      const isAllowed = may(role, right, !path.startsWith("/dashboard/sandbox"))
      const { status, text } = await one.get(path)
      expect([path, status]).toEqual([path, isAllowed ? 200 : 403])
      if (!isAllowed) expect(text).toContain("<h1>Your role does not include this</h1>")
    }
  })

  it("has links only to pages that it may see", async () => {
    const one = await member(role)
    for (const environment of ["live", "sandbox"] as const) {
      const { text } = await one.get(`/dashboard/${environment}`)
      const navigation = /<nav.*<\/nav>/s.exec(text)![0]
      for (const [path, right] of PAGES) {
        if (!new RegExp(`href="${path}"`).test(navigation)) continue
        expect([path, may(role, right, !path.startsWith("/dashboard/sandbox"))]).toEqual([path, true])
      }
      expect(navigation.includes('href="/dashboard/team"')).toBe(may(role, "account", true))
      expect(navigation.includes(`href="/dashboard/${environment}/keys"`)).toBe(may(role, "develop", true))
      expect(navigation.includes(`href="/dashboard/${environment}/books"`)).toBe(may(role, "finance", true))
    }
  })

  it.each(["live", "sandbox"] as const)("changes objects in %s as the contract says", async (environment) => {
    const one = await member(role)
    const name = `${role} in ${environment} ${Math.random()}`
    const isAllowed = may(role, "operate", environment === "live")
    const done = await act(one, `/dashboard/${environment}/customers/new`, { name })
    expect(done.status).toBe(isAllowed ? 303 : 403)
    const { all } = environment === "live" ? live : api
    const made = (await all("/customers")).filter((customer) => customer.name === name)
    expect(made).toHaveLength(isAllowed ? 1 : 0)
    // The button is shown if and only if it works.
    const list = await one.get(`/dashboard/${environment}/customers`)
    expect(list.text.includes("New customer")).toBe(isAllowed)
  })
})

describe("objects of other accounts and environments", () => {
  it("do not exist", async () => {
    const owner = await member("owner")
    const sandbox = await createCustomer(api)
    expect((await owner.get(`/dashboard/sandbox/customers/${sandbox}`)).status).toBe(200)
    const other = await owner.get(`/dashboard/live/customers/${sandbox}`)
    expect([other.status, other.text.includes("<h1>This does not exist</h1>")]).toEqual([404, true])
  })
})

describe("endpoints", () => {
  it("need the right that their declaration says", () => {
    expect([customerApi.list, customerApi.create, planApi.list].map(rightOf)).toEqual(["see", "operate", "see"])
  })
})

describe("the record of activity", () => {
  const foundOf = (object: string) =>
    database.run(
      (sql) => sql`
        SELECT actor_kind, actor_id, actor_name, action, object_kind, object_id, address IS NOT NULL AS has_address, request_id
        FROM activity WHERE object_id = ${object} ORDER BY id`,
    )
  /** What keys did is written within a second or so. */
  const rowsOf = (object: string, count: number) =>
    eventually(async () => {
      const rows = await foundOf(object)
      return rows.length === count ? rows : undefined
    })

  it("has the writes of keys, with the key, the action, the object, the address and the request", async () => {
    const made = await api.post("/customers", { name: "Ada" })
    const { id } = data(made, 201)
    const changed = await api.patch(`/customers/${id}`, { name: "Obi" })
    data(changed)
    const [key] = await database.run(
      (sql) => sql`SELECT id FROM api_key WHERE account_id = ${accountId()} AND last4 = ${keys().sk_test.slice(-4)}`,
    )
    const by = {
      actor_kind: "key",
      actor_id: key!.id,
      actor_name: keys().sk_test.slice(-4),
      object_kind: "customer",
      object_id: id,
      has_address: true,
    }
    expect(await rowsOf(id, 2)).toEqual([
      { ...by, action: "customer.create", request_id: made.headers.get("x-request-id") },
      { ...by, action: "customer.update", request_id: changed.headers.get("x-request-id") },
    ])
  })

  it("has nothing of reads, refusals, dry runs and repeated requests", async () => {
    const id = data(await api.post("/customers", { name: "Once" }, { "idempotency-key": "activity-1" }), 201).id
    await api.post("/customers", { name: "Once" }, { "idempotency-key": "activity-1" })
    await api.post("/customers", { name: "" })
    await api.post("/customers?dry_run=true", { name: "Dry" })
    await api.get(`/customers/${id}`)
    const last = data(await api.post("/customers", { name: "Last" }), 201).id
    await rowsOf(last, 1)
    const since = await database.run(
      (sql) => sql`
        SELECT object_id FROM activity WHERE account_id = ${accountId()}
          AND id >= (SELECT min(id) FROM activity WHERE object_id = ${id}) ORDER BY id`,
    )
    expect(since).toEqual([{ object_id: id }, { object_id: last }])
  })

  it("names the verb of an action", async () => {
    const plan = await createPlan(api)
    data(await api.post(`/plans/${plan}/archive`))
    expect((await rowsOf(plan, 2)).map(({ action }) => action)).toEqual(["plan.create", "plan.archive"])
  })

  it.each([
    "UPDATE activity SET action = 'nothing'",
    "DELETE FROM activity",
    "TRUNCATE activity",
    "DELETE FROM member",
    "UPDATE api_key SET hash = ''",
    "SELECT * FROM dashboard_session",
    "SELECT * FROM sign_in",
    "SELECT * FROM passkey",
  ])("the role of requests may not %s", async (statement) => {
    const exit = await database.run((sql) =>
      Effect.exit(
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT set_config('billing.account_id', ${accountId()}, true), set_config('billing.livemode', 'true', true)`
            yield* sql.unsafe("SET LOCAL ROLE billing_request").unprepared
            yield* sql.unsafe(statement).unprepared
          }),
        ),
      ),
    )
    expect(Exit.isFailure(exit) && Cause.pretty(exit.cause)).toMatch(/permission denied/)
  })
})
