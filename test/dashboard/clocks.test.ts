import { describe, expect, it } from "vitest"
import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { createPlan, data, eventually } from "../support/story.ts"

const { database, server, accountId, api } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox/clocks"

const ready = (clock: string) =>
  eventually(async () => {
    const { status, frozen_time } = data(await api.get(`/test/clocks/${clock}`))
    return status === "ready" ? (frozen_time as string) : undefined
  })

describe("test clocks in the dashboard", () => {
  it("play a subscription step by step, show what came, and follow the clock", async () => {
    const developer = await member("developer")
    const made = await act(developer, `${BASE}/new`, { name: "A year", frozen_time: "2030-01-31T10:00" })
    const clock = made.location!.split("/").at(-1)!
    expect(data(await api.get(`/test/clocks/${clock}`))).toMatchObject({
      name: "A year",
      // In Lagos it is 10:00.
      frozen_time: "2030-01-31T09:00:00.000Z",
    })
    const empty = await developer.get(`${BASE}/${clock}`)
    expect(empty.text).toContain("<h1>A year</h1>")
    expect(empty.text).toContain("Nothing in the next three months.")
    expect((await developer.post(`${BASE}/${clock}/advance`, { by: "next" })).text).toContain(
      "Nothing comes in the next",
    )

    await act(developer, `${BASE}/${clock}/customers/new`, { name: "Ada <Obi>" })
    const [customer] = data(await api.get(`/customers?test_clock=${clock}`))
    expect(customer).toMatchObject({ name: "Ada <Obi>", test_clock: clock })
    const plan = await createPlan(api)
    const subscribing = { customer: customer.id, plan, payment_method: "pm_test_success" }
    data(await api.post("/subscriptions", subscribing), 201)
    const page = await developer.get(`${BASE}/${clock}`)
    expect(page.text).toContain("Gym for Ada &lt;Obi&gt;")
    expect(page.text).toContain("a charge of ₦5,000.00 succeeds")
    expect(page.text).toContain(`hx-sse:connect="${BASE}/${clock}/live"`)

    const before = await ready(clock)
    let isRenewed = false
    for (let step = 0; step < 10 && !isRenewed; step++) {
      expect((await developer.post(`${BASE}/${clock}/advance`, { by: "next" })).location).toBe(`${BASE}/${clock}`)
      await ready(clock)
      isRenewed = (await developer.get(`${BASE}/${clock}`)).text.includes(">subscription.renewed</a>")
    }
    expect(isRenewed).toBe(true)
    expect(await ready(clock)).toBe("2030-02-28T09:00:00.000Z")
    expect(before).toBe("2030-01-31T09:00:00.000Z")

    await developer.post(`${BASE}/${clock}/advance`, { by: "day" })
    expect(await ready(clock)).toBe("2030-03-01T09:00:00.000Z")
    await developer.post(`${BASE}/${clock}/advance`, { by: "time", frozen_time: "2030-03-02T10:30" })
    expect(await ready(clock)).toBe("2030-03-02T09:30:00.000Z")
    const back = await developer.post(`${BASE}/${clock}/advance`, { by: "time", frozen_time: "2029-01-01T10:00" })
    expect(back.status).toBe(400)
    expect(back.text).toContain("The new time must be later than")
    const events = data(await api.get(`/events?test_clock=${clock}&limit=100`))
    expect(events.every(({ type }: { type: string }) => type !== "")).toBe(true)
    expect((await act(developer, `${BASE}/${clock}/delete`)).location).toBe(`${BASE}?notice=deleted`)
    expect((await developer.get(`${BASE}/${clock}`)).status).toBe(404)
    expect(data(await api.get(`/events?test_clock=${clock}`))).toEqual([])
  })

  it("are streamed as they are", async () => {
    const owner = await member()
    const made = await act(owner, `${BASE}/new`, { frozen_time: "2030-01-31T10:00" })
    const stopping = new AbortController()
    const answer = await fetch(`${server().origin}${made.location}/live`, {
      headers: { cookie: `session=${owner.cookie}`, accept: "text/event-stream" },
      signal: stopping.signal,
    })
    const { value } = await answer.body!.getReader().read()
    expect(Buffer.from(value!).toString()).toContain('data: <dl class="facts">')
    stopping.abort()
  })

  it("are of the sandbox only, and for roles with the right", async () => {
    const owner = await member()
    expect((await owner.get("/dashboard/live/clocks")).status).toBe(404)
    expect((await owner.get("/dashboard/live/clocks/new")).status).toBe(404)
    const finance = await member("finance")
    for (const path of [BASE, `${BASE}/new`]) expect((await finance.get(path)).status).toBe(403)
    const support = await member("support")
    expect((await support.post(`${BASE}/new`, { frozen_time: "2030-01-31T10:00" })).status).toBe(403)
  })
})
