import { describe, expect, it } from "vitest"
import { beginPlan, cancel, createProduct, pay, refused, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, live, stranger, database } = instance
useWhole(database)
const { buyers } = useShop(instance)

const START = "2027-01-31T09:00:00.000Z"

const onClock = async (product: string, at = START, over: object = {}) => {
  const clock = await createClock(api, at)
  return { clock, plan: await beginPlan(buyers(), product, { testClock: clock, ...over }) }
}
const get = async (id: string) => data(await api.get(`/provider-savings/${id}`))
/** The time, type and status of each event of a plan and of its charges, oldest first. */
const story = async (id: string) => {
  const events = await api.all("/events")
  const customer = events.filter(({ data: { object } }) => object.id === id)
  return customer
    .reverse()
    .map(
      ({ created_at, type, data: { object } }) =>
        `${created_at.slice(0, 16)} ${type} ${object.status} ${object.amountPaid} ${object.pendingFee}`,
    )
}
const books = (id: string) =>
  database.run(
    (sql) => sql<{ event: string; ledger_account: string; amount_kobo: number }>`
      SELECT e.event, l.ledger_account, l.amount_kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
      WHERE e.id IN (SELECT entry_id FROM ledger_line WHERE ledger_account = 'buyer_deposits' AND detail = ${id}) ORDER BY e.id, l.line_no`,
  )

