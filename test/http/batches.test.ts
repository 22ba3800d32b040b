/** Tests that concurrent requests are run as a batch, and each gets its own answer (docs/performance.md). */
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Answer, type Api, createApi } from "../support/api.ts"
import { holdTable, lockUntilReleased } from "../support/hold.ts"
import { useOwnInstance } from "../support/instance.ts"
import { advance, createClock, createCustomer, createPlan, data, eventually } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, live, database, accountId, server } = useOwnInstance()
useWhole(database)

const outcome = ({ status, body }: Answer) =>
  status === 201 ? "made" : `${status} ${body.error.code} ${body.error.param}`

/** As many of each as there are permits, in alternation. */
const mixed = <T>(kinds: ReadonlyArray<T>, count: number) =>
  Array.from({ length: count }, (_, n) => kinds[n % kinds.length]!)

const transactions = () =>
  database.run(
    (sql) => sql<{ made: number; of: number }>`
    SELECT count(DISTINCT xmin::text) AS made, count(*) AS of FROM customer WHERE account_id = ${accountId()} AND name = 'Together'`,
  )

describe("customers created at the same time", () => {
  it("are written in fewer transactions than there are requests", async () => {
    const all = await Promise.all(Array.from({ length: 60 }, () => api.post("/customers", { name: "Together" })))
    expect(new Set(all.map((answer) => data(answer, 201).id)).size).toBe(60)
    const [row] = await transactions()
    expect(row!.of).toBe(60)
    expect(row!.made).toBeLessThan(60)
  })

  it("each get their own answer, and a place on their clock", async () => {
    const clock = await createClock(api, "2026-01-01T00:00:00Z")
    const large = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`k${n}`, "v"]))
    const kinds = [
      { body: { name: "On a clock", test_clock: clock }, says: "made" },
      { body: { name: "On none", test_clock: "clock_none" }, says: "400 resource_missing test_clock" },
      { body: { name: "Too much", test_clock: clock, metadata: large }, says: "400 parameter_invalid metadata" },
      { body: { name: "Plain" }, says: "made" },
    ]
    const asked = mixed(kinds, 40)
    const all = await Promise.all(asked.map(({ body }) => api.post("/customers", body)))
    expect(all.map(outcome)).toEqual(asked.map(({ says }) => says))
    expect(data(await api.get(`/test/clocks/${clock}`)).customer_count).toBe(10)
    expect(
      all
        .filter(({ status }) => status === 201)
        .every(({ body }, at) => body.data.name === (at % 2 === 0 ? "On a clock" : "Plain")),
    ).toBe(true)
  })

  it("are counted one by one", async () => {
    const all = await Promise.all(Array.from({ length: 30 }, () => live.post("/customers", { name: "Counted" })))
    const counts = all.map(({ headers }) => Number(headers.get("x-service-write-usage"))).sort((a, b) => a - b)
    expect(counts).toEqual(Array.from({ length: 30 }, (_, n) => counts[0]! + n))
  })

  it("with one Idempotency-Key are one customer", async () => {
    const keys = mixed(["a", "b", "c", "d"], 24)
    const all = await Promise.all(keys.map((key) => api.post("/customers", { name: key }, { "idempotency-key": key })))
    const made = all.filter(({ status }) => status === 201)
    const again = all.filter(({ status }) => status !== 201)
    expect(new Set(made.map(({ body }) => body.data.id)).size).toBe(4)
    expect(new Set(again.map(outcome))).toEqual(
      again.length === 0 ? new Set() : new Set(["409 idempotency_request_in_progress null"]),
    )
  })
})

describe("objects read at the same time", () => {
  it("each get their own answer, with their state at the time of the read", async () => {
    const ids = await Promise.all(["Ada", "Bola", "Chidi"].map((name) => createCustomer(api, { name })))
    const foreign = await createCustomer(live)
    const asked = mixed([...ids, "cus_none", foreign], 50)
    for (const round of ["first", "second"]) {
      for (const id of ids) data(await api.patch(`/customers/${id}`, { metadata: { round } }))
      const all = await Promise.all(asked.map((id) => api.get(`/customers/${id}`)))
      const found = all.map(({ status, body }) =>
        status === 200 ? `${body.data.id} ${body.data.metadata.round}` : `${status} ${body.error.message}`,
      )
      const says = (id: string) =>
        ids.includes(id) ? `${id} ${round}` : expect.stringMatching(new RegExp(`^404 .*${id}`))
      expect(found).toEqual(asked.map(says))
    }
  })
})

