/**
 * Tests two concurrent actions on the wall clock, each race many times, and checks the sums. The server serves requests
 * only. Two workers of the test fire the timers; each counts as a separate process.
 */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { chargeTimers } from "../../src/billing/payments/simulatorCharges.ts"
import { subscriptionTimers } from "../../src/billing/subscription/timers.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { type Answer, type Api, createApi } from "../support/api.ts"
import { nudge, pay } from "../support/checkout.ts"
import { holdTable } from "../support/hold.ts"
import { useOwnInstance } from "../support/instance.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { useServices } from "../support/services.ts"
import { createCustomer, createPlan, data, refusal } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const { api, database, server, accountId } = useOwnInstance(() => ({ WORKERS: "0" }))

const DAY_MS = 86_400_000
const WEEK_MS = 7 * DAY_MS
const RACES = 24

const workers = [useServices(database), useServices(database)] as const
const work = (worker: 0 | 1 = 0) => workers[worker](Effect.asVoid(sweep([chargeTimers, subscriptionTimers])))

/** Fires everything due, by two workers. `meanwhile` runs at the same time. */
const race = async <T>(meanwhile: () => Promise<T>): Promise<T> => {
  const [answer] = await Promise.all([meanwhile(), work(0), work(1)])
  await work()
  return answer
}

const pass = (ms: number) => database.run(() => rewind(accountId(), ms))

/** Subscriptions of a weekly plan that have paid for their first week. */
const subscribed = async (method: string, plan: object = {}, count = RACES): Promise<ReadonlyArray<string>> => {
  const planId = await createPlan(api, { billing_cycle: "weekly", amount: 100_000, ...plan })
  const answers = await Promise.all(
    Array.from({ length: count }, async () => {
      const customer = await createCustomer(api)
      return api.post("/subscriptions", { customer, plan: planId, payment_method: method })
    }),
  )
  const ids = answers.map((answer) => data(answer, 201).id as string)
  return ids
}

interface Outcome {
  readonly status: string
  readonly paid: number
  readonly refundable: number
  readonly attempts: number
  readonly open: number
  readonly owed: number
  readonly cash: number
  readonly refunds: number
}

/** The result of a subscription's second bill, by its charges and by the books. */
const outcome = async (id: string): Promise<Outcome> => {
  const [row] = await database.run(
    (sql) => sql<Outcome>`
      SELECT s.status,
        (SELECT count(*) FROM charge c WHERE c.subscription_id = s.id AND bill_no > 1 AND c.status = 'succeeded' AND NOT refund_due) AS paid,
        (SELECT count(*) FROM charge c WHERE c.subscription_id = s.id AND refund_due) AS refundable,
        (SELECT count(*) FROM charge c WHERE c.subscription_id = s.id AND bill_no > 1) AS attempts,
        (SELECT count(*) FROM charge c WHERE c.subscription_id = s.id AND c.status = 'pending') AS open,
        coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'receivable'), 0)::bigint AS owed,
        coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing'), 0)::bigint AS cash,
        coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'refunds_payable'), 0)::bigint AS refunds
      FROM subscription s
      LEFT JOIN ledger_entry e ON e.subscription_id = s.id
      LEFT JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE s.id = ${id} GROUP BY s.account_id, s.livemode, s.id`,
  )
  return row!
}

const eventsOf = async (id: string, type: string) =>
  (await api.all(`/events?type=${type}`)).filter(({ data: { object } }) => object.id === id).length

const refused = (answers: ReadonlyArray<Answer>) =>
  new Set(answers.filter(({ status }) => status >= 400).map((answer) => refusal(answer)[1]))