describe("a fixed plan", () => {
  it("is paid, missed, caught up, completed, shipped and delivered, each with its event and its entry", async () => {
    const product = await createProduct(api, { slots: 2 })
    const { clock, plan } = await onClock(product)
    expect(await get(plan.id)).toEqual({
      id: plan.id,
      object: "savings_plan",
      livemode: false,
      createdAt: START,
      status: "pending",
      productName: "Inverter",
      productImage: null,
      mode: "fixed",
      frequency: "monthly",
      currency: "NGN",
      targetAmount: 3_001,
      amountPaid: 0,
      outstanding: 3_001,
      instalmentAmount: 1_000,
      instalmentCount: 3,
      instalmentsPaid: 0,
      nextDue: { index: 1, dueAt: START, amount: 1_000 },
      deadline: "2027-04-30T09:00:00.000Z",
      instalments: [
        { index: 1, dueAt: START, amount: 1_000, status: "scheduled", paidAt: null },
        { index: 2, dueAt: "2027-02-28T09:00:00.000Z", amount: 1_000, status: "scheduled", paidAt: null },
        { index: 3, dueAt: "2027-03-31T09:00:00.000Z", amount: 1_001, status: "scheduled", paidAt: null },
      ],
      pendingFee: 0,
      completedAt: null,
      shippedAt: null,
      deliveredAt: null,
      refundWindowEndsAt: null,
    })
    const paid = data(await pay(plan))
    expect(paid).toMatchObject({
      status: "paid",
      amount: 1_000,
      plan: { id: plan.id, status: "active", amountPaid: 1_000 },
    })
    await advance(api, clock, "2027-03-01T08:59:59Z")
    expect((await get(plan.id)).status).toBe("active")
    await advance(api, clock, "2027-03-01T09:00:00Z")
    expect(await get(plan.id)).toMatchObject({
      status: "overdue",
      pendingFee: 100,
      nextDue: { index: 2, amount: 1_000 },
      instalments: [{ status: "paid" }, { status: "missed" }, { status: "scheduled" }],
    })
    expect(data(await pay(plan))).toMatchObject({
      amount: 1_100,
      plan: { status: "active", amountPaid: 2_000, pendingFee: 0 },
    })
    expect(data(await pay(plan))).toMatchObject({
      amount: 1_001,
      plan: {
        status: "completed",
        outstanding: 0,
        instalmentsPaid: 3,
        nextDue: null,
        completedAt: "2027-03-01T09:00:00.000Z",
      },
    })
    expect((await get(plan.id)).instalments[2].status).toBe("paid_early")
    expect(data(await api.post(`/provider-savings/${plan.id}/ship`)).status).toBe("shipped")
    await advance(api, clock, "2027-03-05T09:00:00Z")
    expect(data(await api.post(`/provider-savings/${plan.id}/deliver`))).toMatchObject({
      status: "delivered",
      deliveredAt: "2027-03-05T09:00:00.000Z",
      refundWindowEndsAt: "2027-03-12T09:00:00.000Z",
    })
    expect(await story(plan.id)).toEqual([
      "2027-01-31T09:00 savings_plan.created pending 0 0",
      "2027-01-31T09:00 savings_plan.activated active 1000 0",
      "2027-01-31T09:00 savings_plan.payment_received active 1000 0",
      "2027-03-01T09:00 savings_plan.overdue overdue 1000 100",
      "2027-03-01T09:00 savings_plan.payment_received active 2000 0",
      "2027-03-01T09:00 savings_plan.payment_received completed 3001 0",
      "2027-03-01T09:00 savings_plan.completed completed 3001 0",
      "2027-03-01T09:00 savings_plan.shipped shipped 3001 0",
      "2027-03-05T09:00 savings_plan.delivered delivered 3001 0",
    ])
    expect(await books(plan.id)).toEqual([
      { event: "deposit_paid", ledger_account: "clearing", amount_kobo: 100_000 },
      { event: "deposit_paid", ledger_account: "buyer_deposits", amount_kobo: -100_000 },
      { event: "deposit_paid", ledger_account: "clearing", amount_kobo: 110_000 },
      { event: "deposit_paid", ledger_account: "buyer_deposits", amount_kobo: -110_000 },
      { event: "deposit_paid", ledger_account: "clearing", amount_kobo: 100_100 },
      { event: "deposit_paid", ledger_account: "buyer_deposits", amount_kobo: -100_100 },
      { event: "goods_delivered", ledger_account: "buyer_deposits", amount_kobo: 310_100 },
      { event: "goods_delivered", ledger_account: "goods_revenue", amount_kobo: -310_100 },
    ])
  })

  it("is charged as any charge is, with lines for the instalments and the fees", async () => {
    const { clock, plan } = await onClock(await createProduct(api))
    data(await pay(plan))
    await advance(api, clock, "2027-03-02T09:00:00Z")
    data(await pay(plan))
    const [newest] = await api.all("/charges")
    expect(newest).toMatchObject({
      amount: 110_000,
      status: "succeeded",
      subscription: null,
      processor: "simulator",
      description: "Inverter",
      lines: [
        { type: "installment", description: "Inverter", quantity: 1, unit_amount: 100_000, amount: 100_000 },
        { type: "installment", description: "Late fees", quantity: 1, unit_amount: 10_000, amount: 10_000 },
      ],
      payment_method: { id: "pm_test_visa" },
    })
    const [event] = (await api.all("/events?type=charge.succeeded")).filter(
      ({ data: { object } }) => object.id === newest.id,
    )
    expect(event.created_at).toBe("2027-03-02T09:00:00.000Z")
    expect(refused(await api.post(`/charges/${newest.id}/retry`), 422).code).toBe("charge_not_retryable")
  })

  it("shows the merchant the changes since the previous event", async () => {
    const { clock, plan } = await onClock(
      await createProduct(api, { allowedFrequencies: ["weekly"], cycleMonths: 1 }),
      "2027-02-01T09:00:00Z",
    )
    data(await pay(plan))
    await advance(api, clock, "2027-02-17T09:00:00Z")
    const events = (await api.all("/events?type=savings_plan.overdue")).filter(
      ({ data: { object } }) => object.id === plan.id,
    )
    expect(
      events.map(({ data: { object, previous_attributes } }) => [
        object.pendingFee,
        previous_attributes.pendingFee,
        previous_attributes.status,
      ]),
    ).toEqual([
      [200, 100, undefined],
      [100, 0, "active"],
    ])
  })

  it("counts its tries as attempts, from its last payment on (decision E4)", async () => {
    const plan = await beginPlan(buyers(), await createProduct(api))
    const attempts = async (number: number) => {
      const method = { payment_method: `pm_test_succeeds_on_attempt_${number}` }
      for (let n = 1; n < number; n++) expect((await pay(plan, method)).status).toBe(402)
      data(await pay(plan, method))
    }
    await attempts(3)
    await attempts(2)
    const made = await database.run(
      (sql) => sql`SELECT attempt_number, status FROM charge WHERE page_id = ${plan.id} ORDER BY id`,
    )
    expect(made.map(({ attempt_number, status }) => `${attempt_number} ${status}`)).toEqual([
      "1 failed",
      "2 failed",
      "3 succeeded",
      "1 failed",
      "2 succeeded",
    ])
  })

  it("is declined as a card payment is, and can be tried again", async () => {
    const plan = await beginPlan(buyers(), await createProduct(api))
    const declined = await pay(plan, { payment_method: "pm_test_insufficient_funds" })
    expect([declined.status, declined.body.error.code, declined.body.error.failure_code]).toEqual([
      402,
      "card_declined",
      "insufficient_funds",
    ])
    expect((await get(plan.id)).status).toBe("pending")
    expect(data(await pay(plan)).plan.status).toBe("active")
    const events = (await api.all("/events")).filter(
      ({ data: { object } }) => object.description === "Inverter" || object.id === plan.id,
    )
    expect(
      events
        .slice(0, 5)
        .map(({ type }) => type)
        .reverse(),
    ).toEqual([
      "savings_plan.created",
      "charge.failed",
      "charge.succeeded",
      "savings_plan.activated",
      "savings_plan.payment_received",
    ])
  })

  it("accepts more than is due, and fills the oldest first", async () => {
    const { clock, plan } = await onClock(await createProduct(api))
    expect(refused(await pay(plan, { amount: 999 }), 400).param).toBe("amount")
    expect(refused(await pay(plan, { amount: 3_002 }), 400).param).toBe("amount")
    expect(data(await pay(plan, { amount: 1_500 }))).toMatchObject({
      amount: 1_500,
      plan: { amountPaid: 1_500, instalmentsPaid: 1, nextDue: { index: 2, amount: 500 } },
    })
    await advance(api, clock, "2027-02-10T09:00:00Z")
    expect(data(await pay(plan))).toMatchObject({
      amount: 500,
      plan: { instalments: [{}, { status: "paid_early", paidAt: "2027-02-10T09:00:00.000Z" }, {}] },
    })
    expect(data(await pay(plan, { amount: 1_001 })).plan.status).toBe("completed")
    expect(refused(await pay(plan), 422).code).toBe("savings_plan_state_invalid")
  })

  it("is cancelled a day after it started if it is not paid, and its slot is free again", async () => {
    const product = await createProduct(api, { slots: 1 })
    const { clock, plan } = await onClock(product)
    const body = { buyer: { name: "Bola", phone: "+2348031234567" } }
    const full = await buyers().post(`/public/save-to-buy/products/${product}/plans`, body)
    expect(refused(full, 422).code).toBe("slots_exhausted")
    await advance(api, clock, "2027-02-01T08:59:59.999Z")
    expect((await get(plan.id)).status).toBe("pending")
    await advance(api, clock, "2027-02-01T09:00:00Z")
    expect((await get(plan.id)).status).toBe("cancelled")
    expect(await books(plan.id)).toEqual([])
    expect(data(await buyers().post(`/public/save-to-buy/products/${product}/plans`, body), 201).amountDue).toBe(1_000)
  })
})