describe("subscriptions created at the same time", () => {
  it("are paid once each, and each gets its own answer", async () => {
    const clock = await createClock(api, "2026-01-31T00:00:00Z")
    const plan = await createPlan(api)
    const archived = await createPlan(api)
    data(await api.post(`/plans/${archived}/archive`))
    const customer = await createCustomer(api)
    const onClock = await createCustomer(api, { test_clock: clock })
    const poor = await createCustomer(api)
    const paying = { plan, payment_method: "pm_test_success" }
    const kinds = [
      { body: { customer, ...paying }, says: "made" },
      { body: { customer: onClock, ...paying }, says: "made" },
      { body: { customer: "cus_none", ...paying }, says: "400 resource_missing customer" },
      { body: { customer, ...paying, plan: "plan_none" }, says: "400 resource_missing plan" },
      { body: { customer, ...paying, plan: archived }, says: "422 plan_archived null" },
      { body: { customer: poor, plan }, says: "422 payment_method_required null" },
      { body: { customer, ...paying, payment_method: "pm_none" }, says: "400 resource_missing payment_method" },
      { body: { customer, ...paying, start_at: "2020-01-01T00:00:00Z" }, says: "400 parameter_invalid start_at" },
      { body: { customer, ...paying, payment_method: "pm_test_insufficient_funds" }, says: "made" },
    ]
    const asked = mixed(kinds, 45)
    const all = await Promise.all(asked.map(({ body }) => api.post("/subscriptions", body)))
    expect(all.map(outcome)).toEqual(asked.map(({ says }) => says))
    const charges = await api.all("/charges")
    const made = all.filter(({ status }) => status === 201).map(({ body }) => body.data)
    expect(charges.filter(({ subscription }) => subscription !== null).length).toBe(made.length)
    for (const { id } of made) expect(charges.filter(({ subscription }) => subscription === id).length, id).toBe(1)
    const since = made.filter(({ customer: of }) => of === onClock)
    expect(new Set(since.map(({ created_at }) => created_at))).toEqual(new Set(["2026-01-31T00:00:00.000Z"]))
    expect(data(await api.get(`/customers/${poor}`)).default_payment_method).toBeNull()
  })
})

describe("charges created at the same time", () => {
  it("of one customer are attempted once each", async () => {
    const customer = await createCustomer(api)
    const sale = { customer, amount: 50_000, currency: "NGN" }
    const kinds = ["pm_test_success", "pm_test_insufficient_funds"]
    const asked = mixed(kinds, 40)
    const all = await Promise.all(asked.map((payment_method) => api.post("/charges", { ...sale, payment_method })))
    expect(all.map((answer) => data(answer, 201).status)).toEqual(
      asked.map((method) => (method === "pm_test_success" ? "succeeded" : "failed")),
    )
  })
})

/** A paid subscription. */
const subscribe = async (plan: string, on: Readonly<Record<string, unknown>> = {}): Promise<string> => {
  const customer = await createCustomer(api, on)
  return data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201).id
}

const verb = (id: string, name: string, body: object = {}) => api.post(`/subscriptions/${id}/${name}`, body)

/** One on the wall clock, one on a test clock, and a cancelled one. */
const subscribeToEach = async (plan: string) => {
  const clock = await createClock(api, "2026-01-31T00:00:00Z")
  const [one, onClock, over] = [
    await subscribe(plan),
    await subscribe(plan, { test_clock: clock }),
    await subscribe(plan),
  ]
  data(await verb(over, "cancel"))
  return { one, onClock, over }
}