describe("a race between", () => {
  it("a manual retry and the automatic one is won by one of them", async () => {
    const ids = await subscribed("pm_test_success_then_insufficient_funds", {
      retry_logic: { max_attempts: 3, retry_intervals_days: [1, 30], escalation_on_failure: "none" },
    })
    await pass(WEEK_MS)
    await work()
    await pass(DAY_MS)
    const newest = new Map(
      await Promise.all(
        ids.map(async (id) => [id, data(await api.get(`/subscriptions/${id}`)).latest_charge] as const),
      ),
    )
    const answers = await race(() =>
      Promise.all(
        ids.flatMap((id) =>
          [1, 2].map(() => api.post(`/charges/${newest.get(id)}/retry`, { payment_method: "pm_test_visa" })),
        ),
      ),
    )
    let paid = 0
    for (const id of ids) {
      const after = await outcome(id)
      // At most one success, and the books have the money of exactly that one.
      expect(after).toMatchObject({
        status: after.paid === 1 ? "active" : "past_due",
        open: 0,
        owed: after.paid === 1 ? 0 : 100_000,
        cash: 100_000 * (1 + after.paid),
      })
      expect(after.attempts).toBe(after.paid === 1 ? (await retriesMade(id)) + 2 : 2)
      paid += after.paid
    }
    expect(answers.filter(({ status }) => status === 201)).toHaveLength(paid)
    for (const code of refused(answers)) expect(["charge_not_retryable", "charge_in_progress"]).toContain(code)
    await expectWhole(database)
  })

  it("a cancellation and a successful retry leaves the money paid or owed back, never both and never neither", async () => {
    const ids = await subscribed("pm_test_success", { retry_logic: { retry_intervals_days: [1] } })
    await Promise.all(
      ids.map((id) => api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_succeeds_on_attempt_2" })),
    )
    await pass(WEEK_MS)
    await work()
    await pass(DAY_MS)
    const answers = await race(() => Promise.all(ids.map((id) => api.post(`/subscriptions/${id}/cancel`))))
    for (const answer of answers) expect(data(answer).status).toBe("cancelled")
    for (const id of ids) {
      const after = await outcome(id)
      const collected = after.paid + after.refundable
      expect(after).toMatchObject({
        status: "cancelled",
        open: 0,
        owed: 0,
        attempts: 1 + collected,
        cash: 100_000 * (1 + collected),
        refunds: after.refundable === 0 ? 0 : -100_000,
      })
      expect(collected).toBeLessThanOrEqual(1)
    }
    await expectWhole(database)
  })

  it("a pause and the renewal at the boundary is a pause without a charge, or a renewal", async () => {
    const ids = await subscribed("pm_test_success", { pause_enabled: true })
    await pass(WEEK_MS)
    const answers = await race(() => Promise.all(ids.map((id) => api.post(`/subscriptions/${id}/pause`))))
    for (const [index, id] of ids.entries()) {
      const after = await outcome(id)
      const accepted = answers[index]!.status === 200
      // Paused before it was due, or in the week of the renewal.
      expect(after.status).toBe(accepted ? "paused" : "active")
      expect(after).toMatchObject({ open: 0, attempts: after.paid, cash: 100_000 * (1 + after.paid) })
      if (!accepted) expect(after.paid).toBe(1)
    }
    for (const code of refused(answers)) expect(code).toBe("charge_in_progress")
    await expectWhole(database)
  })

  it("a resumption and resumes_at resumes once, and charges once", async () => {
    const ids = await subscribed("pm_test_success", { pause_enabled: true, pro_rate: false })
    const resumes_at = new Date(Date.now() + DAY_MS).toISOString()
    await Promise.all(ids.map(async (id) => data(await api.post(`/subscriptions/${id}/pause`, { resumes_at }))))
    await pass(DAY_MS)
    const answers = await race(() =>
      Promise.all(ids.flatMap((id) => [1, 2].map(() => api.post(`/subscriptions/${id}/resume`)))),
    )
    for (const id of ids) {
      expect(await outcome(id)).toMatchObject({ status: "active", paid: 1, attempts: 1, open: 0, cash: 200_000 })
      expect(await eventsOf(id, "subscription.resumed")).toBe(1)
    }
    for (const code of refused(answers)) expect(["subscription_state_invalid", "charge_in_progress"]).toContain(code)
    await expectWhole(database)
  })

  it("a hundred reports of units and the renewal bills each accepted unit once", async () => {
    const ids = await subscribed("pm_test_success", { overage_per_unit: 100 }, 2)
    await pass(WEEK_MS)
    const answers = await race(() =>
      Promise.all(
        Array.from({ length: 100 }, (_, n) =>
          api.post(`/subscriptions/${ids[n % 2]}/unit-records`, { quantity: 1 + (n % 7) }),
        ),
      ),
    )
    expect(refused(answers)).toEqual(new Set())
    const reported = answers.reduce((sum, answer) => sum + (data(answer, 201).quantity as number), 0)
    // Units after the first renewal are billed with the second.
    await pass(WEEK_MS)
    await work()
    const [billed] = await database.run(
      (sql) => sql<{ units: number; left: number; renewals: number }>`
        SELECT coalesce(sum((line->>'quantity')::bigint) FILTER (WHERE line->>'type' = 'overage'), 0)::bigint AS units,
          (SELECT sum(units)::bigint FROM subscription WHERE id = ANY(${ids}::text[])) AS left,
          count(DISTINCT c.id) FILTER (WHERE bill_no > 1) AS renewals
        FROM charge c CROSS JOIN LATERAL jsonb_array_elements(c.lines) line
        WHERE c.subscription_id = ANY(${ids}::text[]) AND c.status = 'succeeded'`,
    )
    expect(billed).toEqual({ units: reported, left: 0, renewals: 4 })
    await expectWhole(database)
  })

  it("a removal of a payment method and a subscription with it leaves no subscription with a removed method", async () => {
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    for (let n = 0; n < 10; n++) {
      const customer = await createCustomer(api)
      data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" }))
      const [removed, created] = await Promise.all([
        api.delete(`/customers/${customer}/payment-methods/pm_test_visa`),
        api.post("/subscriptions", { customer, plan, payment_method: "pm_test_visa" }),
      ])
      expect(removed.status).toBe(200)
      expect(created.status).toBe(201)
      const methods = (await api.get(`/customers/${customer}/payment-methods`)).body.data.map(
        ({ id }: { id: string }) => id,
      )
      const { payment_method } = data(await api.get(`/subscriptions/${created.body.data.id}`))
      expect(methods).toEqual(payment_method === null ? [] : [payment_method])
    }
  })

  it("a subscription and its cancellation emits the creation first", async () => {
    const plan = await createPlan(api, { billing_cycle: "weekly" })
    for (let n = 0; n < 15; n++) {
      const customer = await createCustomer(api)
      let made = false
      const creating = api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }).finally(() => {
        made = true
      })
      for (let found: { id: string } | undefined; found === undefined && !made; ) {
        found = (await api.get(`/subscriptions?customer=${customer}`)).body.data[0]
        if (found !== undefined) await api.post(`/subscriptions/${found.id}/cancel`)
      }
      const { id } = data(await creating, 201)
      await api.post(`/subscriptions/${id}/cancel`)
      const types = (await api.all("/events"))
        .filter(({ data: { object } }) => object.id === id || object.subscription === id)
        .map(({ type }) => type)
        .reverse()
      expect(types.slice(0, 1)).toEqual(["subscription.created"])
      expect(types.toSorted()).toEqual(["charge.succeeded", "subscription.cancelled", "subscription.created"])
    }
    await expectWhole(database)
  })

  it("two new payment methods and a due retry pays the bill once", async () => {
    const ids = await subscribed("pm_test_success_then_do_not_honor", {
      retry_logic: { max_attempts: 3, retry_intervals_days: [1] },
    })
    await pass(WEEK_MS)
    await work()
    await pass(DAY_MS)
    const customers = new Map(
      await Promise.all(ids.map(async (id) => [id, data(await api.get(`/subscriptions/${id}`)).customer] as const)),
    )
    await race(() =>
      Promise.all(
        ids.flatMap((id) => [
          api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_visa" }),
          api.patch(`/customers/${customers.get(id)}`, { default_payment_method: "pm_test_mastercard" }),
        ]),
      ),
    )
    for (const id of ids) {
      expect(await outcome(id)).toMatchObject({ status: "active", paid: 1, open: 0, owed: 0, cash: 200_000 })
      expect(await eventsOf(id, "subscription.recovered")).toBe(1)
    }
    await expectWhole(database)
  })
})