describe("a flexible plan", () => {
  it("accepts any amount from 200 naira until the deadline, then the rest with its fee", async () => {
    const product = await createProduct(api, {
      mode: "flexible",
      allowedFrequencies: undefined,
      cycleMonths: 1,
      price: 1_000,
    })
    const { clock, plan } = await onClock(product)
    expect(await get(plan.id)).toMatchObject({
      mode: "flexible",
      frequency: null,
      instalmentAmount: null,
      instalmentCount: null,
      nextDue: null,
      instalments: [],
      deadline: "2027-02-28T09:00:00.000Z",
    })
    expect(refused(await pay(plan), 400)).toMatchObject({ code: "parameter_missing", param: "amount" })
    expect(refused(await pay(plan, { amount: 199 }), 400).code).toBe("parameter_invalid")
    expect(data(await pay(plan, { amount: 300 })).plan).toMatchObject({
      status: "active",
      amountPaid: 300,
      instalmentsPaid: 1,
    })
    expect(data(await pay(plan, { amount: 600 })).plan).toMatchObject({ outstanding: 100, instalmentsPaid: 2 })
    // The rest is below the minimum, and may be paid anyway.
    expect(refused(await pay(plan, { amount: 99 }), 400).param).toBe("amount")
    await advance(api, clock, "2027-03-01T09:00:00Z")
    expect(await get(plan.id)).toMatchObject({ status: "overdue", pendingFee: 100 })
    expect(refused(await pay(plan, { amount: 100 }), 400).param).toBe("amount")
    expect(data(await pay(plan))).toMatchObject({ amount: 200, plan: { status: "completed" } })
  })
})