describe("reports of units at the same time", () => {
  it("count one after the other, and each gets its own answer", async () => {
    const { one, onClock, over } = await subscribeToEach(await createPlan(api, { overage_per_unit: 1_000 }))
    const kinds = [
      { id: one, body: { quantity: 1 }, says: "made" },
      { id: onClock, body: { quantity: 2 }, says: "made" },
      { id: "sub_none", body: { quantity: 1 }, says: "404 resource_missing null" },
      { id: over, body: { quantity: 1 }, says: "422 subscription_state_invalid null" },
      { id: one, body: { quantity: 10 }, says: "made" },
      {
        id: onClock,
        body: { quantity: 1, timestamp: "2026-02-01T00:00:00Z" },
        says: "400 parameter_invalid timestamp",
      },
      { id: one, body: { quantity: 900_000_000 }, says: "400 parameter_invalid quantity" },
    ]
    const asked = mixed(kinds, 49)
    const all = await Promise.all(asked.map(({ id, body }) => verb(id, "unit-records", body)))
    expect(all.map(outcome)).toEqual(asked.map(({ says }) => says))
    const counted = (id: string) => all.map(({ body }) => body.data).filter((record) => record?.subscription === id)
    for (const [id, sum] of [
      [one, 77],
      [onClock, 14],
    ] as const) {
      const records = counted(id).sort((a, b) => a.period_total - b.period_total)
      expect(
        records.map(({ quantity, period_total }, at) => period_total - quantity - (records[at - 1]?.period_total ?? 0)),
      ).toEqual(records.map(() => 0))
      expect(records.at(-1)!.period_total).toBe(sum)
    }
    expect(new Set(counted(onClock).map(({ created_at }) => created_at))).toEqual(new Set(["2026-01-31T00:00:00.000Z"]))
  })

  it("are deliveries, and each accepted one is charged", async () => {
    const id = await subscribe(await createPlan(api, { billing_cycle: "per_delivery" }))
    const all = await Promise.all(Array.from({ length: 12 }, () => verb(id, "unit-records", { quantity: 1 })))
    const taken = all.filter(({ status }) => status === 201).length
    expect(taken).toBeGreaterThan(0)
    expect(new Set(all.map(outcome))).toEqual(
      new Set(taken === 12 ? ["made"] : ["made", "422 subscription_unpaid null"]),
    )
    const charges = (await api.all("/charges")).filter(({ subscription }) => subscription === id)
    // The first one is the delivery at its start.
    expect(charges.map(({ status }) => status)).toEqual(Array.from({ length: taken + 1 }, () => "succeeded"))
  })
})

const holdRow = (table: string, id: string) =>
  lockUntilReleased(database, (sql) => sql`SELECT 1 FROM ${sql(table)} WHERE id = ${id} FOR UPDATE`)

