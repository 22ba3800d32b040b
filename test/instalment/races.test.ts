/** Tests concurrent buyers, merchants and clocks on products and plans: nothing is sold twice, paid twice or lost. */
import { describe, expect, it } from "vitest"
import type { Answer } from "../support/api.ts"
import { submitForm } from "../support/checkout.ts"
import { beginPlan, cancel, createProduct, pay, type StartedPlan, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, database, accountId } = instance
useWhole(database)
const { buyers } = useShop(instance)

const times = <T>(count: number, make: (n: number) => Promise<T>): Promise<ReadonlyArray<T>> =>
  Promise.all(Array.from({ length: count }, (_, n) => make(n)))
const codes = (answers: ReadonlyArray<Answer>) =>
  answers.map(({ status, body }) => (status < 300 ? String(status) : body.error.code)).sort()
const get = async (id: string) => data(await api.get(`/provider-savings/${id}`))
const BUYER = { buyer: { name: "Ada", email: "ada@example.com" } }

/** The charges for a plan, and the balances of its books. */
const moneyOf = async ({ id }: Pick<StartedPlan, "id">) => {
  const [row] = await database.run(
    (sql) => sql<{ paid: number; pending: number; refundable: number; held: number }>`
      SELECT count(*) FILTER (WHERE status = 'succeeded' AND NOT refund_due) AS paid, count(*) FILTER (WHERE status = 'pending') AS pending,
        count(*) FILTER (WHERE refund_due) AS refundable,
        (SELECT coalesce(-sum(amount_kobo), 0)::bigint FROM ledger_line WHERE ledger_account = 'buyer_deposits' AND detail = ${id}) AS held
      FROM charge WHERE page_id = ${id} AND account_id = ${accountId()}`,
  )
  return row!
}

describe("the last slots", () => {
  it("go to that many buyers, however many come at the same time, and return when plans are cancelled", async () => {
    const product = await createProduct(api, { slots: 5 })
    const path = `/public/save-to-buy/products/${product}/plans`
    const answers = await times(16, () => buyers().post(path, BUYER))
    expect(codes(answers)).toEqual([...Array(5).fill("201"), ...Array(11).fill("slots_exhausted")])
    const tokens = answers.filter(({ status }) => status === 201).map(({ body }) => ({ token: body.data.accessToken }))
    // All buyers leave while others start.
    const [left, came] = await Promise.all([
      Promise.all(tokens.map((plan) => cancel(buyers(), plan))),
      times(12, () => buyers().post(path, BUYER)),
    ])
    expect(codes(left)).toEqual(Array(5).fill("200"))
    const made = came.filter(({ status }) => status === 201).length
    expect(made).toBeLessThanOrEqual(5)
    const listed = data(await api.get("/provider-savings/products")).find(({ id }: { id: string }) => id === product)
    expect(listed.slots).toEqual({ total: 5, used: made, remaining: 5 - made })
  })

  it("cannot be oversold by any statement", async () => {
    const product = await createProduct(api, { slots: 1 })
    await beginPlan(buyers(), product)
    const second = database.run(
      (sql) => sql`UPDATE instalment_product SET slots_used = slots_used + 1 WHERE id = ${product}`,
    )
    await expect(second).rejects.toThrow()
  })
})

