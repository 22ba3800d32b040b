import { describe, expect, it } from "vitest"
import { reminderText, retryText } from "../../src/pages/dashboard/planWords.ts"

import { useInstance } from "../support/instance.ts"
import { act, signedIn } from "../support/member.ts"
import { createPlan, data } from "../support/story.ts"

const { database, server, accountId, api } = useInstance()

const member = (role: Parameters<typeof signedIn>[3] = "owner") =>
  signedIn(database, server().origin, accountId(), role)

const BASE = "/dashboard/sandbox/plans"

const FIELDS = {
  name: "Gold",
  description: "All branches",
  amount: "₦5,000.50",
  billing_cycle: "weekly",
  trial_days: "7",
  overage_per_unit: "50",
  pause_enabled: "true",
  category: "gym",
  service_config: '{"seats": 5}',
  "retry_logic.enabled": "true",
  "retry_logic.max_attempts": "2",
  "retry_logic.retry_intervals_days": "1, 5",
  "retry_logic.escalation_on_failure": "hold_delivery",
  "retry_logic.cancel_after_days_unpaid": "",
  "reminders.enabled": "true",
  "reminders.channels": ["sms", "email"],
  "reminders.pre_due_days": "3, 1",
  "reminders.post_due_days": "",
  metadata: "branch=Ikeja",
}

describe("plans in the dashboard", () => {
  it("are created with every field of the API, amounts in naira", async () => {
    const owner = await member()
    const done = await act(owner, `${BASE}/new`, FIELDS)
    const id = /plans\/(plan_\w+)\?notice=created$/.exec(done.location ?? "")?.[1]
    expect(data(await api.get(`/plans/${id}`))).toMatchObject({
      name: "Gold",
      description: "All branches",
      amount: 500_050,
      billing_cycle: "weekly",
      trial_days: 7,
      overage_per_unit: 5_000,
      pause_enabled: true,
      pro_rate: false,
      category: "gym",
      service_config: { seats: 5 },
      retry_logic: {
        enabled: true,
        max_attempts: 2,
        retry_intervals_days: [1, 5],
        escalation_on_failure: "hold_delivery",
        cancel_after_days_unpaid: null,
      },
      reminders: { enabled: true, channels: ["sms", "email"], pre_due_days: [3, 1], post_due_days: [] },
      metadata: { branch: "Ikeja" },
    })
    const page = await owner.get(`${BASE}/${id}`)
    expect(page.text).toContain("<h1>Gold</h1>")
    expect(page.text).toContain("₦5,000.50 every week")
    expect(page.text).toContain("A failed payment is tried again up to 2 times, 1 and 5 days after the try before.")
    expect((await owner.get(BASE)).text).toContain(`<a href="${BASE}/${id}">Gold</a>`)
    expect((await owner.get(`${BASE}.csv`)).text).toContain(`${id},Gold,active,5000.5,weekly,7,gym,`)
  })

  it("are changed without touching what the form did not change, archived and unarchived", async () => {
    const owner = await member()
    const id = await createPlan(api, { name: "Silver", metadata: { old: "1" } })
    const before = data(await api.get(`/plans/${id}`))
    const form = await owner.get(`${BASE}/${id}/edit`)
    expect(form.text).toContain('name="amount" type="text" value="5000.00"')
    expect(form.text).toContain("<legend>When a payment fails</legend>")
    const fields = {
      ...FIELDS,
      name: "Silver",
      description: "",
      amount: "6000",
      trial_days: "0",
      overage_per_unit: "",
      pause_enabled: "",
      pro_rate: "true",
      service_config: "{}",
      "retry_logic.max_attempts": "3",
      "retry_logic.retry_intervals_days": "1, 3, 7",
      "retry_logic.escalation_on_failure": "pause_service",
      "retry_logic.cancel_after_days_unpaid": "30",
      "reminders.channels": ["whatsapp", "sms", "email"],
      "reminders.pre_due_days": "3",
      "reminders.post_due_days": "1, 3",
      metadata: "new=2",
    }
    expect((await act(owner, `${BASE}/${id}/edit`, fields)).location).toBe(`${BASE}/${id}?notice=saved`)
    const { updated_at: _, ...after } = data(await api.get(`/plans/${id}`))
    const { updated_at: __, ...was } = before
    expect(after).toEqual({ ...was, amount: 600_000, metadata: { new: "2" } })
    await act(owner, `${BASE}/${id}/archive`)
    expect(data(await api.get(`/plans/${id}`)).status).toBe("archived")
    await act(owner, `${BASE}/${id}/unarchive`)
    expect(data(await api.get(`/plans/${id}`)).status).toBe("active")
  })

  it("shows refusals at their fields", async () => {
    const owner = await member()
    const fields = { ...FIELDS, amount: "five", service_config: "seats", attempt: "one", intent: "review" }
    const unread = await owner.post(`${BASE}/new`, fields)
    expect(unread.text).toContain("Type an amount in naira, such as 2,500.00.")
    expect(unread.text).toContain("Type an object as JSON")
    const refused = await owner.post(`${BASE}/new`, {
      ...FIELDS,
      "retry_logic.max_attempts": "9",
      attempt: "two",
      intent: "review",
    })
    expect(refused.text).toMatch(/id="field-retry_logic-max_attempts-error"/)
  })

  it("is read by all roles and changed by those who operate", async () => {
    const id = await createPlan(api)
    const finance = await member("finance")
    const page = await finance.get(`${BASE}/${id}`)
    expect(page.status).toBe(200)
    expect(page.text).not.toContain(`${BASE}/${id}/edit`)
    expect((await finance.post(`${BASE}/${id}/archive`, { intent: "confirm" })).status).toBe(403)
    const developer = await member("developer")
    expect((await developer.get("/dashboard/live/plans/new")).status).toBe(403)
    expect((await developer.get(`${BASE}/new`)).status).toBe(200)
  })
})

describe("the rules of a plan in words", () => {
  const rules = {
    enabled: true,
    max_attempts: 3,
    retry_intervals_days: [1, 3],
    escalation_on_failure: "pause_service",
    cancel_after_days_unpaid: 30,
  } as const

  it("describes retries, escalation and the end", () => {
    expect(retryText(rules)).toBe(
      "A failed payment is tried again up to 3 times, 1, 3 and 3 days after the try before. If all fail, the subscription is paused until it is paid. If it is still unpaid 30 days after the first failure, it is cancelled.",
    )
    expect(retryText({ ...rules, enabled: false, escalation_on_failure: "none", cancel_after_days_unpaid: null })).toBe(
      "A failed payment is not tried again automatically. Then nothing else happens. It is never cancelled for non-payment.",
    )
    expect(retryText({ ...rules, max_attempts: 1 })).toContain("is tried again once, 1 day after the try before.")
  })

  it("describes reminders", () => {
    const reminders = {
      enabled: true,
      channels: ["whatsapp", "sms"],
      pre_due_days: [3],
      post_due_days: [1, 3],
    } as const
    expect(reminderText(reminders)).toBe(
      "A reminder is sent 3 days before a charge, and 1 and 3 days after a failed payment, by WhatsApp or SMS: the first that reaches the customer.",
    )
    expect(reminderText({ ...reminders, enabled: false })).toBe("No reminders are sent.")
  })
})