describe("requests that need a locked object", () => {
  const report = (id: string) => verb(id, "unit-records", { quantity: 1 })

  it("wait for it together, and delay no other requests", async () => {
    const plan = await createPlan(api, { overage_per_unit: 100 })
    const [lockedOne, ...others] = await Promise.all(Array.from({ length: 6 }, () => subscribe(plan)))
    const { release } = await holdRow("subscription", lockedOne!)
    const waiting = Array.from({ length: 12 }, () => report(lockedOne!))
    const all = await Promise.all([...others, ...others, ...others].map(report))
    expect(new Set(all.map(outcome))).toEqual(new Set(["made"]))
    await release()
    const late = await Promise.all(waiting)
    expect(new Set(late.map(outcome))).toEqual(new Set(["made"]))
    const totals = late.map(({ body }) => body.data.period_total).sort((a, b) => a - b)
    expect(totals).toEqual(Array.from({ length: 12 }, (_, n) => n + 1))
    const [row] = await database.run(
      (sql) => sql<{ n: number }>`
        SELECT count(DISTINCT xmin::text)::int AS n FROM unit_record WHERE subscription_id = ${lockedOne!}`,
    )
    // Requests that came before any waited may have been several batches.
    expect(row!.n).toBeLessThan(6)
  })

  it("run when their object is unlocked, however many wait for another", async () => {
    const plan = await createPlan(api, { overage_per_unit: 100 })
    const [long, brief] = await Promise.all([subscribe(plan), subscribe(plan)])
    const longLock = await holdRow("subscription", long!)
    let answered = 0
    const waiting = Array.from({ length: 12 }, () => report(long!).finally(() => answered++))
    await longLock.waiters(1)
    const briefLock = await holdRow("subscription", brief!)
    const one = report(brief!)
    await longLock.waiters(2)
    await briefLock.release()
    expect(outcome(await one)).toBe("made")
    expect(answered).toBe(0)
    await longLock.release()
    expect(new Set((await Promise.all(waiting)).map(outcome))).toEqual(new Set(["made"]))
  })

  it("run immediately after the unlock, though earlier requests still wait for their turn", async () => {
    const plan = await createPlan(api, { overage_per_unit: 100 })
    const [brief, ...long] = await Promise.all(Array.from({ length: 4 }, () => subscribe(plan)))
    // The number of requests of one tenant that may wait at the same time.
    const locks = []
    for (const id of long) locks.push(await holdRow("subscription", id))
    let answered = 0
    const waiting = long.map((id) => report(id).finally(() => answered++))
    await locks[0]!.waiters(3)
    const briefLock = await holdRow("subscription", brief!)
    const first = report(brief!)
    // It waits for a permit by now: all earlier requests are answered.
    await report(await subscribe(plan))
    await briefLock.release()
    expect(outcome(await report(brief!))).toBe("made")
    expect(answered).toBe(0)
    for (const { release } of locks) await release()
    expect(new Set((await Promise.all([first, ...waiting])).map(outcome))).toEqual(new Set(["made"]))
  })

  it("fail only if the object stays locked", async () => {
    const [lockedPlanId, free] = await Promise.all([createPlan(api), createPlan(api)])
    const customer = await createCustomer(api)
    const create = (plan: string) => api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" })
    const customerLock = await holdRow("customer", customer)
    const first = create(free)
    await customerLock.waiters(1)
    const planLock = await holdRow("plan", lockedPlanId)
    const refused = create(lockedPlanId)
    const others = [create(free), create(free), create(free)]
    await report(await subscribe(free))
    await customerLock.release()
    expect(outcome(await first)).toBe("made")
    expect(new Set((await Promise.all(others)).map(outcome))).toEqual(new Set(["made"]))
    expect((await refused).body.error.code).toBe("lock_timeout")
    await planLock.release()
  })

  it("delay no charge of another customer, and no customer without that clock", async () => {
    const [payer, ...others] = await Promise.all(Array.from({ length: 6 }, () => createCustomer(api)))
    const clock = await createClock(api, "2026-01-01T00:00:00Z")
    const charge = (customer: string) =>
      api.post("/charges", { customer, amount: 5000, currency: "NGN", payment_method: "pm_test_success" })
    const customerLock = await holdRow("customer", payer!)
    const clockLock = await holdRow("test_clock", clock)
    let answered = 0
    const waiting = [charge(payer!), api.post("/customers", { name: "On it", test_clock: clock })].map((one) =>
      one.finally(() => answered++),
    )
    await customerLock.waiters(2)
    const free = await Promise.all([
      ...others.map(charge),
      ...others.map(() => api.post("/customers", { name: "Free" })),
    ])
    expect(new Set(free.map(outcome))).toEqual(new Set(["made"]))
    expect(answered).toBe(0)
    await customerLock.release()
    await clockLock.release()
    expect(new Set((await Promise.all(waiting)).map(outcome))).toEqual(new Set(["made"]))
  })

  it("delay no payment of another customer, and return the current state if the lock stays", async () => {
    const plan = await createPlan(api)
    const [payer, ...others] = await Promise.all(Array.from({ length: 6 }, () => createCustomer(api)))
    // At its rail, so that its settlement meets the lock.
    const rail = await holdTable(database, "simulator_attempt")
    const subscribing = api.post("/subscriptions", { customer: payer, plan, payment_method: "pm_test_success" })
    await rail.waiters(1)
    const [made] = await api.all(`/subscriptions?customer=${payer}`)
    const locked = await holdRow("subscription", made!.id)
    await rail.release()
    const free = await Promise.all(
      others.map((customer) =>
        api.post("/charges", { customer, amount: 5000, currency: "NGN", payment_method: "pm_test_success" }),
      ),
    )
    expect(free.map((answer) => data(answer, 201).status)).toEqual(others.map(() => "succeeded"))
    expect(data(await subscribing, 201).status).toBe("incomplete")
    await locked.release()
    await eventually(async () =>
      data(await api.get(`/subscriptions/${made!.id}`)).status === "active" ? true : undefined,
    )
    const charges = await api.all(`/charges?customer=${payer}`)
    expect(charges.map(({ status }) => status)).toEqual(["succeeded"])
  })
})