describe("one instalment", () => {
  it.each(["json", "forms"])("is paid once, however many tabs pay it (%s)", async (kind) => {
    const product = await createProduct(api)
    for (let round = 0; round < 4; round++) {
      const plan = await beginPlan(buyers(), product)
      if (kind === "json") {
        const answers = await times(8, () => pay(plan))
        expect(answers.filter(({ status }) => status === 200).length).toBe(1)
        for (const { status, body } of answers.filter(({ status }) => status !== 200))
          expect([status, body.error.code]).toEqual([422, "amount_changed"])
      } else {
        const answers = await times(8, (n) =>
          submitForm(plan.paymentUrl, {
            payment_method: "pm_test_visa",
            amount: "1000",
            seen: "0",
            submission: `tab ${n}`,
          }),
        )
        expect(answers.filter(({ status }) => status === 303).length).toBe(1)
      }
      expect(await get(plan.id)).toMatchObject({ status: "active", amountPaid: 1_000, instalmentsPaid: 1 })
      expect(await moneyOf(plan)).toEqual({ paid: 1, pending: 0, refundable: 0, held: 100_000 })
    }
  })

  it("is paid once by one form that is sent repeatedly, and the page says so each time", async () => {
    const plan = await beginPlan(buyers(), await createProduct(api))
    const answers = await times(6, () => pay(plan, { submission: "the form" }))
    expect(codes(answers)).toEqual(Array(6).fill("200"))
    expect(data(await pay(plan, { submission: "the form" })).plan.amountPaid).toBe(1_000)
    expect(await moneyOf(plan)).toEqual({ paid: 1, pending: 0, refundable: 0, held: 100_000 })
  })

  it("is not paid by a page that was opened before another payment", async () => {
    const plan = await beginPlan(buyers(), await createProduct(api))
    data(await pay(plan))
    const stale = await submitForm(plan.paymentUrl, {
      payment_method: "pm_test_visa",
      amount: "1000",
      seen: "0",
      submission: "old",
    })
    expect([stale.status, stale.text.includes("A payment was made meanwhile")]).toEqual([422, true])
    expect((await get(plan.id)).amountPaid).toBe(1_000)
  })
})

describe("at the same time", () => {
  it("cancelling and paying: the payment is a deposit that is owed back, or is owed back alone", async () => {
    const product = await createProduct(api)
    for (let round = 0; round < 6; round++) {
      const plan = await beginPlan(buyers(), product)
      const [paid, cancelled] = await Promise.all([pay(plan), cancel(buyers(), plan)])
      expect(cancelled.status).toBe(200)
      const money = await moneyOf(plan)
      expect([money.pending, money.held]).toEqual([0, 0])
      // A buyer whose payment came too late sees that, not a confirmation.
      const isOwedBack = paid.status === 422 && paid.body.error.message.includes("is owed back: the plan is cancelled")
      expect([money.paid, money.refundable]).toEqual([paid.status === 200 ? 1 : 0, isOwedBack ? 1 : 0])
      expect(await get(plan.id)).toMatchObject({ status: "cancelled" })
      const [owed] = await database.run(
        (sql) => sql<{ kobo: number }>`
          SELECT coalesce(-sum(l.amount_kobo), 0)::bigint AS kobo FROM ledger_line l JOIN instalment_plan p ON p.customer_id = l.detail
          WHERE l.ledger_account = 'refunds_payable' AND p.id = ${plan.id}`,
      )
      expect(owed!.kobo).toBe(paid.status === 200 || isOwedBack ? 100_000 : 0)
    }
  })

  it("extending while a clock misses an instalment: one after the other, in either order", async () => {
    const product = await createProduct(api)
    for (let round = 0; round < 3; round++) {
      const clock = await createClock(api, "2027-01-31T09:00:00Z")
      const plan = await beginPlan(buyers(), product, { testClock: clock })
      data(await pay(plan))
      const [, extended] = await Promise.all([
        advance(api, clock, "2027-03-02T00:00:00Z"),
        api.post(`/provider-savings/${plan.id}/extend`, { days: 14 }),
      ])
      const now = await get(plan.id)
      if (extended.status === 200) expect(now.nextDue.dueAt).toBe("2027-03-14T09:00:00.000Z")
      else expect(extended.body.error.code).toBe("test_clock_advancing")
      expect([now.status, now.pendingFee]).toEqual(
        extended.status === 200 && now.pendingFee === 0 ? ["active", 0] : [now.status, 100],
      )
    }
  })

  it("shipping and cancelling a fully paid plan: it is shipped", async () => {
    const product = await createProduct(api)
    for (let round = 0; round < 4; round++) {
      const plan = await beginPlan(buyers(), product)
      data(await pay(plan, { amount: 3_001 }))
      const ship = () => api.post(`/provider-savings/${plan.id}/ship`)
      const [one, two, cancelled] = await Promise.all([ship(), ship(), cancel(buyers(), plan)])
      expect(codes([one, two])).toEqual(["200", "savings_plan_state_invalid"])
      expect(cancelled.status).toBe(422)
      expect((await get(plan.id)).status).toBe("shipped")
    }
  })
})
