/**
 * Tests buyers, merchants and clocks that act at the same time on one session or link. One payment is made, and every
 * other caller learns what was paid or is pending. Each race runs several times.
 */
import { describe, expect, it } from "vitest"
import type { Answer } from "../support/api.ts"
import {
  ADA,
  type Checkout,
  checkout,
  comeBack,
  createSession,
  declined,
  hidden,
  moneyOf,
  nudge,
  open,
  pay,
  START,
  submit,
  submitForm,
  tally,
} from "../support/checkout.ts"
import { holdTable, lockUntilReleased } from "../support/hold.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, refusal, timeline } from "../support/story.ts"
import { expectWhole } from "../support/whole.ts"

const { api, database } = useOwnInstance()

const PRICE = 500_000
const times = <T>(count: number, make: (n: number) => Promise<T>): Promise<ReadonlyArray<T>> =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)))

/** Starts an action a few requests later, so that the faster caller does not win every time. */
const later = async <T>(requests: number, then: () => Promise<T>): Promise<T> => {
  for (let n = 0; n < requests; n++) await api.get("/account")
  return then()
}

const sessionOf = async (id: string) => data(await api.get(`/checkout-sessions/${id}`))
const subscriptionOf = async (id: string) => data(await api.get(`/subscriptions/${id}`))
const completed = (answers: ReadonlyArray<Answer>) => answers.filter(({ status }) => status === 200)
const refused = (answers: ReadonlyArray<Answer>) => answers.filter(({ status }) => status >= 400)
const eventsOf = async (ids: ReadonlyArray<string>, type: string) =>
  (await timeline(api, ids)).filter((line) => line.includes(` ${type} `)).length

/** Expects one payment for all of these subscriptions, in all books. */
const expectPaidOnce = async (subscriptions: ReadonlyArray<string>, over: object = {}) =>
  expect(await moneyOf(database, subscriptions)).toMatchObject({
    paid: 1,
    refundable: 0,
    pending: 0,
    taken: 1,
    sent: 1,
    cash: PRICE,
    owed: 0,
    refunds: 0,
    ...over,
  })

const expectUnpaid = async (subscriptions: ReadonlyArray<string>) =>
  expect(await moneyOf(database, subscriptions)).toMatchObject({
    paid: 0,
    refundable: 0,
    pending: 0,
    taken: 0,
    cash: 0,
  })

/** Expects a loser to get one of these codes. A loser to a payment gets the code of a payment. */
const expectCodes = (answers: ReadonlyArray<Answer>, codes: ReadonlyArray<string>, says?: RegExp) => {
  tally(answers)
  for (const answer of refused(answers)) {
    expect(codes).toContain(refusal(answer)[1])
    if (says !== undefined && answer.body.error.code !== "card_declined")
      expect(answer.body.error.message).toMatch(says)
  }
}

const PAID = /₦5,000\.00 was paid at \S+ with the card ending \d{4} \(chg_\w+\)/

/** Subscriptions on one clock whose second payment was declined, each with its own link. */
const overdues = async (
  count: number,
  { plan = {}, code = "insufficient_funds", until = "2025-02-01T12:00:00Z" } = {},
) => {
  const clock = await createClock(api, "2025-01-01T00:00:00Z")
  const planId = await createPlan(api, plan)
  const made = await times(count, async () => {
    const customer = await createCustomer(api, { test_clock: clock, phone: "+2348031234567" })
    const body = { customer, plan: planId, payment_method: `pm_test_success_then_${code}` }
    return { customer, id: data(await api.post("/subscriptions", body), 201).id as string }
  })
  await advance(api, clock, until)
  const all = await Promise.all(
    made.map(async ({ customer, id }) => ({ customer, id, link: await nudge(api, customer, id) })),
  )
  return { clock, all }
}

/** The amounts paid beside the first period. Expects one payment. */
const expectRecoveredOnce = async (id: string) => {
  expect(await moneyOf(database, [id])).toMatchObject({
    paid: 2,
    refundable: 0,
    pending: 0,
    taken: 2,
    sent: 1,
    cash: 2 * PRICE,
    owed: 0,
    refunds: 0,
  })
  expect((await subscriptionOf(id)).status).toBe("active")
  expect(await eventsOf([id], "subscription.recovered")).toBe(1)
}

/**
 * Methods whose attempts the simulator counts. While one waits it uses its own connection; others use the shared ones.
 * The first method succeeds on first use. The overdue subscriptions have already used the second.
 */
const AT_RAIL = "pm_test_success_then_lost_card"
const DECLINED_AT_RAIL = "pm_test_success_then_insufficient_funds"

/** Runs `then` while the payment of `first` is at the rail, which answers after it. */
const meanwhile = async <A, B>(first: () => Promise<A>, then: () => Promise<B>): Promise<readonly [A, B]> => {
  const locked = await holdTable(database, "simulator_attempt")
  const paying = first()
  await locked.waiters()
  const done = await then().finally(locked.release)
  return [await paying, done]
}

/**
 * Sends a request while another payment is at the rail. Returns after the first check of the amounts due; the request
 * may still wait.
 */
const looked = async <A>(customer: string, ask: () => Promise<A>): Promise<readonly [Promise<A>]> => {
  const locked = await lockUntilReleased(
    database,
    (sql) => sql`SELECT 1 FROM customer WHERE id = ${customer} FOR UPDATE`,
  )
  const asked = ask()
  const waited = await locked.waiters(2)
  await locked.release()
  await locked.waitUntilLeft(waited, 1)
  return [asked]
}