describe("subscriptions changed at the same time", () => {
  const patch = (id: string, body: object) => api.patch(`/subscriptions/${id}`, body)

  it("change one after the other if they are the same one, and each gets its own answer", async () => {
    const { one, onClock, over } = await subscribeToEach(await createPlan(api))
    const kinds = [
      { id: one, body: { metadata: { a: "1" } }, says: "made" },
      { id: onClock, body: { quantity: 3 }, says: "made" },
      { id: one, body: { payment_method: "pm_test_insufficient_funds" }, says: "made" },
      { id: "sub_none", body: { quantity: 1 }, says: "404 resource_missing null" },
      { id: over, body: { quantity: 2 }, says: "422 subscription_state_invalid null" },
      { id: over, body: { payment_method: "pm_test_expired_card" }, says: "422 subscription_state_invalid null" },
      { id: one, body: { payment_method: "pm_none" }, says: "400 resource_missing payment_method" },
      { id: onClock, body: { quantity: 9_000_000_000 }, says: "400 parameter_invalid quantity" },
      { id: onClock, body: { payment_method: null, metadata: { b: "2" } }, says: "made" },
      { id: one, body: { quantity: 2 }, says: "made" },
    ]
    const asked = mixed(kinds, 40)
    const all = await Promise.all(asked.map(({ id, body }) => patch(id, body)))
    expect(
      all.map(({ status, body }) => (status === 200 ? "made" : `${status} ${body.error.code} ${body.error.param}`)),
    ).toEqual(asked.map(({ says }) => says))
    const [changed, changedOnClock] = [one, onClock].map(async (id) => data(await api.get(`/subscriptions/${id}`)))
    const { payment_method: method, ...now } = (await changed)!
    expect(now).toMatchObject({ metadata: { a: "1" }, quantity: 2 })
    const methods = await api.all(`/customers/${now.customer}/payment-methods`)
    expect(methods.map(({ id }) => id)).toContain(method)
    // A method named in a refused request is not attached.
    const { customer } = data(await api.get(`/subscriptions/${over}`))
    expect((await api.all(`/customers/${customer}/payment-methods`)).length).toBe(1)
    expect(await changedOnClock).toMatchObject({ metadata: { b: "2" }, quantity: 3, payment_method: null })
    const updates = (await api.all("/events?type=subscription.updated")).filter(({ data: of }) => of.object.id === one)
    // A request without a change emits no event.
    expect(updates.length).toBe(3)
  })

  it("try the method that one request names, whatever the other requests change", async () => {
    const clock = await createClock(api, "2026-01-31T00:00:00Z")
    const plan = await createPlan(api)
    const ids = await Promise.all(
      Array.from({ length: 4 }, async () => {
        const id = await subscribe(plan, { test_clock: clock })
        data(await patch(id, { payment_method: "pm_test_insufficient_funds" }))
        return id
      }),
    )
    await advance(api, clock, "2026-02-28T00:00:00Z")
    const others = [{ metadata: { a: "1" } }, { payment_method: null }]
    const all = await Promise.all(
      ids.flatMap((id, at) => {
        const other = patch(id, others[at % 2]!)
        const naming = patch(id, { payment_method: "pm_test_success" })
        return at < 2 ? [naming, other] : [other, naming]
      }),
    )
    const named = [all[0]!, all[2]!, all[5]!, all[7]!]
    expect(named.map((answer) => data(answer).status)).toEqual(ids.map(() => "active"))
    for (const id of ids) {
      const charges = (await api.all("/charges")).filter(({ subscription }) => subscription === id)
      expect(charges.map(({ status }) => status).sort()).toEqual(["failed", "succeeded", "succeeded"])
    }
  })

  it("each return the state after their own change", async () => {
    const id = await subscribe(await createPlan(api))
    const quantities = Array.from({ length: 20 }, (_, n) => n + 2)
    const all = await Promise.all(quantities.map((quantity) => patch(id, { quantity })))
    expect(all.map((answer) => data(answer).quantity)).toEqual(quantities)
  })

  it("try a method for an overdue bill once each", async () => {
    const clock = await createClock(api, "2026-01-31T00:00:00Z")
    const plan = await createPlan(api)
    const ids = []
    for (let n = 0; n < 4; n++) {
      const id = await subscribe(plan, { test_clock: clock })
      data(await patch(id, { payment_method: "pm_test_insufficient_funds" }))
      ids.push(id)
    }
    await advance(api, clock, "2026-02-28T00:00:00Z")
    const all = await Promise.all(ids.map((id) => patch(id, { payment_method: "pm_test_success" })))
    expect(all.map((answer) => data(answer).status)).toEqual(ids.map(() => "active"))
    for (const id of ids) {
      const charges = (await api.all("/charges")).filter(({ subscription }) => subscription === id)
      expect(charges.map(({ status }) => status).sort()).toEqual(["failed", "succeeded", "succeeded"])
    }
  })
})