/** The payment link of a nudge about no subscription. This server's process sends the nudge. */
const sentLink = async (of: Api, customer: string): Promise<string> => {
  const sender = await startServer(database.url())
  const link = await nudge(of, customer).finally(sender.stop)
  return new URL(new URL(link).pathname, server().origin).href
}

describe("a new default payment method", () => {
  it.each([
    ["is set", "the default from before", undefined],
    ["is set", "a method of the subscription's own", "pm_test_success_then_insufficient_funds"],
    ["a link saves", "the default from before", undefined],
  ])("that %s while a renewal by %s is being decided is tried when that fails (E25)", async (how, _, own) => {
    // A separate account: the earlier races' later timers would come due too, and be decided first.
    const { account, keys } = await database.run(() => createAccount({ businessName: "Default" }))
    const alone = createApi(server().origin, keys.sk_test, "sandbox")
    const customer = await createCustomer(alone, { phone: "+2348031234567" })
    data(await alone.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success_then_do_not_honor" }))
    const plan = await createPlan(alone, { billing_cycle: "weekly", amount: 100_000 })
    const { id } = data(await alone.post("/subscriptions", { customer, plan, payment_method: own }), 201)
    const link = how === "is set" ? undefined : await sentLink(alone, customer)
    await database.run(() => rewind(account.id, WEEK_MS))
    // It is decided with the old methods, and cannot be written yet.
    const writing = await holdTable(database, "lifecycle_journal")
    const renewing = work()
    await writing.waiters()
    const setting =
      link === undefined
        ? alone.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" })
        : pay(link, "pm_test_visa")
    await Promise.race([setting, writing.waiters(2)])
    await writing.release()
    await renewing
    data(await setting)
    expect(await outcome(id)).toMatchObject({ status: "active", attempts: 2, paid: 1, open: 0, owed: 0, cash: 200_000 })
    await expectWhole(database)
  })
})

/** The automatic retries of the second bill before it was paid or was left to its schedule. */
const retriesMade = async (id: string): Promise<number> => {
  const [row] = await database.run(
    (sql) => sql<{ n: number }>`
      SELECT count(*) AS n FROM lifecycle_journal WHERE actor_id = ${id} AND event->>'type' LIKE 'xstate.after.nextRetry%'`,
  )
  return row!.n
}