describe("one session", () => {
  it("that 20 buyers submit at the same time with a card is paid by one of them", async () => {
    for (let round = 0; round < 3; round++) {
      const { id, url, subscription } = await checkout(api)
      const answers = await times(20, () => pay(url, "pm_test_success"))
      expect(tally(answers)).toEqual({ completed: 1, checkout_session_not_open: 19 })
      expectCodes(answers, ["checkout_session_not_open"], PAID)
      await expectPaidOnce([subscription], { failed: 0 })
      expect(await eventsOf([id, subscription], "checkout_session.completed")).toBe(1)
    }
    await expectWhole(database)
  })

  it("that 20 buyers submit at the same time, half with declined cards, is paid once, and each gets its own card's result", async () => {
    for (let round = 0; round < 4; round++) {
      const { url, subscription } = await checkout(api)
      // Buyers with declined cards come first, so that some of them are tried.
      const cards = ["pm_test_do_not_honor", "pm_test_expired_card", "pm_test_success", "pm_test_visa"]
      const methods = Array.from({ length: 20 }, (_, n) => cards[2 * Math.floor(n / 10) + (n % 2)]!)
      const answers = await Promise.all(methods.map((method) => pay(url, method)))
      const { completed = 0, card_declined = 0, ...others } = tally(answers)
      expect([completed, Object.keys(others)]).toEqual([1, ["checkout_session_not_open"]])
      // Only tried cards were declined, and only good cards pay.
      expect(methods[answers.findIndex(({ status }) => status === 200)]).toMatch(/success|visa/)
      for (const [n, answer] of answers.entries())
        if (answer.status === 402) expect(`pm_test_${answer.body.error.failure_code}`).toBe(methods[n])
      await expectPaidOnce([subscription], { failed: card_declined })
    }
    await expectWhole(database)
  })

  it("that is sent ten times with one number is paid once, and all ten get the same answer", async () => {
    for (let round = 0; round < 3; round++) {
      const { id, url, subscription } = await checkout(api)
      const submission = hidden(await open(url), "submission")
      const answers = await times(10, () => pay(url, "pm_test_success", { submission, amount: PRICE }))
      for (const answer of answers)
        expect(data(answer)).toEqual({
          status: "completed",
          redirect_url: `https://shop.example/welcome?session_id=${id}`,
        })
      await expectPaidOnce([subscription], { failed: 0 })
    }
    await expectWhole(database)
  })

  it("that is sent ten times with one number and a declined card is tried once", async () => {
    const { url, subscription } = await checkout(api)
    const answers = await times(10, () => pay(url, "pm_test_do_not_honor", { submission: "one form" }))
    expect(tally(answers)).toEqual({ card_declined: 10 })
    expect(await moneyOf(database, [subscription])).toMatchObject({ paid: 0, failed: 1, pending: 0, taken: 0 })
    expect(data(await pay(url, "pm_test_success", { submission: "another form" })).status).toBe("completed")
    await expectPaidOnce([subscription], { failed: 1 })
    await expectWhole(database)
  })

  it("without a customer that ten buyers submit at the same time makes one customer and one subscription", async () => {
    const plan = await createPlan(api)
    for (let round = 0; round < 3; round++) {
      const { id, url } = await createSession(api, { plan })
      const email = (n: number) => `buyer${n}.of.${id}@example.com`
      const answers = await times(10, (n) => pay(url, "pm_test_success", { name: `Buyer ${n}`, email: email(n) }))
      expect(tally(answers)).toEqual({ completed: 1, checkout_session_not_open: 9 })
      expectCodes(answers, ["checkout_session_not_open"], PAID)
      const winner = answers.findIndex(({ status }) => status === 200)
      const { customer, subscription } = await sessionOf(id)
      const made = await times(10, async (n) => (await api.all(`/customers?email=${email(n)}`)).map((one) => one.id))
      expect(made.flat()).toEqual([customer])
      expect(made[winner]).toEqual([customer])
      expect((await api.all(`/subscriptions?customer=${customer}`)).map((one) => one.id)).toEqual([subscription])
      await expectPaidOnce([subscription], { failed: 0 })
    }
    await expectWhole(database)
  })

  it("without a customer that is declined first is paid by one customer", async () => {
    const plan = await createPlan(api)
    const { id, url } = await createSession(api, { plan })
    const answers = await times(12, (n) =>
      pay(url, n < 8 ? "pm_test_do_not_honor" : "pm_test_success", { ...ADA, name: `Buyer ${n}` }),
    )
    const { completed = 0, card_declined = 0, ...others } = tally(answers)
    expect([completed, Object.keys(others)]).toEqual([1, ["checkout_session_not_open"]])
    const { customer, subscription } = await sessionOf(id)
    expect(data(await api.get(`/customers/${customer}`)).name).toBe(
      `Buyer ${answers.findIndex(({ status }) => status === 200)}`,
    )
    await expectPaidOnce([subscription], { failed: card_declined })
    await expectWhole(database)
  })
})