describe("subscriptions cancelled at the same time", () => {
  const checkout = async (plan: string) => {
    const body = {
      mode: "subscription",
      plan,
      success_url: "https://shop.example/a",
      cancel_url: "https://shop.example/b",
    }
    const customer = await createCustomer(api)
    return data(await api.post("/checkout-sessions", { ...body, customer }), 201)
  }
  const statusOf = async (session: string) => data(await api.get(`/checkout-sessions/${session}`)).status

  it("are cancelled once each, together with their checkouts", async () => {
    const plan = await createPlan(api)
    const clock = await createClock(api, "2026-01-31T00:00:00Z")
    const sessions = await Promise.all(Array.from({ length: 3 }, () => checkout(plan)))
    const waiting = sessions.map(({ subscription }) => subscription)
    const later = await subscribe(plan)
    const ids = [await subscribe(plan), await subscribe(plan, { test_clock: clock }), later, ...waiting]
    const all = await Promise.all([...ids, ...ids].map((id) => verb(id, "cancel", { at_period_end: id === later })))
    for (const [at, id] of ids.entries()) {
      const [first, second] = [all[at]!, all[at + ids.length]!]
      if (id === later) {
        expect([data(first).cancel_at_period_end, data(second).cancel_at_period_end]).toEqual([true, true])
        continue
      }
      expect([first.status, second.status].sort()).toEqual([200, 422])
      expect([first, second].map(({ body }) => body.data?.status ?? body.error.code).sort()).toEqual([
        "cancelled",
        "subscription_state_invalid",
      ])
    }
    expect(await Promise.all(sessions.map(({ id }) => statusOf(id)))).toEqual(["expired", "expired", "expired"])
  })

  it("wait for a locked checkout, and delay no others", async () => {
    const plan = await createPlan(api)
    const session = await checkout(plan)
    const locked = await lockUntilReleased(
      database,
      (sql) => sql`SELECT 1 FROM checkout_session WHERE id = ${session.id} FOR UPDATE`,
    )
    const waiting = verb(session.subscription, "cancel")
    const others = await Promise.all([await subscribe(plan), await subscribe(plan)].map((id) => verb(id, "cancel")))
    expect(others.map((answer) => data(answer).status)).toEqual(["cancelled", "cancelled"])
    await locked.waiters(1)
    await locked.release()
    expect(data(await waiting).status).toBe("cancelled")
    expect(await statusOf(session.id)).toBe("expired")
  })
})

