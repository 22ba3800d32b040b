/** Tests one process that changes plans and customers while another sells: purchases use the current data. */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { Answer, Api } from "../support/api.ts"
import { createApi } from "../support/api.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { useInstance } from "../support/instance.ts"
import { type Server, startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const { api, stranger, database, keys } = useInstance()
let other: Server
let elsewhere: Api
beforeAll(async () => {
  other = await startServer(database.url(), { WORKERS: "0" })
  elsewhere = createApi(other.origin, keys().sk_test)
})
afterAll(() => other.stop())

const outcome = ({ status, body }: Answer) => (status < 400 ? status : `${body.error.code} ${body.error.param}`)

const SALE = { amount: 100_000, currency: "NGN" }

/** A customer that has paid by its default payment method. The first process has both in its cache. */
const payingCustomer = async () => {
  const customer = await createCustomer(api)
  data(await api.patch(`/customers/${customer}`, { default_payment_method: "pm_test_success" }))
  for (let n = 0; n < 2; n++) data(await api.post("/charges", { ...SALE, customer }), 201)
  return customer
}

const subscribe = (customer: string, plan: string) => api.post("/subscriptions", { customer, plan })

/** The amount that the customer's new subscription was charged. */
const charged = async (customer: string, plan: string) => {
  const { latest_charge } = data(await subscribe(customer, plan), 201)
  const { amount, payment_method } = data(await api.get(`/charges/${latest_charge}`))
  return { amount, method: payment_method.id }
}

describe("a plan", () => {
  it("sells at the price that another process has set", async () => {
    const customer = await payingCustomer()
    const plan = await createPlan(api)
    expect(await charged(customer, plan)).toMatchObject({ amount: 500_000 })
    for (let amount = 600_000; amount < 1_000_000; amount += 50_000) {
      data(await elsewhere.patch(`/plans/${plan}`, { amount }))
      expect(await charged(customer, plan)).toMatchObject({ amount })
      expect(await charged(customer, plan)).toMatchObject({ amount })
    }
    data(await elsewhere.patch(`/plans/${plan}`, { trial_days: 7 }))
    expect(data(await subscribe(customer, plan), 201).status).toBe("trialing")
  })

  it("sells nothing after another process has archived it, and sells again after it is restored", async () => {
    const customer = await payingCustomer()
    const plan = await createPlan(api)
    await charged(customer, plan)
    data(await elsewhere.post(`/plans/${plan}/archive`, {}))
    expect(outcome(await subscribe(customer, plan))).toBe("plan_archived null")
    data(await elsewhere.post(`/plans/${plan}/unarchive`, {}))
    expect(outcome(await subscribe(customer, plan))).toBe(201)
  })
})

describe("a customer", () => {
  it("pays by the default that another process has set", async () => {
    const customer = await payingCustomer()
    const plan = await createPlan(api)
    expect(await charged(customer, plan)).toMatchObject({ method: "pm_test_success" })
    for (const default_payment_method of ["pm_test_visa", "pm_test_success", "pm_test_mastercard"]) {
      data(await elsewhere.patch(`/customers/${customer}`, { default_payment_method }))
      expect(await charged(customer, plan)).toMatchObject({ method: default_payment_method })
    }
  })

  it("does not pay by a method that another process has removed", async () => {
    const customer = await payingCustomer()
    const remove = () => elsewhere.request("DELETE", `/customers/${customer}/payment-methods/pm_test_success`)
    expect((await remove()).status).toBe(200)
    expect(outcome(await api.post("/charges", { ...SALE, customer }))).toBe("payment_method_required null")
    // Naming it attaches it again.
    const named = { ...SALE, customer, payment_method: "pm_test_success" }
    for (let n = 0; n < 2; n++) expect(outcome(await api.post("/charges", named))).toBe(201)
    expect((await remove()).status).toBe(200)
    expect(outcome(await api.post("/charges", named))).toBe(201)
    expect(data(await api.get(`/customers/${customer}/payment-methods`))).toMatchObject([{ id: "pm_test_success" }])
  })

  it("pays by a card that expires at the newest expiry date", async () => {
    const customer = await payingCustomer()
    const renewed = (year: number) =>
      database.run(
        (sql) => sql`UPDATE payment_method SET exp_month = 1, exp_year = ${year} WHERE customer_id = ${customer}`,
      )
    for (const year of [2040, 2041]) {
      await renewed(year)
      const { payment_method } = data(await api.post("/charges", { ...SALE, customer }), 201)
      expect(payment_method).toMatchObject({ exp_month: 1, exp_year: year })
    }
  })

  it("is waited for while it is locked, and delays no others", async () => {
    const [locked, free] = [await payingCustomer(), await payingCustomer()]
    const holding = await lockUntilReleased(
      database,
      (sql) => sql`SELECT 1 FROM customer WHERE id = ${locked} FOR UPDATE`,
    )
    const waiting = api.post("/charges", { ...SALE, customer: locked })
    await holding.waiters()
    expect(outcome(await api.post("/charges", { ...SALE, customer: free }))).toBe(201)
    await holding.release()
    expect(outcome(await waiting)).toBe(201)
  })

  it("is visible to its account only, as is a plan", async () => {
    const [customer, plan] = [await payingCustomer(), await createPlan(api)]
    await charged(customer, plan)
    const theirs = { customer: await createCustomer(stranger), plan: await createPlan(stranger) }
    const bought = { ...theirs, payment_method: "pm_test_success" }
    for (let n = 0; n < 2; n++) expect(outcome(await stranger.post("/subscriptions", bought))).toBe(201)
    expect(outcome(await stranger.post("/subscriptions", { ...bought, plan }))).toBe("resource_missing plan")
    expect(outcome(await stranger.post("/subscriptions", { ...bought, customer }))).toBe("resource_missing customer")
  })

  it("no longer exists after another process has reset the sandbox", async () => {
    const [customer, plan] = [await payingCustomer(), await createPlan(api)]
    await charged(customer, plan)
    expect((await elsewhere.post("/test/reset", { confirm: "RESET" })).status).toBe(202)
    const refused = await eventually(async () => {
      const result = outcome(await subscribe(customer, plan))
      return result === "reset_in_progress null" ? undefined : result
    })
    expect(refused).toBe("resource_missing customer")
  })
})
