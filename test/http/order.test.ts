/** Tests which error a refusal names: the first in the body (decision A5), parameters, references, states (A6). */
import { expect, it } from "vitest"
import { useOwnInstance } from "../support/instance.ts"
import { createClock, createCustomer, createPlan, data, refusal } from "../support/story.ts"

// A clock that is advanced far stays in progress.
const { api } = useOwnInstance(() => ({ WORKERS: "0" }))

const PLAN = { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" }
const URLS = { success_url: "https://shop.example/a", cancel_url: "https://shop.example/b" }
const NOWHERE = "https://10.0.0.1/hooks"
const NO_RETRIES = { retry_logic: { retry_intervals_days: [] } }

/** Two errors in each case: one that the schema detects, and one that it does not. */
const CASES: ReadonlyArray<readonly [string, object, string]> = [
  ["/webhook-endpoints", { url: "https://a:b@shop.example", enabled_events: [] }, "url"],
  ["/webhook-endpoints", { enabled_events: [], url: "https://a:b@shop.example" }, "enabled_events"],
  ["/webhook-endpoints", { enabled_events: ["nothing"], url: 5 }, "enabled_events[0]"],
  ["/webhook-endpoints", { url: `${NOWHERE}#x`, enabled_events: ["nothing"] }, "url"],
  ["/webhook-endpoints", { url: `${NOWHERE}#x` }, "url"],
  ["/checkout-sessions", { mode: "setup", plan: "plan_x", ...URLS, metadata: 1 }, "plan"],
  ["/checkout-sessions", { plan: "plan_x", mode: "setup", success_url: 7 }, "plan"],
  ["/checkout-sessions", { mode: "setup", metadata: 1, plan: "plan_x", ...URLS }, "metadata"],
  ["/checkout-sessions", { mode: "setup", ...URLS, cancel_url: "http://shop.example", typo: 1 }, "cancel_url"],
  ["/plans", { ...PLAN, ...NO_RETRIES, metadata: 1 }, "retry_logic.retry_intervals_days"],
  ["/plans", { ...PLAN, metadata: 1, ...NO_RETRIES }, "metadata"],
  ["/plans", { ...NO_RETRIES, name: "Gym" }, "retry_logic.retry_intervals_days"],
  ["/nudges", { template: "payment_due", custom_message: "Hi", channels: [] }, "custom_message"],
  ["/nudges", { channels: [], template: "payment_due", custom_message: "Hi" }, "channels"],
  ["/charges", { payment_method: "pm_test_no", amount: 1 }, "payment_method"],
  ["/charges", { customer: "cus_x", payment_method: "pm_test_no", amount: 5_000, currency: "NGN" }, "payment_method"],
  ["/subscriptions", { customer: "cus_x", plan: "plan_x", payment_method: "pm_test_no" }, "payment_method"],
  ["/subscriptions", { customer: "cus_x", payment_method: "pm_test_no" }, "payment_method"],
]

it.each(CASES)("POST %s %j: %s", async (path, body, param) => {
  expect(refusal(await api.post(path, body))).toEqual([400, "parameter_invalid", param])
})

it("missing parameters come after invalid ones", async () => {
  const needed = [
    ["/checkout-sessions", { mode: "subscription", ...URLS }, "plan"],
    ["/checkout-sessions", { mode: "subscription" }, "plan"],
    ["/checkout-sessions", { mode: "subscription", cancel_url: URLS.cancel_url }, "plan"],
    ["/checkout-sessions", { mode: "subscription", plan: "plan_x" }, "success_url"],
    ["/checkout-sessions", { plan: "plan_x" }, "mode"],
    ["/checkout-sessions", { mode: "setup" }, "success_url"],
    ["/nudges", { customer: "cus_x", template: "custom" }, "custom_message"],
    ["/nudges", { template: "custom" }, "customer"],
  ] as const
  for (const [path, body, param] of needed)
    expect(refusal(await api.post(path, body))).toEqual([400, "parameter_missing", param])
})

it("unknown objects come before a moving clock", async () => {
  const clock = await createClock(api, "2026-01-01T00:00:00Z")
  const customer = await createCustomer(api, { test_clock: clock })
  const plan = await createPlan(api)
  data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" }))
  const charge = { customer, amount: 5_000, currency: "NGN" }
  const failed = data(await api.post("/charges", { ...charge, payment_method: "pm_test_do_not_honor" }), 201).id
  const { id } = data(await api.post("/subscriptions", { customer, plan }), 201)
  data(await api.post(`/test/clocks/${clock}/advance`, { frozen_time: "2026-02-01T00:00:00Z" }), 202)
  const missing = [
    [await api.post("/charges", { ...charge, payment_method: "pm_none" }), "payment_method"],
    [await api.post("/subscriptions", { customer, plan, payment_method: "pm_none" }), "payment_method"],
    [await api.patch(`/customers/${customer}`, { default_payment_method: "pm_none" }), "default_payment_method"],
    [await api.post("/nudges", { customer, template: "payment_due", subscription: "sub_none" }), "subscription"],
    [await api.patch(`/subscriptions/${id}`, { payment_method: "pm_none" }), "payment_method"],
    [await api.post(`/charges/${failed}/retry`, { payment_method: "pm_none" }), "payment_method"],
  ] as const
  for (const [answer, param] of missing) expect(refusal(answer)).toEqual([400, "resource_missing", param])
  const gone = await api.delete(`/customers/${customer}/payment-methods/pm_none`)
  expect(refusal(gone)).toEqual([404, "resource_missing", null])
  const moving = [
    await api.delete(`/customers/${customer}/payment-methods/pm_test_visa`),
    await api.post("/charges", { ...charge, payment_method: "pm_test_visa" }),
    await api.post("/charges", charge),
    await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_verve" }),
    await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_verve" }),
    await api.post("/nudges", { customer, template: "payment_due" }),
    await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_verve" }),
    await api.post(`/charges/${failed}/retry`, { payment_method: "pm_test_verve" }),
  ]
  for (const answer of moving) expect(refusal(answer)).toEqual([422, "test_clock_advancing", null])
})