describe("a locked charge", () => {
  it("delays no other, returns the current state if the lock stays, and settles after the unlock", async () => {
    const [payer, ...others] = await Promise.all(Array.from({ length: 4 }, () => createCustomer(api)))
    const charge = (customer: string) =>
      api.post("/charges", { customer, amount: 5000, currency: "NGN", payment_method: "pm_test_success" })
    const rail = await holdTable(database, "simulator_attempt")
    const paying = charge(payer!)
    await rail.waiters(1)
    const [made] = await api.all(`/charges?customer=${payer}`)
    const locked = await lockUntilReleased(
      database,
      (sql) => sql`SELECT 1 FROM charge WHERE id = ${made!.id} FOR UPDATE`,
    )
    await rail.release()
    const free = await Promise.all(others.map(charge))
    expect(free.map((answer) => data(answer, 201).status)).toEqual(others.map(() => "succeeded"))
    expect(data(await paying, 201).status).toBe("pending")
    await locked.release()
    await eventually(async () =>
      data(await api.get(`/charges/${made!.id}`)).status === "succeeded" ? true : undefined,
    )
    const [row] = await database.run(
      (sql) => sql<{ attempts: number }>`SELECT attempts FROM simulator_attempt WHERE reference = ${made!.id}`,
    )
    expect(row!.attempts).toBe(1)
  })

  it("delays no requests of others with a key not used before", async () => {
    const payer = await createCustomer(api)
    const rail = await holdTable(database, "simulator_attempt")
    const paying = api.post("/charges", {
      customer: payer,
      amount: 5000,
      currency: "NGN",
      payment_method: "pm_test_visa",
    })
    await rail.waiters(1)
    const { keys } = await database.run(() => createAccount({ businessName: "Beside" }))
    data(await createApi(server().origin, keys.sk_test).get("/account"))
    await rail.release()
    expect(data(await paying, 201).status).toBe("succeeded")
  })

  it("delays no other charge of its customer that is requested at the same time", async () => {
    const plan = await createPlan(api)
    const [first, payer] = [await createCustomer(api), await createCustomer(api)]
    const charge = (customer: string) =>
      api.post("/charges", { customer, amount: 5000, currency: "NGN", payment_method: "pm_test_success" })
    const rail = await holdTable(database, "simulator_attempt")
    const ahead = charge(first)
    await rail.waiters(1)
    // Both wait for the one before them, and go to their rail together.
    const answered: Array<Answer> = []
    const noting = (answer: Answer) => {
      answered.push(answer)
      return answer
    }
    const shown = async (list: string, count: number) =>
      eventually(async () => {
        const found = await api.all(`${list}?customer=${payer}`)
        expect(answered).toEqual([])
        return found.length === count ? found : undefined
      })
    const subscribing = api
      .post("/subscriptions", { customer: payer, plan, payment_method: "pm_test_success" })
      .then(noting)
    const [made] = await shown("/subscriptions", 1)
    const locked = await holdRow("subscription", made!.id)
    const charging = charge(payer).then(noting)
    await shown("/charges", 2)
    await rail.release()
    const charged = await charging
    expect(data(charged, 201).status).toBe("succeeded")
    expect(answered).toEqual([charged])
    expect(data(await subscribing, 201).status).toBe("incomplete")
    await locked.release()
    await eventually(async () =>
      data(await api.get(`/subscriptions/${made!.id}`)).status === "active" ? true : undefined,
    )
    data(await ahead, 201)
  })
})

