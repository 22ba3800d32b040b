/** Tests how pages describe the next step (decision F5): a pause and its end, and the date of the next charge. */
import { describe, expect, it } from "vitest"
import { checkout, heading, markup, nudge, open, overdue, pay, submit } from "../support/checkout.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, subscribe } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

const VISA = "pm_test_visa"
const NO_RETRY = { max_attempts: 0 } as const
const says = async (url: string) => {
  const shown = await open(url)
  return [heading(shown), ...[...markup(shown).matchAll(/<p>([^<]*)<\/p>/g)].map(([, text]) => text)]
}

describe("the page of a payment link", () => {
  it.each([
    ["pause_service", "paused", "Gym has been paused since 1 February 2025. Paying resumes it."],
    ["restrict_access", "past_due", "Access to Gym has been restricted since 1 February 2025. Paying restores it."],
    ["hold_delivery", "past_due", "Deliveries of Gym have been held since 1 February 2025. Paying starts them again."],
  ])(
    "after %s, says what paying ends, and then when the next charge comes",
    async (escalation_on_failure, status, sentences) => {
      const plan = { retry_logic: { ...NO_RETRY, escalation_on_failure } }
      const { id, link } = await overdue(api, "do_not_honor", { plan })
      expect(data(await api.get(`/subscriptions/${id}`)).status).toBe(status)
      expect(await says(link)).toContain(sentences)
      data(await pay(link, VISA))
      const { next_charge_at } = data(await api.get(`/subscriptions/${id}`))
      expect(next_charge_at).toMatch(/^2025-03-01T/)
      const page = await says(link)
      expect(page).toEqual([
        "Thank you: this is paid",
        "You paid Fit Lagos ₦5,000.00 on 1 February 2025 with Visa •••• 1111.",
        "The next charge for Gym comes on 1 March 2025.",
        expect.stringContaining("Nothing is left to do."),
        expect.any(String),
      ])
    },
  )

  it("does not mention a pause if nothing is paused", async () => {
    const { link } = await overdue(api)
    expect(markup(await open(link))).not.toMatch(/Paying \w+ |paused since|The next charge/)
  })

  it("says that a pause is scheduled, and when it ends; says when the next charge comes if nothing is due", async () => {
    const { id, customer, clock } = await subscribe(api, "2025-01-01T00:00:00Z", VISA, { pause_enabled: true })
    data(await api.patch(`/customers/${customer}`, { phone: "+2348031234567" }))
    const link = await nudge(api, customer, id)
    const NOTHING = "Nothing is owed for Gym."
    const SAVE = "You can save a payment method for what is to come."
    expect(await says(link)).toContain(`${NOTHING} The next charge for Gym comes on 1 February 2025. ${SAVE}`)
    data(await api.post(`/subscriptions/${id}/pause`))
    const paused = await says(link)
    expect(paused).toContain("Gym has been paused since 1 January 2025: to resume it, contact Fit Lagos.")
    expect(paused).toContain(`${NOTHING} ${SAVE}`)
    data(await api.post(`/subscriptions/${id}/resume`))
    data(await api.post(`/subscriptions/${id}/pause`, { resumes_at: "2025-01-20T00:00:00Z" }))
    const resumes = await says(link)
    expect(resumes).toContain("Gym has been paused since 1 January 2025, and resumes on 20 January 2025.")
    expect(resumes).toContain(`${NOTHING} The next charge for Gym comes on 20 January 2025. ${SAVE}`)
    await advance(api, clock, "2025-01-20T00:00:00Z")
    expect(await says(link)).toContain(`${NOTHING} The next charge for Gym comes on 20 February 2025. ${SAVE}`)
  })

  it("says how a subscription ends after its last payment", async () => {
    const { id, link } = await overdue(api)
    data(await pay(link, VISA))
    data(await api.patch(`/subscriptions/${id}`, { cancel_at_period_end: true }))
    expect(await says(link)).toContain("Gym ends on 1 March 2025, and nothing more is charged for it.")
    data(await api.post(`/subscriptions/${id}/cancel`))
    expect(await says(link)).toContain("Gym was cancelled on 1 February 2025: nothing more is charged for it.")
  })

  it("says when each subscription it paid for is charged next", async () => {
    const clock = await createClock(api, "2025-01-01T00:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock, phone: "+2348031234567" })
    for (const [name, code] of [
      ["Gym", "do_not_honor"],
      ["Pool", "limit_exceeded"],
    ]) {
      const body = { customer, plan: await createPlan(api, { name }), payment_method: `pm_test_success_then_${code}` }
      data(await api.post("/subscriptions", body), 201)
    }
    await advance(api, clock, "2025-02-01T12:00:00Z")
    const link = await nudge(api, customer)
    data(await pay(link, VISA))
    const page = await says(link)
    for (const name of ["Gym", "Pool"]) expect(page).toContain(`The next charge for ${name} comes on 1 March 2025.`)
  })
})

describe("the page of a completed checkout", () => {
  it.each([
    [{}, "The next charge for Gym comes on 28 February 2026."],
    [{ trial_days: 10 }, "The next charge for Gym comes on 10 February 2026."],
    [{ billing_cycle: "per_delivery" }, "The next charge for Gym comes with your next delivery."],
  ])("of a plan with %j says when the next charge comes", async (plan, sentence) => {
    const { url } = await checkout(api, { plan })
    data(await submit(url, { payment_method: VISA }))
    expect(await says(url)).toContain(sentence)
  })
})