describe("sessions of different buyers submitted at the same time", () => {
  it("are claimed together, and each gets its own answer", async () => {
    const plan = await createPlan(api)
    const over = await createSession(api, { plan })
    data(await api.post(`/checkout-sessions/${over.id}/expire`))
    const kinds = [
      { fields: { payment_method: "pm_test_success", ...ADA }, says: "completed" },
      { fields: { payment_method: "pm_test_insufficient_funds", ...ADA }, says: "card_declined" },
      { fields: { payment_method: "pm_none", ...ADA }, says: "resource_missing" },
      { fields: { payment_method: "pm_test_success", amount: 1, ...ADA }, says: "amount_changed" },
    ]
    const sessions = await times(40, () => createSession(api, { plan }))
    const answers = await Promise.all([
      ...sessions.map(({ url }, n) => submit(url, kinds[n % kinds.length]!.fields)),
      submit(over.url, { payment_method: "pm_test_success", ...ADA }),
    ])
    expect(answers.map(({ body }) => body.error?.code ?? body.data.status)).toEqual([
      ...sessions.map((_, n) => kinds[n % kinds.length]!.says),
      "checkout_session_not_open",
    ])
    const statuses = await Promise.all(sessions.map(({ id }) => sessionOf(id)))
    expect(statuses.map(({ status, customer }) => [status, customer === null])).toEqual(
      sessions.map((_, n) => [n % 4 === 0 ? "completed" : "open", n % 4 > 1]),
    )
    const [claims] = await database.run(
      (sql) => sql<{ made: number; of: number }>`
        SELECT count(DISTINCT xmin::text) AS made, count(*) AS of FROM lifecycle_journal
        WHERE actor_id = ANY(${sessions.map(({ id }) => id)}::text[]) AND to_state = 'open.paying'`,
    )
    expect(claims!.of).toBe(20)
    expect(claims!.made).toBeLessThan(20)
    await expectWhole(database)
  })

  it.each(["customer", "subscription", "other session's subscription", "overdue subscription"] as const)(
    "do not wait for one whose %s is locked",
    async (what) => {
      const others = await times(4, () => checkout(api, { plan: { trial_days: 7 } }))
      const clock = await createClock(api, START)
      const customer = await createCustomer(api, { test_clock: clock })
      const overduePlan = {
        customer,
        plan: await createPlan(api),
        payment_method: "pm_test_success_then_insufficient_funds",
      }
      const overdue = data(await api.post("/subscriptions", overduePlan), 201).id
      await advance(api, clock, "2026-03-01T16:00:00Z")
      // A trial completes on submission: the other session is closed, and the overdue bill is tried with its method.
      const wanted = { customer, plan: await createPlan(api, { trial_days: 7 }) }
      const [locked, other] = [await createSession(api, wanted), await createSession(api, wanted)]
      const row = {
        customer: ["customer", customer],
        subscription: ["subscription", locked.subscription],
        "other session's subscription": ["subscription", other.subscription],
        "overdue subscription": ["subscription", overdue],
      } as const
      const [table, id] = row[what]
      const { release } = await lockUntilReleased(
        database,
        (sql) => sql`SELECT 1 FROM ${sql(table)} WHERE id = ${id} FOR UPDATE`,
      )
      let waits = true
      const waiting = pay(locked.url, "pm_test_success").finally(() => {
        waits = false
      })
      const free = await Promise.all(others.map(({ url }) => pay(url, "pm_test_success")))
      expect(tally(free)).toEqual({ completed: 4 })
      expect(waits).toBe(true)
      await release()
      expect(tally([await waiting])).toEqual({ completed: 1 })
      expect((await sessionOf(other.id)).status).toBe("expired")
      expect((await subscriptionOf(overdue)).status).toBe("active")
      await expectWhole(database)
    },
  )

  it("are all answered, however many one buyer sends", async () => {
    const [busy, ...others] = await times(5, () => checkout(api))
    const [refusals, free] = await Promise.all([
      times(20, () => pay(busy!.url, "pm_none")),
      Promise.all(others.map(({ url }) => pay(url, "pm_test_success"))),
    ])
    expect(tally(refusals)).toEqual({ resource_missing: 20 })
    expect(tally(free)).toEqual({ completed: 4 })
  })
})

describe("several sessions of one customer and plan", () => {
  const siblings = async (count: number) => {
    const first = await checkout(api)
    const { customer, plan } = first
    const more = await times(count - 1, () => createSession(api, { customer, plan }))
    return [first, ...more] as ReadonlyArray<Pick<Checkout, "id" | "url" | "subscription">>
  }

  it("that are paid at the same time subscribe the customer once: the paid one closes the others", async () => {
    for (let round = 0; round < 5; round++) {
      const all = await siblings(2)
      const answers = await times(8, (n) => pay(all[n % 2]!.url, "pm_test_success"))
      expect(tally(answers)).toEqual({ completed: 1, checkout_session_not_open: 7 })
      const winner = answers.findIndex(({ status }) => status === 200) % 2
      const [won, lost] = [all[winner]!, all[1 - winner]!]
      for (const [n, answer] of answers.entries())
        if (answer.status !== 200)
          expect(answer.body.error.message).toMatch(
            n % 2 === winner ? PAID : `The buyer completed another session for the same plan instead: ${won.id}.`,
          )
      expect([(await sessionOf(won.id)).status, (await sessionOf(lost.id)).status]).toEqual(["completed", "expired"])
      expect(await subscriptionOf(lost.subscription)).toMatchObject({
        status: "cancelled",
        cancellation_reason: "checkout_expired",
      })
      await expectPaidOnce([won.subscription, lost.subscription], { failed: 0 })
    }
    await expectWhole(database)
  })

  it("are paid once or not at all if one of them expires by request meanwhile", async () => {
    for (let round = 0; round < 5; round++) {
      const all = await siblings(3)
      const [answers, gone] = await Promise.all([
        times(6, (n) => pay(all[n % 3]!.url, "pm_test_success")),
        later(3 * round, () => api.post(`/checkout-sessions/${all[0]!.id}/expire`)),
      ])
      const { completed = 0, ...others } = tally(answers)
      expect(Object.keys(others)).toEqual(["checkout_session_not_open"])
      expect([200, 422]).toContain(gone.status)
      const money = await moneyOf(
        database,
        all.map((one) => one.subscription),
      )
      // A payment at the rail when its session expired is owed back. Another session may be paid after it.
      expect(money).toMatchObject({ paid: completed, pending: 0, owed: 0, refunds: 0 - PRICE * money.refundable })
      expect(completed).toBe(1)
      expect(money.taken).toBe(completed + money.refundable)
      expect(money.refundable).toBeLessThanOrEqual(gone.status === 200 ? 1 : 0)
      const statuses = await Promise.all(all.map(async ({ id }) => (await sessionOf(id)).status))
      expect(statuses.toSorted()).toEqual(["completed", "expired", "expired"])
    }
    await expectWhole(database)
  })
})