describe("extending", () => {
  it("moves unpaid instalments and the deadline, and forgives those that are due later again", async () => {
    const { clock, plan } = await onClock(await createProduct(api))
    const path = `/provider-savings/${plan.id}/extend`
    expect(refused(await api.post(path, { days: 5 }), 422).code).toBe("savings_plan_state_invalid")
    // An invalid parameter comes before a wrong state (decision A6).
    expect(refused(await api.post(path, {}), 400).param).toBe("days")
    expect(refused(await api.post(path, { deadline: "2020-01-01T00:00:00Z" }), 400).param).toBe("deadline")
    data(await pay(plan))
    await advance(api, clock, "2027-03-02T09:00:00Z")
    for (const [body, param] of [
      [{}, "days"],
      [{ days: 0 }, "days"],
      [{ days: 91 }, "days"],
      [{ days: 5, deadline: "2028-01-01T00:00:00Z" }, "deadline"],
      [{ deadline: "2027-04-30T09:00:00Z" }, "deadline"],
      [{ days: 1.5 }, "days"],
    ] as const)
      expect(refused(await api.post(path, body), 400).param, JSON.stringify(body)).toBe(param)
    expect(data(await api.post(path, { days: 1 }))).toMatchObject({
      status: "overdue",
      deadline: "2027-05-01T09:00:00.000Z",
      instalments: [
        { dueAt: START, status: "paid" },
        { dueAt: "2027-03-01T09:00:00.000Z", status: "missed" },
        { dueAt: "2027-04-01T09:00:00.000Z" },
      ],
    })
    expect(data(await api.post(path, { deadline: "2027-05-11T09:00:00Z" }))).toMatchObject({
      status: "active",
      pendingFee: 100,
      nextDue: { index: 2, dueAt: "2027-03-11T09:00:00.000Z", amount: 1_000 },
    })
    // The charged fee stays, and is paid with the next instalment.
    expect(data(await pay(plan))).toMatchObject({ amount: 1_100, plan: { pendingFee: 0 } })
    expect((await story(plan.id)).slice(3).map((line) => line.split(" ")[1])).toEqual([
      "savings_plan.overdue",
      "savings_plan.extended",
      "savings_plan.extended",
      "savings_plan.payment_received",
    ])
    expect(refused(await stranger.post(path, { days: 1 }), 404).code).toBe("feature_unavailable")
  })
})

describe("cancelling", () => {
  it("owes back the payments less the unpaid fees, and frees the slot", async () => {
    const product = await createProduct(api, { slots: 1 })
    const { clock, plan } = await onClock(product)
    data(await pay(plan))
    await advance(api, clock, "2027-03-01T09:00:00Z")
    const answer = data(await cancel(buyers(), plan))
    expect(answer).toMatchObject({
      plan: { id: plan.id, status: "cancelled", nextDue: null },
      slot: { productId: product, total: 1, used: 0, remaining: 1 },
    })
    expect(refused(await cancel(buyers(), plan), 422).code).toBe("savings_plan_state_invalid")
    expect(refused(await pay(plan), 422).code).toBe("savings_plan_state_invalid")
    expect((await books(plan.id)).slice(2)).toEqual([
      { event: "deposit_cancelled", ledger_account: "buyer_deposits", amount_kobo: 100_000 },
      { event: "deposit_cancelled", ledger_account: "cancellation_fees", amount_kobo: -10_000 },
      { event: "deposit_cancelled", ledger_account: "refunds_payable", amount_kobo: -90_000 },
    ])
    const deposit = await database.run(
      (sql) =>
        sql`SELECT paid_kobo, delivered_kobo, returned_kobo, kept_kobo, balance_kobo FROM finance.deposits WHERE plan = ${plan.id}`,
    )
    expect(deposit).toEqual([
      { paid_kobo: 100_000, delivered_kobo: 0, returned_kobo: 90_000, kept_kobo: 10_000, balance_kobo: 0 },
    ])
  })

  it("is refused after everything is paid", async () => {
    const plan = await beginPlan(buyers(), await createProduct(api))
    data(await pay(plan, { amount: 3_001 }))
    expect(refused(await cancel(buyers(), plan), 422).code).toBe("savings_plan_state_invalid")
    expect(refused(await api.post(`/provider-savings/${plan.id}/deliver`), 422).code).toBe("savings_plan_state_invalid")
    data(await api.post(`/provider-savings/${plan.id}/ship`))
    expect(refused(await api.post(`/provider-savings/${plan.id}/ship`), 422).code).toBe("savings_plan_state_invalid")
    expect(refused(await cancel(buyers(), plan), 422).code).toBe("savings_plan_state_invalid")
  })
})

