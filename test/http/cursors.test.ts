/** Tests that cursors are positions (decision B10): a walk continues after deletions. */
import { describe, expect, it } from "vitest"
import { newId } from "../../src/base/ids.ts"
import type { Api } from "../support/api.ts"
import { useInstance } from "../support/instance.ts"
import { createCustomer, data, eventually } from "../support/story.ts"

const { api, stranger, database } = useInstance()

const idsOf = (answer: Awaited<ReturnType<Api["get"]>>): Array<string> =>
  data(answer).map(({ id }: { readonly id: string }) => id)

const clock = async () => data(await api.post("/test/clocks", { frozen_time: "2025-01-01T00:00:00Z" }), 201).id
const onClock = async (test_clock: string) => data(await api.post("/customers", { name: "Ada", test_clock }), 201).id

describe("a list with deleted objects", () => {
  it("is walked to its end from a deleted object, in both directions", async () => {
    const first = [await createCustomer(api), await createCustomer(api)]
    const deleted = await clock()
    const gone = await onClock(deleted)
    const last = [await createCustomer(api), await createCustomer(api)]
    const page = await api.get("/customers?limit=3")
    expect(idsOf(page)).toEqual([...last.toReversed(), gone])
    data(await api.delete(`/test/clocks/${deleted}`))
    await eventually(async () => ((await api.get(`/customers/${gone}`)).status === 404 ? true : undefined))
    const cursor = page.body.meta.next_cursor
    expect(cursor).toBe(gone)
    expect(idsOf(await api.get(`/customers?starting_after=${cursor}&limit=2`))).toEqual(first.toReversed())
    expect(idsOf(await api.get(`/customers?ending_before=${cursor}`))).toEqual(last.toReversed())
    expect(idsOf(await api.get(`/customers?ending_before=${cursor}&limit=1`))).toEqual([last[0]])
  })

  it("is followed after a reset, and after its events expire", async () => {
    const payer = await createCustomer(api)
    data(await api.patch(`/customers/${payer}`, { default_payment_method: "pm_test_success" }))
    data(await api.post("/charges", { customer: payer, amount: 1_000, currency: "NGN" }), 201)
    const [before] = idsOf(await api.get("/events?limit=1"))
    data(await api.post("/test/reset", { confirm: "RESET" }), 202)
    const plan = await eventually(async () => {
      const made = await api.post("/plans", { name: "Gym", amount: 1_000, currency: "NGN", billing_cycle: "monthly" })
      return made.status === 201 ? data(made, 201).id : undefined
    })
    expect(plan).toBeDefined()
    const clockId = await clock()
    const customer = await onClock(clockId)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    data(await api.post("/charges", { customer, amount: 1_000, currency: "NGN" }), 201)
    const news = idsOf(await api.get(`/events?ending_before=${before}`))
    expect(news).toEqual(idsOf(await api.get("/events")))
    expect(news.length).toBeGreaterThan(0)
    const [newest] = news
    await database.run((sql) => sql`DELETE FROM webhook_delivery WHERE event_id = ${newest!}`)
    await database.run((sql) => sql`DELETE FROM event WHERE id = ${newest!}`)
    expect(idsOf(await api.get(`/events?starting_after=${newest}`))).toEqual(news.slice(1))
  })
})

describe("a cursor", () => {
  it.each([
    "customers",
    "plans",
    "subscriptions",
    "charges",
    "nudges",
    "events",
    "webhook-endpoints",
    "checkout-sessions",
    "test/clocks",
  ])("of /%s that is not an ID of its kind is refused by its name", async (list) => {
    for (const cursor of [newId("request"), "cus_", "nonsense", `${newId("customer")}x`, "SB-0123456789"])
      for (const param of ["starting_after", "ending_before"]) {
        const refused = await api.get(`/${list}?${param}=${cursor}`)
        expect(refused, `${list} ${param} ${cursor}`).toMatchObject({
          status: 400,
          body: { error: { code: "parameter_invalid", param } },
        })
      }
  })

  it("that never existed, or belongs to another account, is a position and shows nothing", async () => {
    const mine = await createCustomer(api)
    const other = await createCustomer(stranger)
    const later = await createCustomer(api)
    expect(idsOf(await api.get(`/customers?starting_after=${other}&limit=1`))).toEqual([mine])
    expect(idsOf(await api.get(`/customers?ending_before=${other}`))).toEqual([later])
    expect(idsOf(await api.get(`/customers?ending_before=${newId("customer")}`))).toEqual([])
  })

  it("of a list in another order must exist", async () => {
    const customer = await createCustomer(api)
    data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
    const path = `/customers/${customer}/payment-methods?starting_after=`
    expect(idsOf(await api.get(`${path}pm_test_success`))).toEqual([])
    expect(await api.get(`${path}pm_test_visa`)).toMatchObject({
      status: 400,
      body: { error: { param: "starting_after" } },
    })
  })
})