describe("a session that is submitted", () => {
  /** The possible results: paid and completed, or closed with nothing paid, or closed and owed back. */
  const expectEither = async ({ id, subscription }: Checkout, answers: ReadonlyArray<Answer>) => {
    expectCodes(answers, ["checkout_session_not_open", "test_clock_advancing"])
    const { status } = await sessionOf(id)
    const money = await moneyOf(database, [subscription])
    const isPaid = status === "completed"
    expect(completed(answers)).toHaveLength(isPaid ? 1 : 0)
    expect(money).toMatchObject({
      paid: isPaid ? 1 : 0,
      pending: 0,
      owed: 0,
      taken: money.paid + money.refundable,
      cash: PRICE * money.taken,
      refunds: 0 - PRICE * money.refundable,
    })
    expect(money.taken).toBeLessThanOrEqual(1)
    expect((await subscriptionOf(subscription)).status).toBe(isPaid ? "active" : "cancelled")
    expect(await eventsOf([id, subscription], "checkout_session.completed")).toBe(isPaid ? 1 : 0)
    expect(await eventsOf([id, subscription], "checkout_session.expired")).toBe(isPaid ? 0 : 1)
    return isPaid ? "paid" : money.refundable === 1 ? "owed back" : "unpaid"
  }

  it("and expired by request at the same time ends in one state, and a payment on its way is owed back", async () => {
    for (let round = 0; round < 10; round++) {
      const made = await checkout(api)
      const [answers, expired] = await Promise.all([
        times(3, () => pay(made.url, "pm_test_success")),
        later(2 * round, () => api.post(`/checkout-sessions/${made.id}/expire`)),
      ])
      const outcome = await expectEither(made, answers)
      expect(expired.status).toBe(outcome === "paid" ? 422 : 200)
      if (outcome === "paid") expect(refusal(expired)[1]).toBe("checkout_session_not_open")
    }
    await expectWhole(database)
  })

  it("and expires by the clock at the same time ends in one state", async () => {
    await times(6, async (n) => {
      const made = await checkout(api, { session: { expires_in_minutes: 30 } })
      const [answers] = await Promise.all([
        times(4, () => pay(made.url, "pm_test_success")),
        later(4 * n, () => advance(api, made.clock, "2026-01-31T09:31:00Z")),
      ])
      await expectEither(made, answers)
    })
    await expectWhole(database)
  })

  it("while the merchant cancels its subscription is paid and then cancelled, or not paid, or owed back", async () => {
    for (let round = 0; round < 8; round++) {
      const made = await checkout(api)
      const { id, subscription } = made
      const [answers, cancelled] = await Promise.all([
        times(3, () => pay(made.url, "pm_test_success")),
        later(2 * round, () => api.post(`/subscriptions/${subscription}/cancel`)),
      ])
      expect(data(cancelled).status).toBe("cancelled")
      expectCodes(answers, ["checkout_session_not_open"])
      const { status } = await sessionOf(id)
      const money = await moneyOf(database, [subscription])
      expect(completed(answers)).toHaveLength(status === "completed" ? 1 : 0)
      expect(money).toMatchObject({
        paid: status === "completed" ? 1 : 0,
        pending: 0,
        owed: 0,
        taken: money.paid + money.refundable,
        refunds: 0 - PRICE * money.refundable,
      })
      expect(money.taken).toBeLessThanOrEqual(1)
      expect((await subscriptionOf(subscription)).status).toBe("cancelled")
    }
    await expectWhole(database)
  })

  it("while the merchant changes its quantity charges the amount that the buyer saw, or nothing", async () => {
    for (let round = 0; round < 8; round++) {
      const { url, subscription } = await checkout(api)
      const [answers, patched] = await Promise.all([
        times(2, () => pay(url, "pm_test_success", { amount: PRICE })),
        later(2 * round, () => api.patch(`/subscriptions/${subscription}`, { quantity: 2 })),
      ])
      expect(data(patched).quantity).toBe(2)
      expectCodes(answers, ["checkout_session_not_open", "amount_changed"])
      if (completed(answers).length === 1) await expectPaidOnce([subscription])
      else {
        expect(tally(answers)).toEqual({ amount_changed: 2 })
        await expectUnpaid([subscription])
        expect(data(await pay(url, "pm_test_success", { amount: 2 * PRICE })).status).toBe("completed")
        await expectPaidOnce([subscription], { cash: 2 * PRICE })
      }
    }
    await expectWhole(database)
  })

  it("while its plan is archived is completed; a new session is made or refused", async () => {
    for (let round = 0; round < 4; round++) {
      const { url, plan, subscription, customer } = await checkout(api)
      const other = await createSession(api, { plan })
      const body = {
        mode: "subscription",
        plan,
        customer,
        success_url: "https://a.example/",
        cancel_url: "https://a.example/",
      }
      const [mine, theirs, archived, ...made] = await Promise.all([
        pay(url, "pm_test_success"),
        pay(other.url, "pm_test_success", ADA),
        later(2 * round, () => api.post(`/plans/${plan}/archive`)),
        later(2, () => api.post("/checkout-sessions", body)),
        later(6, () => api.post("/checkout-sessions", { ...body, customer: undefined })),
      ])
      expect(data(archived).status).toBe("archived")
      expect([data(mine).status, data(theirs).status]).toEqual(["completed", "completed"])
      for (const answer of made) {
        if (answer.status === 201) expect(["open", "expired"]).toContain((await sessionOf(answer.body.data.id)).status)
        else expect(refusal(answer)).toEqual([422, "plan_archived", null])
      }
      await expectPaidOnce([subscription])
      await expectPaidOnce([(await sessionOf(other.id)).subscription])
    }
    await expectWhole(database)
  })
})

