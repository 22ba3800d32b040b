/** Tests `ledger why`: it traces a balance to entries, charges and the transitions that made them. */
import { expect, it } from "vitest"
import { useCommandLine } from "../support/commandLine.ts"
import { beginPlan, cancel, createProduct, pay, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createCustomer, data, subscribe } from "../support/story.ts"

const { api, database, accountId, server } = useInstance()
const { buyers } = useShop({ api, server })

const command = useCommandLine(database)
const why = async (...args: ReadonlyArray<string>) => {
  const { code, output, errors } = await command("ledger", "why", ...args, "--json")
  return { code, errors, document: output === "" ? undefined : JSON.parse(output) }
}

it("refuses a customer that the account does not have", async () => {
  const { code, errors } = await command("ledger", "why", accountId(), "receivable", "--customer", "cus_x", "--json")
  expect([code, errors.trim()]).toEqual([1, "No such customer: cus_x."])
})

it("shows a customer's debt, with the attempt and the decision that caused it", async () => {
  const retry_logic = { enabled: true, max_attempts: 1, retry_intervals_days: [3] }
  const story = await subscribe(api, "2025-03-01T00:00:00Z", "pm_test_success_then_insufficient_funds", {
    amount: 31_000,
    retry_logic,
  })
  await advance(api, story.clock, "2025-04-02T00:00:00Z")
  const { latest_charge } = data(await api.get(`/subscriptions/${story.id}`))
  const { code, document } = await why(accountId(), "receivable", "--customer", story.customer)
  expect(code).toBe(0)
  expect(document).toMatchObject({ ledger_account: "receivable", customer: story.customer, at: null, schedules: [] })
  const [environment, ...others] = document.environments
  expect(others).toEqual([])
  expect(environment).toMatchObject({
    livemode: false,
    balance_kobo: 31_000,
    balance_naira: "310.00",
    because: [
      { event: "owed", meaning: "A bill could not be collected: the customer owes it.", entries: 1, kobo: 31_000 },
    ],
  })
  const [entry] = environment.entries
  expect(entry).toMatchObject({
    event: "owed",
    effective_on: "2025-04-01",
    kobo: 31_000,
    subscription: story.id,
    bill_no: 2,
    charge: { id: latest_charge, status: "failed", amount_kobo: 31_000, failure_code: "insufficient_funds" },
  })
  const [last] = entry.transitions.slice(-1)
  expect(last).toMatchObject({
    actor: story.id,
    from: "active.charging",
    to: "overdue.retrying",
    event: "charge.failed",
  })
  expect(last.effects).toContain("post owed")
  expect(entry.transitions[0].actor).toBe(latest_charge)
})

it("shows how much deferred revenue is recognised by a day, bill by bill", async () => {
  const story = await subscribe(api, "2025-03-01T00:00:00Z", "pm_test_success", { amount: 31_000 })
  await advance(api, story.clock, "2025-04-11T00:00:00Z")
  const { document } = await why(accountId(), "deferred_revenue", "--customer", story.customer, "--at", "2025-03-10")
  expect(document.environments).toMatchObject([
    {
      balance_kobo: -21_000,
      because: [
        { event: "paid", entries: 1, kobo: -31_000 },
        // Its part in the entries of ten days.
        { event: "recognised", entries: 10, kobo: 10_000 },
      ],
    },
  ])
  expect(document.schedules).toMatchObject([
    {
      subscription: story.id,
      bill_no: 1,
      amount_kobo: 31_000,
      recognised_kobo: 10_000,
      recognised_at_once_kobo: 0,
      state: "running",
    },
  ])
  data(await api.post(`/subscriptions/${story.id}/cancel`))
  const later = await why(accountId(), "subscription_revenue", "--customer", story.customer)
  expect(later.document.environments[0].balance_kobo).toBe(-62_000)
  expect(later.document.schedules[0]).toMatchObject({ bill_no: 2, recognised_at_once_kobo: 20_667, state: "ended" })
  const nothingLeft = await why(accountId(), "deferred_revenue", "--customer", story.customer)
  expect(nothingLeft.document.environments[0].balance_kobo).toBe(0)
  // A day before the cancellation, with the state of that day.
  const before = await why(accountId(), "deferred_revenue", "--customer", story.customer, "--at", "2025-04-05")
  expect(before.document.environments[0].balance_kobo).toBe(-62_000 + 31_000 + 5_166)
  expect(before.document.schedules[0]).toMatchObject({
    bill_no: 2,
    recognised_kobo: 5_166,
    recognised_at_once_kobo: 0,
    moved_kobo: 0,
    state: "running",
  })
  expect(later.document.environments[0].entries[0].transitions.at(-1)).toMatchObject({
    event: "cancel",
    effects: expect.arrayContaining(["endService cancelled"]),
  })
})

it("shows whose deposits a shop has, with the step of the instalment plan that caused each", async () => {
  const product = await createProduct(api)
  const [kept, left] = [await beginPlan(buyers(), product), await beginPlan(buyers(), product)]
  for (const plan of [kept, kept, left]) await pay(plan)
  data(await cancel(buyers(), left))
  const { document } = await why(accountId(), "buyer_deposits")
  const [environment] = document.environments
  expect(environment).toMatchObject({ livemode: false, balance_kobo: -200_000 })
  type Entry = {
    readonly event: string
    readonly instalment_plan: string
    readonly transitions: ReadonlyArray<{ readonly actor: string; readonly version: number }>
  }
  const rows = environment.entries.map(({ event, instalment_plan, transitions }: Entry) => ({
    event,
    plan: instalment_plan,
    steps: transitions.filter(({ actor }) => actor === instalment_plan).map(({ version }) => version),
  }))
  // Version 0 is the plan's start. Each payment is started, then made.
  expect(rows).toEqual([
    { event: "deposit_cancelled", plan: left.id, steps: [4] },
    { event: "deposit_paid", plan: left.id, steps: [3] },
    { event: "deposit_paid", plan: kept.id, steps: [5] },
    { event: "deposit_paid", plan: kept.id, steps: [3] },
  ])
})

it("names the parts that it does not know", async () => {
  expect((await why("acct_none", "clearing")).errors).toContain("No such account: acct_none.")
  expect((await why(accountId(), "cash")).code).toBe(2)
  const otherCustomer = await createCustomer(api)
  expect((await why(accountId(), "receivable", "--customer", otherCustomer)).document.environments).toEqual([])
})
