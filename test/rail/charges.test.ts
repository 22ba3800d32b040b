/** Charges at the rails of the outside world, whatever those say (decisions P9 to P11). */
import { afterAll, beforeAll, describe, expect, it } from "vitest"
import type { OutsideRail } from "../../src/rail/Rail.ts"
import { useOwnInstance } from "../support/instance.ts"
import { startFlutterwave } from "../support/rails/flutterwave.ts"
import { putOnRail, saveCard } from "../support/rails/merchant.ts"
import { startPaystack } from "../support/rails/paystack.ts"
import { createCustomer, createPlan, data } from "../support/story.ts"

const paystack = await startPaystack()
const flutterwave = await startFlutterwave()
const standIns = { paystack, flutterwave }
afterAll(async () => {
  await paystack.close()
  await flutterwave.close()
})

const {
  database,
  live: api,
  accountId,
} = useOwnInstance(() => ({
  PAYSTACK_URL: paystack.url,
  FLUTTERWAVE_URL: flutterwave.url,
}))

const merchantAt = (rail: OutsideRail) => [...standIns[rail].merchants.values()][0]!

const buyer = async (rail: OutsideRail, email = "ada@example.com") => {
  const customer = await createCustomer(api, { email })
  const method = await saveCard(database, accountId(), rail, merchantAt(rail), customer, email)
  return { customer, method }
}

describe.each(["paystack", "flutterwave"] as const)("%s", (rail) => {
  beforeAll(() => putOnRail(database, accountId(), rail, merchantAt(rail)))

  it("charges a saved card, once", async () => {
    const { customer, method } = await buyer(rail)
    const charge = data(
      await api.post("/charges", { customer, amount: 123_456, currency: "NGN", payment_method: method }),
      201,
    )
    expect(charge).toMatchObject({ status: "succeeded", processor: rail, amount: 123_456 })
    expect(standIns[rail].books.get(charge.id)).toMatchObject({ taken: [123_456], status: "succeeded" })
  })

  it("subscribes", async () => {
    const { customer, method } = await buyer(rail)
    const plan = await createPlan(api)
    const subscription = data(await api.post("/subscriptions", { customer, plan, payment_method: method }), 201)
    expect(subscription.status).toBe("active")
  })
})
