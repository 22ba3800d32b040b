/** Tests forecasts (decision S2): a forecast lists what a test clock that is advanced brings about. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { canonical } from "../../src/base/json.ts"
import { URLS } from "../support/checkout.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, refusal } from "../support/story.ts"

const { api } = useInstance()

const START = "2025-01-31T09:00:00.000Z"
const UNTIL = "2025-07-05T09:00:00.000Z"
/** The method with which all charges after the beginning succeed, or fail. */
const methodOf = ({ plan, startsLater, assume }: Life): string => {
  if (assume === "success") return "pm_test_success"
  return plan.trial_days > 0 || startsLater ? "pm_test_insufficient_funds" : "pm_test_success_then_insufficient_funds"
}

const { constantFrom, integer, record, uniqueArray, boolean } = fc

const days = (most: number) => uniqueArray(integer({ min: 1, max: most }), { maxLength: 3 })

/** A plan, a subscription to it, and what the merchant does with it at once. */
const lives = record({
  plan: record({
    billing_cycle: constantFrom("weekly", "monthly", "quarterly"),
    amount: integer({ min: 100, max: 1_000_000 }),
    trial_days: constantFrom(0, 0, 5),
    pause_enabled: constantFrom(true),
    pro_rate: boolean(),
    retry_logic: record({
      enabled: boolean(),
      max_attempts: integer({ min: 0, max: 4 }),
      retry_intervals_days: constantFrom([1, 3, 7], [2], [1, 1, 1, 1]),
      escalation_on_failure: constantFrom("pause_service", "restrict_access", "hold_delivery", "none"),
      cancel_after_days_unpaid: constantFrom(10, 30, 60),
    }),
    reminders: record({ enabled: boolean(), pre_due_days: days(5), post_due_days: days(20) }),
  }),
  quantity: integer({ min: 1, max: 3 }),
  startsLater: boolean(),
  does: constantFrom("nothing", "nothing", "cancels at period end", "pauses until", "changes the quantity"),
  assume: constantFrom("success", "failure"),
})
type Life = Parameters<Parameters<typeof lives.filter>[0]>[0]

const begin = async (life: Life) => {
  const { plan, quantity, startsLater, does } = life
  const clock = await createClock(api, START)
  const customer = await createCustomer(api, { test_clock: clock, email: "ada@example.com" })
  const body = {
    customer,
    plan: await createPlan(api, plan),
    quantity,
    payment_method: methodOf(life),
    ...(startsLater ? { start_at: "2025-02-03T10:00:00Z" } : {}),
  }
  const made = data(await api.post("/subscriptions", body), 201)
  const path = `/subscriptions/${made.id}`
  if (does === "cancels at period end") data(await api.patch(path, { cancel_at_period_end: true }))
  if (does === "changes the quantity") data(await api.patch(path, { quantity: 5 }))
  if (does === "pauses until" && made.status === "active")
    data(await api.post(`${path}/pause`, { resumes_at: "2025-02-20T09:00:00Z" }))
  return { clock, customer, path, id: made.id as string }
}

/** Lines with their fields in one order. */
const inOrder = (lines: ReadonlyArray<object>): string => lines.map(canonical).join()

/** What the API shows of a subscription's life, as a forecast shows it. */
const lived = async (customer: string, id: string, known: ReadonlySet<string>) => {
  const fresh = async (list: string) => (await api.all(list)).filter((one) => !known.has(one.id)).reverse()
  const events = (await fresh("/events")).filter(
    ({ type, data: { object } }) =>
      !/^(nudge|checkout_session)\./.test(type) && (object.id === id || object.subscription === id),
  )
  return {
    charges: (await fresh(`/charges?customer=${customer}`)).map(
      ({ created_at, amount, attempt_number, status, lines }) =>
        `${created_at} ${amount} ${attempt_number} ${status} ${inOrder(lines)}`,
    ),
    events: events.map(({ created_at, type }) => `${created_at} ${type}`),
    nudges: (await fresh(`/nudges?customer=${customer}`)).map(
      ({ created_at, template, channel }) => `${created_at} ${template} ${channel}`,
    ),
    ...(({ status, cancellation_reason }) => ({ status, cancellation_reason }))(
      data(await api.get(`/subscriptions/${id}`)),
    ),
  }
}

// biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
const foreseen = ({ items }: any, before: { status: string; cancellation_reason: string | null }) => {
  // biome-ignore lint/suspicious/noExplicitAny: the same
  const of = (kind: string): ReadonlyArray<any> => items.filter((item: { kind: string }) => item.kind === kind)
  return {
    charges: of("charge").map(
      ({ at, amount, attempt_number, outcome, lines }) =>
        `${at} ${amount} ${attempt_number} ${outcome} ${inOrder(lines)}`,
    ),
    events: of("event").map(({ at, type }) => `${at} ${type}`),
    nudges: of("nudge").map(({ at, template, channel }) => `${at} ${template} ${channel}`),
    status: of("status").at(-1)?.to ?? before.status,
    cancellation_reason: of("cancellation").at(-1)?.reason ?? before.cancellation_reason,
  }
}