describe("products", () => {
  it("are created, changed and listed with their sales", async () => {
    const id = await createProduct(api, { slots: 2, familyId: "solar" })
    const plan = await beginPlan(buyers(), id)
    data(await pay(plan))
    data(await buyers().get(`/public/save-to-buy/products/${id}`))
    const listed = data(await api.get("/provider-savings/products")).find((one: { id: string }) => one.id === id)
    expect(listed).toEqual({
      id,
      object: "savings_product",
      createdAt: expect.stringMatching(/^20\d\d-.*Z$/),
      livemode: false,
      name: "Inverter",
      description: null,
      price: 3_001,
      isActive: true,
      image: null,
      cycleMonths: 3,
      mode: "fixed",
      allowedFrequencies: ["monthly"],
      slots: { total: 2, used: 1, remaining: 1 },
      familyId: "solar",
      lateFee: 100,
      refundWindowDays: 7,
      views: 1,
      saving: 1,
      overdue: 0,
      readyToDeliver: 0,
      delivered: 0,
      collected: 1_000,
    })
    expect(data(await api.patch(`/provider-savings/products/${id}`, { price: 6_000, slots: 1 }))).toMatchObject({
      price: 6_000,
      slots: { total: 1, remaining: 0 },
    })
    expect((await get(plan.id)).targetAmount).toBe(3_001)
    await beginPlan(buyers(), await createProduct(api, { slots: null }))
    expect(data(await api.patch(`/provider-savings/products/${id}`, { slots: null })).slots).toEqual({
      total: null,
      used: 1,
      remaining: null,
    })
    await beginPlan(buyers(), id)
    const fewer = refused(await api.patch(`/provider-savings/products/${id}`, { slots: 1 }), 422)
    expect([fewer.code, fewer.param]).toEqual(["slots_in_use", "slots"])
    data(await api.patch(`/provider-savings/products/${id}`, { isActive: false }))
    const inactive = await buyers().post(`/public/save-to-buy/products/${id}/plans`, {
      buyer: { name: "Ada", email: "a@example.com" },
    })
    expect(refused(inactive, 422).code).toBe("product_inactive")
    expect(data(await api.get("/provider-savings?familyId=solar")).total).toBe(2)
  })

  it.each([
    [{ price: 199 }, "price"],
    [{ price: 300.5 }, "price"],
    [{ cycleMonths: 25 }, "cycleMonths"],
    [{ mode: "layaway" }, "mode"],
    [{ allowedFrequencies: [] }, "allowedFrequencies"],
    [{ allowedFrequencies: ["monthly", "monthly"] }, "allowedFrequencies"],
    [{ mode: "flexible" }, "allowedFrequencies"],
    [{ slots: -1 }, "slots"],
    [{ image: "http://shop.example/a.png" }, "image"],
    [{ image: "https:shop.example/a.png" }, "image"],
    [{ lateFee: -1 }, "lateFee"],
    [{ colour: "red" }, "colour"],
  ])("refuses %j and names the parameter", async (over, param) => {
    const body = {
      name: "Inverter",
      price: 3_000,
      cycleMonths: 3,
      mode: "fixed",
      allowedFrequencies: ["monthly"],
      ...over,
    }
    expect(refused(await api.post("/provider-savings/products", body), 400).param).toBe(param)
  })
})