describe("payments of many accounts that are settled together", () => {
  const sell = async (one: Api, headers: Record<string, string> = {}) =>
    one.post(
      "/charges",
      { customer: await createCustomer(one), amount: 5000, currency: "NGN", payment_method: "pm_test_success" },
      headers,
    )
  const newAccount = async () => {
    const { account, keys } = await database.run(() => createAccount({ businessName: "Together" }))
    return { id: account.id, api: createApi(server().origin, keys.sk_test) }
  }
  const statement = (text: string) => database.run((sql) => sql.unsafe(text).unprepared)
  /** Refuses updates of one account's rows. */
  const refuse = async (table: string, account: string) => {
    await statement(
      `CREATE FUNCTION refuse_update() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused by the test'; END $$`,
    )
    await statement(
      `CREATE TRIGGER refuse_update BEFORE UPDATE ON ${table} FOR EACH ROW WHEN (new.account_id = '${account}') EXECUTE FUNCTION refuse_update()`,
    )
    return () => statement("DROP FUNCTION refuse_update CASCADE")
  }
  /** The first payment waits at the rail; the others wait for it and go there next. */
  const together = async (sales: ReadonlyArray<() => Promise<Answer>>) => {
    const rail = await holdTable(database, "simulator_attempt")
    const ahead = sell(api)
    await rail.waiters(1)
    const { rows: before } = await pendingCharges()
    const all = sales.map((sale) => sale())
    await eventually(async () => ((await pendingCharges()).rows === before + sales.length ? true : undefined))
    await rail.release()
    data(await ahead, 201)
    return Promise.all(all)
  }
  const pendingCharges = async () => {
    const [row] = await database.run(
      (sql) => sql<{ rows: number }>`SELECT count(*)::integer AS rows FROM charge WHERE state = 'pending.sending'`,
    )
    return row!
  }

  it("fail only for the account whose payment cannot be settled, which is settled later", async () => {
    const accounts = await Promise.all(Array.from({ length: 4 }, newAccount))
    const mend = await refuse("charge", accounts[0]!.id)
    const [broken, ...others] = await together(accounts.map((one) => () => sell(one.api)))
    expect(others.map((answer) => data(answer, 201).status)).toEqual(others.map(() => "succeeded"))
    const pending = data(broken!, 201)
    expect(pending.status).toBe("pending")
    await mend()
    await eventually(async () =>
      data(await accounts[0]!.api.get(`/charges/${pending.id}`)).status === "succeeded" ? true : undefined,
    )
  })

  it("keep their responses for a repeated request, except the one that cannot be stored, which is finished", async () => {
    const accounts = await Promise.all(Array.from({ length: 4 }, newAccount))
    const key = { "idempotency-key": "together" }
    const sales = await Promise.all(
      accounts.map(async (one) => ({
        one,
        body: {
          customer: await createCustomer(one.api),
          amount: 5000,
          currency: "NGN",
          payment_method: "pm_test_success",
        },
      })),
    )
    const mend = await refuse("idempotency_record", accounts[0]!.id)
    const first = await together(
      sales.map(
        ({ one, body }) =>
          () =>
            one.api.post("/charges", body, key),
      ),
    )
    for (const answer of first) expect(data(answer, 201).status).toBe("succeeded")
    await mend()
    const again = await Promise.all(sales.map(({ one, body }) => one.api.post("/charges", body, key)))
    expect(again.map(({ body }) => body)).toEqual(first.map(({ body }) => body))
    for (const { one } of sales) expect((await one.api.all("/charges")).length).toBe(1)
  })
})

describe("subscriptions paused and resumed at the same time", () => {
  it("change once each", async () => {
    const plan = await createPlan(api, { pause_enabled: true, pro_rate: false })
    const never = await subscribe(await createPlan(api, { pause_enabled: false }))
    const ids = await Promise.all(Array.from({ length: 8 }, () => subscribe(plan)))
    const twice = [...ids, ...ids]
    for (const [name, status] of [
      ["pause", "paused"],
      ["resume", "active"],
    ] as const) {
      const [refused, ...all] = await Promise.all([never, ...twice].map((id) => verb(id, name)))
      expect(refused!.body.error.code).toBe(name === "pause" ? "pause_not_enabled" : "subscription_state_invalid")
      for (const id of ids) {
        const answers = all.filter((_, at) => twice[at] === id)
        const done = answers.filter((answer) => answer.status === 200)
        expect(done.map(({ body }) => [body.data.id, body.data.status])).toEqual([[id, status]])
        const others = answers.filter((answer) => answer.status !== 200)
        expect(others.length).toBe(1)
        // Its first charge may still be in progress.
        expect(["subscription_state_invalid", "charge_in_progress"]).toContain(others[0]!.body.error.code)
      }
    }
    for (const id of ids) {
      const charges = (await api.all("/charges")).filter(({ subscription }) => subscription === id)
      expect(charges.length).toBe(2)
    }
  })
})
