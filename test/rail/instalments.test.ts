/** Tests instalments that buyers pay on the rails' own pages (decisions L8, P5, P6). */
import { describe, expect, it } from "vitest"
import { createApi } from "../support/api.ts"
import { open as openPage, submit, submitForm } from "../support/checkout.ts"
import { beginPlan, cancel, createProduct, type StartedPlan } from "../support/instalments.ts"
import { BOTH, type LiveAccount, useRails } from "../support/rails/live.ts"
import { data } from "../support/story.ts"

const { database, server, open } = useRails()

const MINUTE_MS = 60_000
const buyers = () => createApi(server().origin, undefined, "live")

const begin = async ({ api }: LiveAccount) => {
  data(await api.patch("/providers/me/vertical", { vertical: "ecommerce" }))
  return beginPlan(buyers(), await createProduct(api))
}
const get = async ({ api }: LiveAccount, { id }: StartedPlan) => data(await api.get(`/provider-savings/${id}`))
const newest = async ({ id }: StartedPlan) => {
  const [row] = await database.run(
    (sql) => sql<{ id: string }>`SELECT charge_id AS id FROM instalment_plan WHERE id = ${id}`,
  )
  return row!.id
}

describe.each(BOTH)("an instalment on %s", (name) => {
  it("is paid on the rail's page, and the next one with the saved method", async () => {
    const account = await open(name)
    const { api, rail, merchant } = account
    const plan = await begin(account)
    const sent = await submitForm(plan.paymentUrl, { amount: "1000", seen: "0", submission: "a" })
    expect(sent.status).toBe(303)
    expect(sent.headers.get("location")).toContain(rail.url)
    // Another tab is redirected to the same page.
    const other = data(await submit(plan.paymentUrl, {}))
    expect(other).toMatchObject({ status: "pending", amount: 1_000, redirect_url: sent.headers.get("location") })
    const reference = await newest(plan)
    const back = await rail.payOnPage(reference, "pay", { card: { last4: "0409" } })
    expect(back).toContain(`${plan.paymentUrl}/return`)
    const returned = await openPage(back!)
    expect([returned.status, returned.headers.get("location")]).toEqual([303, `${new URL(plan.pageUrl).pathname}?paid`])
    expect(await get(account, plan)).toMatchObject({ status: "active", amountPaid: 1_000 })
    expect(merchant.books.get(reference).taken).toEqual([100_000])
    const [charge] = await api.all("/charges")
    const [saved] = data(await api.get(`/customers/${charge.customer}/payment-methods`))
    const second = data(await submit(plan.paymentUrl, { payment_method: saved.id }))
    expect(second.amount).toBe(1_000)
    await account.settled(await newest(plan))
    expect(await get(account, plan)).toMatchObject({ amountPaid: 2_000, instalmentsPaid: 2 })
    expect(await account.books()).toEqual({ clearing: 200_000, buyer_deposits: -200_000 })
  })

  it("without a payment is given up after half an hour, and can be paid again", async () => {
    const account = await open(name)
    const plan = await begin(account)
    data(await submit(plan.paymentUrl, {}))
    await account.pass(30 * MINUTE_MS)
    expect(await account.settled(await newest(plan))).toMatchObject({
      status: "failed",
      failure_code: "customer_abandoned",
    })
    expect((await get(account, plan)).status).toBe("pending")
    expect(data(await submit(plan.paymentUrl, {})).status).toBe("pending")
    await openPage((await account.rail.payOnPage(await newest(plan), "pay"))!)
    expect((await get(account, plan)).status).toBe("active")
  })

  it("that is paid after the plan was cancelled is owed back", async () => {
    const account = await open(name)
    const plan = await begin(account)
    data(await submit(plan.paymentUrl, {}))
    data(await cancel(buyers(), plan))
    await openPage((await account.rail.payOnPage(await newest(plan), "pay"))!)
    expect(await account.settled(await newest(plan))).toMatchObject({ status: "succeeded", refund_due: true })
    expect(await account.books()).toEqual({ clearing: 100_000, refunds_payable: -100_000 })
  })
})