describe("while a payment is at the rail", () => {
  /** Expects the payment to be taken and owed back, by the charge and by the books. */
  const expectOwedBack = async (subscription: string) => {
    const [charge] = await api.all(`/charges?subscription=${subscription}`)
    expect([charge.status, charge.refund_due]).toEqual(["succeeded", true])
    expect(await moneyOf(database, [subscription])).toMatchObject({
      paid: 0,
      refundable: 1,
      pending: 0,
      taken: 1,
      sent: 1,
      cash: PRICE,
      refunds: -PRICE,
    })
    return charge.id as string
  }

  it("the session is expired by request: the payment is owed back, and the buyer sees it", async () => {
    const { id, url, subscription } = await checkout(api)
    const [answer, expired] = await meanwhile(
      () => pay(url, AT_RAIL),
      () => api.post(`/checkout-sessions/${id}/expire`),
    )
    expect(data(expired).status).toBe("expired")
    const charge = await expectOwedBack(subscription)
    expect(refusal(answer)).toEqual([422, "checkout_session_not_open", null])
    expect(answer.body.error.message).toContain(charge)
    expect(await timeline(api, [id, subscription])).toEqual([
      "2026-01-31T09:00 subscription.created incomplete",
      "2026-01-31T09:00 subscription.cancelled cancelled",
      "2026-01-31T09:00 checkout_session.expired expired",
      "2026-01-31T09:00 charge.succeeded succeeded",
    ])
    await expectWhole(database)
  })

  it("the merchant cancels the subscription: the payment is owed back", async () => {
    const { id, url, subscription } = await checkout(api)
    const [answer, cancelled] = await meanwhile(
      () => pay(url, AT_RAIL),
      () => api.post(`/subscriptions/${subscription}/cancel`),
    )
    expect(data(cancelled)).toMatchObject({ status: "cancelled", cancellation_reason: "merchant_request" })
    expect((await sessionOf(id)).status).toBe("expired")
    expect(refusal(answer)).toEqual([422, "checkout_session_not_open", null])
    await expectOwedBack(subscription)
    await expectWhole(database)
  })

  it("an overdue subscription is cancelled: the link's payment is owed back", async () => {
    const { all } = await overdues(1)
    const [{ id, link }] = all as [(typeof all)[0]]
    const [answer, cancelled] = await meanwhile(
      () => pay(link, AT_RAIL),
      () => api.post(`/subscriptions/${id}/cancel`),
    )
    expect(data(cancelled).status).toBe("cancelled")
    expect(refusal(answer)[1]).toBe("payment_link_closed")
    expect(answer.body.error.message).toContain("and is owed back: it was cancelled meanwhile.")
    expect(await moneyOf(database, [id])).toMatchObject({ paid: 1, refundable: 1, taken: 2, owed: 0, refunds: -PRICE })
    expect(refusal(await pay(link, "pm_test_success"))[1]).toBe("payment_link_closed")
    await expectWhole(database)
  })

  it("the quantity is changed: the next period has it, this one keeps the shown price", async () => {
    const { clock, url, subscription } = await checkout(api)
    const [answer, patched] = await meanwhile(
      () => pay(url, AT_RAIL, { amount: PRICE }),
      () => api.patch(`/subscriptions/${subscription}`, { quantity: 2 }),
    )
    expect([data(answer).status, data(patched).quantity]).toEqual(["completed", 2])
    await expectPaidOnce([subscription])
    await advance(api, clock, "2026-03-01T00:00:00Z")
    expect((await api.all(`/charges?subscription=${subscription}`)).map(({ amount }) => amount)).toEqual([
      2 * PRICE,
      PRICE,
    ])
    await expectWhole(database)
  })

  it("its link's new default method waits, and is not charged if the payment succeeds", async () => {
    const { all } = await overdues(2)
    for (const [n, { customer, id, link }] of all.entries()) {
      const [answer, patched] = await meanwhile(
        () => pay(link, n === 0 ? AT_RAIL : DECLINED_AT_RAIL),
        // Its answer does not wait: the payment in progress decides.
        () => api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_mastercard" }),
      )
      expect(data(patched).default_payment_method.id).toBe("pm_test_mastercard")
      if (n === 0) expect(data(answer)).toEqual({ status: "paid", amount: PRICE })
      else expect(declined(answer)).toEqual([402, "card_declined", "insufficient_funds"])
      await expectRecoveredOnce(id)
      expect((await subscriptionOf(id)).payment_method).toBe(n === 0 ? AT_RAIL : "pm_test_mastercard")
    }
    await expectWhole(database)
  })

  it("other submissions for the same customer and plan wait, and get the payment's result", async () => {
    const { id, url, customer, plan, subscription } = await checkout(api)
    const other = await createSession(api, { customer, plan })
    const [answer, others] = await meanwhile(
      () => pay(url, AT_RAIL),
      // They have no answer yet when the rail answers.
      async () => [pay(url, "pm_test_visa"), pay(other.url, "pm_test_visa"), comeBack(url)] as const,
    )
    expect(data(answer).status).toBe("completed")
    const [same, sibling, looked] = await Promise.all(others)
    expect(refusal(same)).toEqual([422, "checkout_session_not_open", null])
    expect(same.body.error.message).toMatch(PAID)
    expect(sibling.body.error.message).toBe(`The buyer completed another session for the same plan instead: ${id}.`)
    expect(["pending", "completed"]).toContain(data(looked).status)
    await expectPaidOnce([subscription, other.subscription], { failed: 0 })
    await expectWhole(database)
  })

  it("by a manual retry, the link waits: it charges nothing if that pays, and pays if that is declined", async () => {
    const { all } = await overdues(2)
    for (const [n, { customer, id, link }] of all.entries()) {
      const { latest_charge } = await subscriptionOf(id)
      const [retried, linked] = await meanwhile(
        () =>
          api.post(`/charges/${latest_charge}/retry`, {
            payment_method: n === 0 ? AT_RAIL : DECLINED_AT_RAIL,
          }),
        () => looked(customer, () => pay(link, "pm_test_success")),
      )
      expect(retried.status).toBe(201)
      const answer = await linked[0]
      if (n === 0) {
        expect(refusal(answer)).toEqual([422, "payment_link_closed", null])
        expect(answer.body.error.message).toContain(retried.body.data.id)
      } else expect(data(answer)).toEqual({ status: "paid", amount: PRICE })
      await expectRecoveredOnce(id)
    }
    await expectWhole(database)
  })

  it("by a link, the merchant can neither forgive nor retry: a bill is paid or forgiven, never both", async () => {
    const { all } = await overdues(1, { plan: { retry_logic: { max_attempts: 0 } } })
    const [{ id, link }] = all as [(typeof all)[0]]
    const { latest_charge, status } = await subscriptionOf(id)
    expect(status).toBe("paused")
    const [answer, others] = await meanwhile(
      () => pay(link, AT_RAIL),
      () =>
        Promise.all([
          api.post(`/subscriptions/${id}/resume`),
          api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_visa" }),
          api.post(`/subscriptions/${id}/pause`),
        ]),
    )
    for (const other of others) expect(refusal(other)).toEqual([422, "charge_in_progress", null])
    expect(data(answer)).toEqual({ status: "paid", amount: PRICE })
    await expectRecoveredOnce(id)
    await expectWhole(database)
  })
  it("its payment method is removed: the session is completed, and the method stays removed", async () => {
    const { customer, id, url, subscription } = await checkout(api)
    const [answer, removed] = await meanwhile(
      () => pay(url, AT_RAIL),
      () => api.delete(`/customers/${customer}/payment-methods/${AT_RAIL}`),
    )
    expect([removed.status, answer.status]).toEqual([200, 200])
    expect((await sessionOf(id)).status).toBe("completed")
    expect(await subscriptionOf(subscription)).toMatchObject({ status: "active", payment_method: null })
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toBe(null)
    await expectPaidOnce([subscription])
    await expectWhole(database)
  })

  it("the link's payment method is removed: the bill is paid, and the method stays removed", async () => {
    const { all } = await overdues(1)
    const [{ customer, id, link }] = all as [(typeof all)[0]]
    const [answer, removed] = await meanwhile(
      () => pay(link, AT_RAIL),
      () => api.delete(`/customers/${customer}/payment-methods/${AT_RAIL}`),
    )
    expect([removed.status, data(answer).status]).toEqual([200, "paid"])
    await expectRecoveredOnce(id)
    expect((await subscriptionOf(id)).payment_method).toBe("pm_test_success_then_insufficient_funds")
    await expectWhole(database)
  })
})