const LIVES = 40

describe("a forecast", () => {
  it("of any life is what a test clock brings about", async () => {
    const sampled = fc.sample(lives, { numRuns: LIVES, seed: 20250131 })
    const check = async (life: Life) => {
      const { clock, customer, path, id } = await begin(life)
      const before = data(await api.get(path))
      const known = new Set(
        (await Promise.all(["/events", `/charges?customer=${customer}`, `/nudges?customer=${customer}`].map(api.all)))
          .flat()
          .map((one) => one.id as string),
      )
      const answer = data(await api.get(`${path}/forecast?until=${UNTIL}&assume=${life.assume}`))
      expect([answer.object, answer.subscription, answer.from, answer.until, answer.truncated]).toEqual([
        "forecast",
        id,
        START,
        UNTIL,
        false,
      ])
      await advance(api, clock, UNTIL)
      const real = await lived(customer, id, known)
      expect(foreseen(answer, before), JSON.stringify(life)).toEqual(real)
      const paid = real.charges.filter((one) => one.includes(" succeeded ")).map((one) => Number(one.split(" ")[1]))
      expect(answer.totals).toEqual({ charges: paid.length, amount: paid.reduce((sum, amount) => sum + amount, 0) })
    }
    const left = [...sampled]
    const lane = async () => {
      for (let life = left.pop(); life !== undefined; life = left.pop()) await check(life)
    }
    await Promise.all([lane(), lane(), lane(), lane()])
  })

  it("of a subscription that waits for its checkout ends with the checkout", async () => {
    const clock = await createClock(api, START)
    const customer = await createCustomer(api, { test_clock: clock })
    const plan = await createPlan(api)
    const session = { mode: "subscription", customer, plan, expires_in_minutes: 60, ...URLS }
    data(await api.post("/checkout-sessions", session), 201)
    const [{ id }] = (await api.all(`/subscriptions?customer=${customer}`)) as [{ id: string }]
    const before = data(await api.get(`/subscriptions/${id}`))
    const known = new Set((await api.all("/events")).map((one) => one.id as string))
    const answer = data(await api.get(`/subscriptions/${id}/forecast?until=${UNTIL}`))
    await advance(api, clock, UNTIL)
    expect(foreseen(answer, before)).toEqual(await lived(customer, id, known))
    expect(answer.items.length).toBeGreaterThan(0)
  })

  it("of a plan needs no customer", async () => {
    const plan = await createPlan(api, { trial_days: 7 })
    const answer = data(await api.post("/forecasts", { plan, quantity: 2, assume: "failure" }))
    expect(answer).toMatchObject({ object: "forecast", subscription: null, assume: "failure" })
    expect(answer.totals).toEqual({ charges: 0, amount: 0 })
    expect(answer.items[0]).toMatchObject({ kind: "status", from: null, to: "trialing" })
    expect(answer.items.at(-1)).toMatchObject({ kind: "event", type: "subscription.cancelled" })
    const year = data(await api.post("/forecasts", { plan }))
    expect(year.totals).toEqual({ charges: 12, amount: 6_000_000 })
    expect((await api.all("/subscriptions")).filter((one) => one.plan === plan)).toEqual([])
  })

  it("shows at most 1,000 items", async () => {
    const plan = await createPlan(api, { billing_cycle: "daily" })
    const { items, truncated } = data(await api.post("/forecasts", { plan }))
    expect([items.length, truncated]).toEqual([1_000, true])
  })

  it("refuses what it cannot foresee", async () => {
    const plan = await createPlan(api)
    const post = (body: object) => api.post("/forecasts", { plan, ...body })
    expect((await api.post("/forecasts", { plan }, { "idempotency-key": "once" })).status).toBe(200)
    expect((await api.post("/forecasts", { plan, quantity: 2 }, { "idempotency-key": "once" })).status).toBe(200)
    for (const until of ["2020-01-01T00:00:00Z", "2199-01-01T00:00:00Z", "soon"])
      expect(refusal(await post({ until }))).toEqual([400, "parameter_invalid", "until"])
    expect(refusal(await post({ assume: "luck" }))).toEqual([400, "parameter_invalid", "assume"])
    expect(refusal(await post({ customer: "cus_1" }))).toEqual([400, "parameter_unknown", "customer"])
    expect(refusal(await post({ plan: "plan_none" }))).toEqual([400, "resource_missing", "plan"])
    expect(refusal(await api.get("/subscriptions/sub_none/forecast"))[0]).toBe(404)
    data(await api.post(`/plans/${plan}/archive`))
    expect(refusal(await post({}))).toEqual([422, "plan_archived", null])
  })
})