describe("starting a plan", () => {
  const path = (product: string) => `/public/save-to-buy/products/${product}/plans`

  it("refuses missing or invalid input, and names it", async () => {
    const product = await createProduct(api, { allowedFrequencies: ["weekly", "monthly"] })
    const ada = { name: "Ada", email: "ada@example.com" }
    for (const [body, param] of [
      [{}, "buyer"],
      [{ buyer: { name: "Ada" }, frequency: "monthly" }, "buyer.email"],
      [{ buyer: { name: "Ada", email: "ada" }, frequency: "monthly" }, "buyer.email"],
      [{ buyer: { name: "Ada", phone: "12" }, frequency: "monthly" }, "buyer.phone"],
      [{ buyer: { name: "Ada", phone: "0803 123 456" }, frequency: "monthly" }, "buyer.phone"],
      [{ buyer: { name: "\u200b", phone: "0803 123 4567" }, frequency: "monthly" }, "buyer.name"],
      [{ buyer: ada }, "frequency"],
      [{ buyer: ada, frequency: "daily" }, "frequency"],
      [{ buyer: ada, frequency: "monthly", testClock: "clock_none" }, "testClock"],
      [{ buyer: ada, frequency: "monthly", coupon: "X" }, "coupon"],
    ] as const)
      expect(refused(await buyers().post(path(product), body), 400).param, JSON.stringify(body)).toBe(param)
    const incomplete = refused(await buyers().post(path(product), { buyer: "Ada" }), 400)
    expect(incomplete.message).toBe("buyer must be an object with the buyer's name, and email or phone.")
    const small = await createProduct(api, { allowedFrequencies: ["daily"], price: 5_000, cycleMonths: 1 })
    expect(refused(await buyers().post(path(small), { buyer: ada }), 422).code).toBe("instalment_too_small")
    expect(refused(await buyers().post(path("prd_none"), { buyer: ada }), 404).code).toBe("resource_missing")
    expect(refused(await buyers("live").post(path(product), { buyer: ada, frequency: "monthly" }), 404).code).toBe(
      "resource_missing",
    )
  })

  it("happens once for each Idempotency-Key of an address, and its token is not stored", async () => {
    const product = await createProduct(api, { slots: 2 })
    const body = { buyer: { name: "Ada", email: "ada@example.com" } }
    const first = data(await buyers().post(path(product), body, { "idempotency-key": "k1" }), 201)
    const again = await buyers().post(path(product), body, { "idempotency-key": "k1" })
    expect([again.body.data, again.headers.get("idempotent-replayed")]).toEqual([first, "true"])
    expect(first.accessToken).toMatch(/^00[A-Za-z0-9_-]{51}$/)
    expect(first).toMatchObject({ publicId: expect.stringMatching(/^SB-[0-9A-HJKMNP-TV-Z]{10}$/), amountDue: 1_000 })
    expect(first.pageUrl.endsWith(`/save/${first.accessToken}`)).toBe(true)
    expect(first.paymentUrl).toBe(`${first.pageUrl}/pay`)
    expect(data(await buyers().get(`/public/save-to-buy/p/${first.accessToken}`)).id).toBe(first.publicId)
    expect(refused(await buyers("live").get(`/public/save-to-buy/p/${first.accessToken}`), 404).code).toBe(
      "resource_missing",
    )
    expect(refused(await buyers().get("/public/save-to-buy/p/nothing"), 404).code).toBe("resource_missing")
    const wrong = await buyers().get(`/public/save-to-buy/p/${first.accessToken}/cancel`)
    expect([refused(wrong, 404).code, wrong.headers.get("allow")]).toEqual(["route_missing", "POST"])
    expect(refused(await buyers().get("/public/nothing"), 404).code).toBe("route_missing")
    const kept = await database.run(
      (sql) =>
        sql<{
          kept: boolean
        }>`SELECT p::text LIKE ${`%${first.accessToken}%`} AS kept FROM instalment_plan p WHERE id = ${first.publicId}`,
    )
    expect(kept).toEqual([{ kept: false }])
    expect(JSON.stringify(await api.all("/events"))).not.toContain(first.accessToken)
  })

  it("allows requests from the shop's own page, from any origin", async () => {
    const product = await createProduct(api)
    const offer = await buyers().request("GET", `/public/save-to-buy/products/${product}`, undefined, {
      origin: "https://shop.example",
    })
    expect([offer.status, offer.headers.get("access-control-allow-origin")]).toEqual([200, "*"])
    const asked = await buyers().request("OPTIONS", path(product), undefined, {
      origin: "https://shop.example",
      "access-control-request-method": "POST",
    })
    expect([asked.status, asked.headers.get("access-control-allow-methods")]).toEqual([204, "GET, POST"])
  })
})

