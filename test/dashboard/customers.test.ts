import { describe, expect, it } from "vitest"

import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { data } from "../support/story.ts"

const { database, server, accountId, api } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

describe("customers in the dashboard", () => {
  it("are created and changed by the API's verbs, with the member in the record of activity", async () => {
    const owner = await member()
    const done = await act(owner, "/dashboard/sandbox/customers/new", {
      name: "Ada <Obi>",
      email: "ada@fit.example",
      phone: "+2348031234567",
      metadata: "branch=Ikeja",
    })
    const id = /customers\/(cus_\w+)\?notice=created$/.exec(done.location ?? "")?.[1]
    expect(done.status).toBe(303)
    expect(data(await api.get(`/customers/${id}`))).toMatchObject({
      name: "Ada <Obi>",
      email: "ada@fit.example",
      phone: "+2348031234567",
      metadata: { branch: "Ikeja" },
    })
    const page = await owner.get(`/dashboard/sandbox/customers/${id}`)
    expect(page.text).toContain("<h1>Ada &lt;Obi&gt;</h1>")
    const [row] = await database.run(
      (sql) => sql`SELECT actor_kind, actor_name, action, object_id FROM activity WHERE object_id = ${id!}`,
    )
    expect(row).toEqual({
      actor_kind: "member",
      actor_name: owner.email,
      action: "customer.create",
      object_id: id,
    })
  })

  it("shows a refusal at its field, and keeps what was typed", async () => {
    const owner = await member()
    const path = "/dashboard/sandbox/customers/new"
    const refused = await owner.post(path, { name: "Ada", phone: "08031", intent: "review", attempt: "one" })
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('value="Ada"')
    expect(refused.text).toMatch(/id="field-phone-error">.*E\.164/)
  })

  it("is not changed by a role that only sees", async () => {
    const finance = await member("finance")
    expect((await finance.get("/dashboard/sandbox/customers")).text).not.toContain("New customer")
    const refused = await finance.post("/dashboard/sandbox/customers/new", { name: "Ada", intent: "confirm" })
    expect(refused.status).toBe(403)
  })
})
