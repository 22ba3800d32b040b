import { describe, expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { act, hiddenIn, signedIn } from "../support/member.ts"
import { useReceiver } from "../support/receiver.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { database, server, accountId, api } = useOwnInstance(() => ({ ALLOW_LOOPBACK_WEBHOOKS: "true" }))
const receiver = useReceiver()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox"

const endpointAt = async (path: string, events: ReadonlyArray<string> = ["charge.*"]): Promise<string> =>
  data(await api.post("/webhook-endpoints", { url: receiver.url(path), enabled_events: events }), 201).id

const actions = (id: string) =>
  database.run(
    (sql) => sql<{ who: string; action: string }>`
      SELECT actor_kind AS who, action FROM activity WHERE object_id = ${id} ORDER BY id`,
  )

describe("webhook endpoints in the dashboard", () => {
  it("are created with a secret that is shown once; the same form makes no other", async () => {
    const developer = await member("developer")
    const { attempt } = hiddenIn((await developer.get(`${BASE}/webhooks/new`)).text)
    const fields = { url: receiver.url("/new"), enabled_events: "charge.*\nsubscription.created", attempt: attempt! }
    const made = await developer.post(`${BASE}/webhooks/new`, fields)
    expect(made.text).toMatch(/<code id="secret"[^>]*>whsec_/)
    const id = /\/webhooks\/(we_\w+)/.exec(made.text)![1]!
    expect(data(await api.get(`/webhook-endpoints/${id}`))).toMatchObject({
      url: receiver.url("/new"),
      enabled_events: ["charge.*", "subscription.created"],
    })
    const again = await developer.post(`${BASE}/webhooks/new`, fields)
    expect(again.text).toContain(id)
    const listed = await api.all("/webhook-endpoints")
    expect(listed.filter(({ url }) => url === receiver.url("/new"))).toHaveLength(1)
    const page = await developer.get(`${BASE}/webhooks/${id}`)
    expect(page.text).not.toContain("whsec_")
    expect(page.text).toContain("<h1>Webhook endpoint</h1>")
    expect((await developer.get(`${BASE}/webhooks`)).text).toContain(receiver.url("/new"))
  })

  it("show a wrong pattern at its field", async () => {
    const owner = await member()
    const refused = await owner.post(`${BASE}/webhooks/new`, {
      url: receiver.url("/wrong"),
      enabled_events: "Charges",
      attempt: "a",
    })
    expect(refused.status).toBe(400)
    expect(refused.text).toContain('id="field-enabled_events-error"')
  })

  it("are tested with the outcome, disabled, enabled, changed and deleted", async () => {
    const owner = await member()
    const id = await endpointAt("/tested")
    receiver.answer("/tested", (_, response) => void response.writeHead(418).end("tea"))
    const tested = await act(owner, `${BASE}/webhooks/${id}/test`)
    expect(tested.text).toContain("Your server did not accept the event")
    expect(tested.text).toContain("418")
    expect(receiver.at("/tested")).toHaveLength(1)
    await act(owner, `${BASE}/webhooks/${id}/disable`)
    expect(data(await api.get(`/webhook-endpoints/${id}`)).status).toBe("disabled")
    expect((await owner.get(`${BASE}/webhooks/${id}`)).text).toContain("nothing is sent to it")
    await act(owner, `${BASE}/webhooks/${id}/enable`)
    await act(owner, `${BASE}/webhooks/${id}/edit`, { url: receiver.url("/tested"), enabled_events: "*" })
    expect(data(await api.get(`/webhook-endpoints/${id}`))).toMatchObject({ status: "enabled", enabled_events: ["*"] })
    const rolled = await act(owner, `${BASE}/webhooks/${id}/roll-secret`)
    expect(rolled.text).toMatch(/<code id="secret"[^>]*>whsec_/)
    expect((await act(owner, `${BASE}/webhooks/${id}/delete`)).location).toBe(`${BASE}/webhooks?notice=deleted`)
    expect((await api.get(`/webhook-endpoints/${id}`)).status).toBe(404)
  })

  it("that the service disables are recorded in the activity", async () => {
    const owner = await member()
    const id = await endpointAt("/gone")
    receiver.answer("/gone", (_, response) => void response.writeHead(410).end())
    await act(owner, `${BASE}/webhooks/${id}/test`)
    await eventually(async () =>
      data(await api.get(`/webhook-endpoints/${id}`)).status === "disabled" ? true : undefined,
    )
    expect((await actions(id)).at(-1)).toEqual({ who: "system", action: "webhook_endpoint.disable" })
    expect((await owner.get(`${BASE}/webhooks/${id}`)).text).toContain("It answered 410 Gone")
  })

  it("are for roles with the right only", async () => {
    const support = await member("support")
    for (const path of ["/webhooks", "/webhooks/new", "/events", "/reset"])
      expect((await support.get(`${BASE}${path}`)).status, path).toBe(403)
  })
})

describe("events in the dashboard", () => {
  it("are listed by type, shown as they were sent with their deliveries, and sent again", async () => {
    const owner = await member()
    const endpoint = await endpointAt("/events", ["shop.opened"])
    const triggered = await act(owner, `${BASE}/events/trigger`, {
      type: "shop.opened",
      overrides: '{"note": "<b>bold</b>"}',
    })
    const id = /events\/(evt_\w+)\?notice=triggered/.exec(triggered.location ?? "")![1]!
    await eventually(async () => (receiver.at("/events").length === 1 ? true : undefined))
    const sent = receiver.at("/events")[0]!
    const page = await eventually(async () => {
      const { text } = await owner.get(`${BASE}/events/${id}`)
      return text.includes("succeeded") ? text : undefined
    })
    expect(page).toContain("&lt;b&gt;bold&lt;/b&gt;")
    expect(page).toContain(receiver.url("/events"))
    const json = await owner.get(`${BASE}/events/${id}/json`)
    expect(JSON.parse(json.text)).toEqual(JSON.parse(sent.body))
    expect(json.headers.get("content-disposition")).toContain("attachment")
    expect((await act(owner, `${BASE}/events/${id}/resend`, { webhook_endpoint: endpoint })).location).toBe(
      `${BASE}/events/${id}?notice=resent`,
    )
    await eventually(async () => (receiver.at("/events").length === 2 ? true : undefined))
    const list = await owner.get(`${BASE}/events?type=shop.opened`)
    expect(list.text).toContain(id)
    expect(list.text).not.toContain("customer.created")
    const later = await owner.get(`${BASE}/events?created_after=2099-01-01T09:00`)
    expect(later.text).toContain("Nothing matches")
  })

  it("fit into a page however large they are", async () => {
    const owner = await member()
    const large = { type: "shop.large", overrides: { list: Array.from({ length: 3_000 }, () => '"') } }
    const { id } = data(await api.post("/test/events/trigger", large), 201)
    const page = await owner.get(`${BASE}/events/${id}`)
    expect(Buffer.byteLength(page.text)).toBeLessThan(60_000)
    expect(page.text).toContain("All of it, as a file")
  })

  it("are triggered, and the sandbox reset, in the sandbox only", async () => {
    const owner = await member()
    expect((await owner.get("/dashboard/live/events/trigger")).status).toBe(404)
    expect((await owner.get("/dashboard/live/reset")).status).toBe(404)
    await createCustomer(api)
    expect((await act(owner, `${BASE}/reset`, { confirm: "reset" })).status).toBe(400)
    expect((await act(owner, `${BASE}/reset`, { confirm: "RESET" })).location).toBe(`${BASE}?notice=resetting`)
    await eventually(async () => {
      const { status, body } = await api.get("/customers")
      return status === 200 && body.data.length === 0 ? true : undefined
    })
  })
})