describe("lists and summaries", () => {
  it("are paged, and sum up", async () => {
    const product = await createProduct(api, { familyId: "fans" })
    const plans = [
      await beginPlan(buyers(), product),
      await beginPlan(buyers(), product),
      await beginPlan(buyers(), product),
    ]
    data(await pay(plans[0]!, { amount: 3_001 }))
    data(await pay(plans[1]!))
    const first = data(await api.get("/provider-savings?familyId=fans&limit=2"))
    expect([first.total, first.page, first.limit, first.items.map(({ id }: { id: string }) => id)]).toEqual([
      3,
      1,
      2,
      [plans[2]!.id, plans[1]!.id],
    ])
    expect(
      data(await api.get("/provider-savings?familyId=fans&limit=2&page=2")).items.map(({ id }: { id: string }) => id),
    ).toEqual([plans[0]!.id])
    expect(
      data(await api.get("/provider-savings?familyId=fans&status=completed")).items.map(({ id }: { id: string }) => id),
    ).toEqual([plans[0]!.id])
    expect(refused(await api.get("/provider-savings?limit=101"), 400).param).toBe("limit")
    expect(refused(await api.get("/provider-savings?page=0"), 400).param).toBe("page")
    expect(refused(await api.get("/provider-savings?status=new"), 400).param).toBe("status")
    expect(refused(await api.get("/provider-savings/summary?period=1y"), 400).param).toBe("period")
    for (const [period, length] of [
      ["7d", 7],
      ["30d", 30],
      ["90d", 90],
      ["12m", 12],
    ] as const) {
      const summary = data(await api.get(`/provider-savings/summary?period=${period}`))
      expect(summary.series.length).toBe(length)
      expect(summary.products.find(({ id }: { id: string }) => id === product)).toMatchObject({
        saving: 1,
        readyToDeliver: 1,
        collected: 4_001,
      })
    }
    const { series, outstanding, fulfilment, completionRate } = data(await api.get("/provider-savings/summary"))
    const today = new Date().toISOString().slice(0, 10)
    expect(series.at(-1)).toMatchObject({ date: today })
    expect(series.at(-1).collected).toBeGreaterThanOrEqual(4_001)
    expect(series.at(-1).newPlans).toBeGreaterThanOrEqual(3)
    expect(outstanding.total).toBeGreaterThanOrEqual(2_001)
    expect(fulfilment.readyToDeliver).toBeGreaterThanOrEqual(1)
    expect(completionRate).toBeGreaterThan(0)
    expect(completionRate).toBeLessThan(1)
  })
})

describe("very long plans", () => {
  it("are listed up to a page's limit, and the error names the limit", async () => {
    const product = await createProduct(api, {
      price: 500_000,
      cycleMonths: 24,
      allowedFrequencies: ["daily"],
      familyId: "daily",
    })
    await Promise.all(Array.from({ length: 21 }, () => beginPlan(buyers(), product)))
    const error = refused(await api.get("/provider-savings?familyId=daily&limit=100"), 400)
    expect([error.code, error.param]).toEqual(["parameter_invalid", "limit"])
    expect(error.message).toContain("limit must be at most 20 on this page")
    expect(data(await api.get("/provider-savings?familyId=daily")).items.length).toBe(20)
    expect(data(await api.get("/provider-savings?familyId=daily&page=2")).items.length).toBe(1)
    // Its events are within the event limit, without the fields that are too large.
    const [created] = await api.all("/events?type=savings_plan.created")
    expect(created.data.object).toMatchObject({ status: "pending", instalmentCount: expect.any(Number) })
  })
})

describe("accounts that are not shops", () => {
  it("get no such endpoints, in either environment, whatever other errors the request has", async () => {
    for (const [method, path] of [
      ["GET", "/provider-savings"],
      ["GET", "/provider-savings/summary?period=nonsense"],
      ["GET", "/provider-savings/products"],
      ["POST", "/provider-savings/products"],
      ["PATCH", "/provider-savings/products/prd_none"],
      ["GET", "/provider-savings/SB-NONE"],
      ["POST", "/provider-savings/SB-NONE/extend"],
      ["POST", "/provider-savings/SB-NONE/ship"],
      ["POST", "/provider-savings/SB-NONE/deliver"],
    ] as const)
      expect(refused(await stranger.request(method, path), 404).code, `${method} ${path}`).toBe("feature_unavailable")
    expect(data(await live.get("/provider-savings")).total).toBe(0)
  })
})
