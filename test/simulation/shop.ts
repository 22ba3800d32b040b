/** Creates a merchant's data before any sale: an account, a customer, a plan, cards. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeRow } from "../../src/billing/charge/charge.ts"
import { createCustomers } from "../../src/billing/customer/customers.ts"
import { saveMethod } from "../../src/billing/payments/saveMethod.ts"
import { createPlan } from "../../src/billing/plan/plans.ts"
import type { Tenant } from "../../src/db/tenant.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import type { Merchant } from "../support/rails/wire.ts"

const EMAIL = "ada@example.com"

/** The IDs of a customer and of a daily plan. */
export const openShop = Effect.fnUntraced(function* (tenant: Tenant, amountKobo: number) {
  const sql = yield* SqlClient.SqlClient
  const creation = Effect.gen(function* () {
    const customer = yield* (yield* createCustomers(tenant, [{ name: "Ada Obi", email: EMAIL }]))[0]!
    const plan = yield* createPlan(tenant, {
      name: "Gym",
      amount: amountKobo,
      currency: "NGN",
      billing_cycle: "daily",
      pause_enabled: true,
      reminders: { enabled: false },
    })
    return { customer: customer.id, plan: plan.id }
  })
  return yield* sql.withTransaction(creation)
})

/** Saves a further card as a rail would. Returns the payment method's ID. */
export const saveCardAt = (tenant: Tenant, customer: string, rail: OutsideRail, { books }: Merchant) => {
  const issued = books.issueToken(EMAIL)
  // The fields of a charge that the saving reads.
  const charge = { ...tenant, customer_id: customer, rail } as ChargeRow
  const saved = {
    token: Redacted.make(issued.token),
    email: EMAIL,
    type: "card" as const,
    brand: "visa",
    last4: "4081",
    bank_name: null,
    exp_month: 12,
    exp_year: 2030,
    signature: issued.token,
  }
  return Effect.map(saveMethod(charge, saved, Date.now()), ({ id }) => id)
}

/** The customer's first default method, set without a notification. */
export const beginWithCard = ({ account_id }: Tenant, card: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql`UPDATE customer SET default_payment_method_id = ${card} WHERE account_id = ${account_id}`,
  )