describe("a pending payment", () => {
  it("settles while its session is expired: completed, or owed back", async () => {
    for (let round = 0; round < 6; round++) {
      const { clock, id, url, subscription } = await checkout(api)
      expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
      const [expired] = await Promise.all([
        api.post(`/checkout-sessions/${id}/expire`),
        round % 2 === 0 ? advance(api, clock, "2026-01-31T11:00:00Z") : comeBack(url),
      ])
      if (round % 2 === 1) await advance(api, clock, "2026-01-31T11:00:00Z")
      const { status } = await sessionOf(id)
      // Either it was expired first, or the clock was moving or had moved.
      if (expired.status === 200) expect(status).toBe("expired")
      else {
        expect(["test_clock_advancing", "checkout_session_not_open"]).toContain(refusal(expired)[1])
        expect(status).toBe("completed")
      }
      const isPaid = status === "completed"
      expect(await moneyOf(database, [subscription])).toMatchObject({
        paid: isPaid ? 1 : 0,
        refundable: isPaid ? 0 : 1,
        pending: 0,
        taken: 1,
        sent: 1,
        refunds: isPaid ? 0 : -PRICE,
      })
    }
    await expectWhole(database)
  })
  it("is completed though its method is removed before it settles, and the method stays removed", async () => {
    const { clock, customer, id, url, subscription } = await checkout(api)
    expect(data(await pay(url, "pm_test_bank_account")).status).toBe("pending")
    data(await api.delete(`/customers/${customer}/payment-methods/pm_test_bank_account`))
    await advance(api, clock, "2026-01-31T11:00:00Z")
    expect((await sessionOf(id)).status).toBe("completed")
    expect(await subscriptionOf(subscription)).toMatchObject({ status: "active", payment_method: null })
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method).toBe(null)
    expect((await api.get(`/customers/${customer}/payment-methods`)).body.data).toEqual([])
    await expectPaidOnce([subscription])
    await expectWhole(database)
  })

  it("of a card that is removed during payment is made once, and the customer does not keep the card", async () => {
    for (let round = 0; round < 8; round++) {
      const { customer, url, id, subscription } = await checkout(api)
      data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_visa" }))
      if (round % 2 === 1) data(await api.patch(`/customers/${customer}`, { default_payment_method: null }))
      const [answers, removed] = await Promise.all([
        times(2, () => pay(url, "pm_test_visa")),
        later(2 * round, () => api.delete(`/customers/${customer}/payment-methods/pm_test_visa`)),
      ])
      expect(removed.status).toBe(200)
      expect(tally(answers)).toEqual({ completed: 1, checkout_session_not_open: 1 })
      expect((await sessionOf(id)).status).toBe("completed")
      // It was removed before it was named, and naming it attached it again.
      const methods = data(await api.get(`/customers/${customer}/payment-methods`)).map((one: { id: string }) => one.id)
      const { payment_method } = await subscriptionOf(subscription)
      expect(methods).toEqual(payment_method === null ? [] : ["pm_test_visa"])
      await expectPaidOnce([subscription])
    }
    await expectWhole(database)
  })
})

describe("the payment link of an overdue subscription races with", () => {
  const CLOSED = ["payment_link_closed", "charge_in_progress", "test_clock_advancing"]

  it("another link of it, each submitted five times: it is paid once", async () => {
    const { all } = await overdues(4)
    for (const { customer, id, link } of all) {
      const other = await nudge(api, customer, id)
      const answers = await times(10, (n) => pay(n % 2 === 0 ? link : other, "pm_test_success"))
      expect(tally(answers)).toEqual({ paid: 1, payment_link_closed: 9 })
      expectCodes(answers, CLOSED, PAID)
      await expectRecoveredOnce(id)
    }
    await expectWhole(database)
  })

  it("manual retries: it is paid once", async () => {
    const { all } = await overdues(5)
    for (const [n, { id, link }] of all.entries()) {
      const { latest_charge } = await subscriptionOf(id)
      const [answers, retries] = await Promise.all([
        times(3, () => pay(link, "pm_test_success")),
        later(4 * n, () =>
          times(3, () => api.post(`/charges/${latest_charge}/retry`, { payment_method: "pm_test_visa" })),
        ),
      ])
      expectCodes(answers, CLOSED, PAID)
      for (const retry of retries.filter(({ status }) => status !== 201))
        expect(["charge_not_retryable", "charge_in_progress"]).toContain(refusal(retry)[1])
      expect(completed(answers).length + retries.filter(({ status }) => status === 201).length).toBe(1)
      await expectRecoveredOnce(id)
    }
    await expectWhole(database)
  })

  it("the clock's automatic retry: it is paid once", async () => {
    const { clock, all } = await overdues(6)
    // The scheduled retry would succeed too.
    for (const { id } of all.slice(0, 3))
      data(await api.patch(`/subscriptions/${id}`, { payment_method: "pm_test_succeeds_on_attempt_3" }))
    const [answers] = await Promise.all([
      times(6, (n) => later(3 * n, () => pay(all[n]!.link, "pm_test_success"))),
      later(6, () => advance(api, clock, "2025-02-02T12:00:00Z")),
    ])
    for (const [n, { id, link }] of all.entries()) {
      const answer = answers[n]!
      expectCodes([answer], CLOSED)
      if ((await subscriptionOf(id)).status === "past_due")
        expect(data(await pay(link, "pm_test_success")).status).toBe("paid")
      await expectRecoveredOnce(id)
      const late = await pay(link, "pm_test_visa", { amount: PRICE })
      expect(refusal(late)).toEqual([422, "payment_link_closed", null])
    }
    await expectWhole(database)
  })

  it("a new default payment method: it is paid once", async () => {
    const { all } = await overdues(6)
    for (const [n, { customer, id, link }] of all.entries()) {
      const [answers, patched] = await Promise.all([
        times(2, () => pay(link, "pm_test_success", { amount: PRICE })),
        later(3 * n, () => api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_mastercard" })),
      ])
      expect(data(patched).default_payment_method.id).toBe("pm_test_mastercard")
      expectCodes(answers, CLOSED, PAID)
      expect(completed(answers).length).toBeLessThanOrEqual(1)
      await expectRecoveredOnce(id)
    }
    await expectWhole(database)
  })

  it("a cancellation: it is paid and then cancelled, or written off, or owed back", async () => {
    const { all } = await overdues(6)
    for (const [n, { id, link }] of all.entries()) {
      const [answers, cancelled] = await Promise.all([
        times(2, () => pay(link, "pm_test_success")),
        later(3 * n, () => api.post(`/subscriptions/${id}/cancel`)),
      ])
      expect(data(cancelled).status).toBe("cancelled")
      const codes = tally(answers)
      const money = await moneyOf(database, [id])
      expect(money).toMatchObject({ pending: 0, owed: 0, sent: 1, refunds: 0 - PRICE * money.refundable })
      expect(money.taken).toBe(money.paid + money.refundable)
      expect(money.taken).toBeLessThanOrEqual(2)
      // A payment that succeeded is confirmed to its buyer. A late one is reported as owed back.
      expect(codes.paid ?? 0).toBe(money.paid - 1)
      const isOwedBack = ({ body }: Answer) => body.error?.message.includes("and is owed back") === true
      expect(answers.filter(isOwedBack).length > 0).toBe(money.refundable === 1)
      expectCodes(answers, CLOSED)
      expect((await subscriptionOf(id)).status).toBe("cancelled")
    }
    await expectWhole(database)
  })

  it("forgiveness of a bill paused by escalation: it is paid or forgiven, never both", async () => {
    const { all } = await overdues(5, {
      plan: { retry_logic: { max_attempts: 0, escalation_on_failure: "pause_service" } },
    })
    for (const [n, { id, link }] of all.entries()) {
      expect((await subscriptionOf(id)).status).toBe("paused")
      data(await api.patch(`/subscriptions/${id}`, { quantity: 1 }))
      const [answers, resumed] = await Promise.all([
        times(2, () => pay(link, "pm_test_success", { amount: PRICE })),
        later(4 * n, () => api.post(`/subscriptions/${id}/resume`)),
      ])
      expectCodes(answers, CLOSED)
      const paidHere = completed(answers).length
      const written = (await timeline(api, [id])).filter((line) => line.includes("subscription.resumed")).length
      expect(written).toBeGreaterThan(0)
      const { status } = await subscriptionOf(id)
      if (resumed.status === 200) {
        // If forgiven, the new period's charge with its own method is declined. The link may have paid that charge.
        expect(["past_due", "paused", "active"]).toContain(status)
        expect(status === "active").toBe(paidHere === 1)
      } else {
        expect(["charge_in_progress", "subscription_state_invalid"]).toContain(refusal(resumed)[1])
        expect([paidHere, status]).toEqual([1, "active"])
      }
      const money = await moneyOf(database, [id])
      expect(money).toMatchObject({
        paid: 1 + paidHere,
        refundable: 0,
        pending: 0,
        taken: 1 + paidHere,
        sent: 1,
        owed: status === "active" ? 0 : PRICE,
      })
    }
    await expectWhole(database)
  })

  it("the clock's cancellation for non-payment: one of them happens", async () => {
    const { clock, all } = await overdues(6, {
      plan: { retry_logic: { max_attempts: 0, cancel_after_days_unpaid: 2 } },
    })
    const [answers] = await Promise.all([
      times(6, (n) => later(3 * n, () => pay(all[n]!.link, "pm_test_success"))),
      later(6, () => advance(api, clock, "2025-02-04T00:00:00Z")),
    ])
    expectCodes(answers, CLOSED)
    for (const [n, { id }] of all.entries()) {
      if (answers[n]!.status === 200) await expectRecoveredOnce(id)
      else {
        expect(await subscriptionOf(id)).toMatchObject({ status: "cancelled", cancellation_reason: "nonpayment" })
        expect(await moneyOf(database, [id])).toMatchObject({ paid: 1, refundable: 0, taken: 1, pending: 0, owed: 0 })
      }
    }
    await expectWhole(database)
  })

  it("the completion of a checkout of the same customer: both bills are paid once each", async () => {
    const { all } = await overdues(5)
    for (const [n, { customer, id, link }] of all.entries()) {
      const { url, subscription } = await createSession(api, { customer, plan: await createPlan(api) })
      const [checkouts, links] = await Promise.all([
        later(2 * (n % 3), () => times(2, () => pay(url, "pm_test_visa"))),
        times(2, () => pay(link, "pm_test_success", { amount: PRICE })),
      ])
      expect(tally(checkouts)).toEqual({ completed: 1, checkout_session_not_open: 1 })
      expectCodes(links, CLOSED, /was paid at/)
      await expectRecoveredOnce(id)
      await expectPaidOnce([subscription])
    }
    await expectWhole(database)
  })
})

describe("saving payment methods", () => {
  it("by several sessions at the same time completes all of them, and sets the default once", async () => {
    for (let round = 0; round < 4; round++) {
      const customer = await createCustomer(api)
      const sessions = await times(4, () => createSession(api, { customer, mode: "setup" }))
      const methods = ["pm_test_visa", "pm_test_verve", "pm_test_mastercard", "pm_test_bank_account"]
      const answers = await times(4, (n) => pay(sessions[n]!.url, methods[n]!))
      expect(tally(answers)).toEqual({ completed: 4 })
      const { default_payment_method } = data(await api.get(`/customers/${customer}`))
      const saved = data(await api.get(`/customers/${customer}/payment-methods`)).map((one: { id: string }) => one.id)
      expect(saved.toSorted()).toEqual(methods.toSorted())
      // The first of them becomes the default. The others do not change it.
      expect(default_payment_method.id).toBe(saved.at(-1))
    }
    await expectWhole(database)
  })

  it("by one session ten times at the same time completes it once", async () => {
    const customer = await createCustomer(api)
    const { id, url } = await createSession(api, { customer, mode: "setup" })
    const answers = await times(10, () => pay(url, "pm_test_visa"))
    expect(tally(answers)).toEqual({ completed: 1, checkout_session_not_open: 9 })
    expect(await eventsOf([id], "checkout_session.completed")).toBe(1)
    await expectWhole(database)
  })
})

/** Deterministic pseudo-random numbers, the same in each run (mulberry32). */
const seeded = (seed: number) => {
  let state = seed
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0
    let t = Math.imul(state ^ (state >>> 15), 1 | state)
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
    return Math.floor((((t ^ (t >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

describe("all of it at the same time", () => {
  const CUSTOMERS = 10
  const CODES = new Set([
    "completed",
    "paid",
    "saved",
    "pending",
    "checkout_session_not_open",
    "payment_link_closed",
    "charge_in_progress",
    "card_declined",
    "charge_not_retryable",
    "subscription_state_invalid",
    "resource_missing",
  ])

  it("over ten customers leaves each bill paid at most once, and all books in order", async () => {
    const draw = seeded(20261122)
    const pick = <T>(all: ReadonlyArray<T>): T => all[draw(all.length)]!
    const { clock, all } = await overdues(CUSTOMERS)
    const plans = await times(2, () => createPlan(api))
    const methods = [
      "pm_test_success",
      "pm_test_visa",
      "pm_test_do_not_honor",
      "pm_test_insufficient_funds",
      "pm_test_mastercard",
    ]
    const seen: Record<string, number> = {}
    for (let round = 0; round < 6; round++) {
      const sessions = await times(CUSTOMERS * 2, (n) =>
        n % 4 === 3
          ? createSession(api, { customer: all[n >> 1]!.customer, mode: "setup" })
          : createSession(api, { customer: all[n >> 1]!.customer, plan: plans[draw(2)] }),
      )
      const names = new Map(all.map(({ id }) => [id, ""]))
      for (const { id } of all) names.set(id, (await subscriptionOf(id)).latest_charge)
      const verbs: ReadonlyArray<() => Promise<Answer>> = [
        () => pay(pick(sessions).url, pick(methods)),
        () => pay(pick(sessions).url, pick(methods)),
        () => pay(pick(all).link, pick(methods), { amount: PRICE }),
        () => api.post(`/checkout-sessions/${pick(sessions).id}/expire`),
        () => api.post(`/charges/${names.get(pick(all).id)}/retry`, { payment_method: pick(methods) }),
        () =>
          api.patch(`/customers/${pick(all).customer}`, {
            default_payment_method: pick(["pm_test_verve", ...methods]),
          }),
        () => api.delete(`/customers/${pick(all).customer}/payment-methods/pm_test_verve`),
        () => api.patch(`/subscriptions/${pick(all).id}`, { metadata: { round: String(draw(1000)) } }),
        () => {
          const { subscription } = pick(sessions)
          return subscription === null
            ? api.get("/subscriptions?limit=1")
            : api.post(`/subscriptions/${subscription}/cancel`)
        },
      ]
      const answers = await times(60, () => pick(verbs)())
      for (const { status, body } of answers) {
        expect(status, JSON.stringify(body)).toBeLessThan(500)
        const word =
          body.error?.code ??
          (body.data.object === undefined && !Array.isArray(body.data) ? body.data.status : undefined)
        if (word === undefined) continue
        expect(CODES).toContain(word)
        seen[word] = (seen[word] ?? 0) + 1
      }
      if (round === 3) await advance(api, clock, "2025-02-02T12:00:00Z")
    }
    expect(Object.keys(seen).length).toBeGreaterThan(5)
    // Each completed session was paid once. Each other session was not paid, or its payment is owed back.
    for (const { customer, id } of all) {
      const sessions = await api.all(`/checkout-sessions?customer=${customer}`)
      for (const { status, mode, subscription } of sessions) {
        if (mode === "setup") continue
        const money = await moneyOf(database, [subscription])
        expect(money).toMatchObject({ paid: status === "completed" ? 1 : 0, pending: 0, owed: 0 })
        expect([money.taken, money.sent <= 1]).toEqual([money.paid + money.refundable, true])
      }
      const money = await moneyOf(database, [id])
      expect(money).toMatchObject({ refundable: 0, pending: 0, sent: 1, taken: money.paid, cash: money.paid * PRICE })
      const { status } = await subscriptionOf(id)
      expect([money.paid, money.owed]).toEqual(status === "active" ? [2, 0] : [1, PRICE])
    }
    await expectWhole(database)
  })
})

describe("browsers", () => {
  it("that send one form twice at the same time both continue to the merchant, and pay once", async () => {
    for (let round = 0; round < 4; round++) {
      const { id, url, subscription } = await checkout(api)
      const submission = hidden(await open(url), "submission")
      const shown = await times(3, () =>
        submitForm(url, { payment_method: "pm_test_success", submission, amount: String(PRICE) }),
      )
      for (const one of shown)
        expect([one.status, one.headers.get("location")]).toEqual([
          303,
          `https://shop.example/welcome?session_id=${id}`,
        ])
      await expectPaidOnce([subscription])
    }
    await expectWhole(database)
  })
})
