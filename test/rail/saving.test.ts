/** Tests that methods saved by rails become payment methods (decision P7), also with a minimal answer. */
import { Effect, Redacted } from "effect"
import { describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import type { ChargeRow } from "../../src/billing/charge/charge.ts"
import { saveMethod } from "../../src/billing/payments/saveMethod.ts"
import type { SavedMethod } from "../../src/rails/rail/Rail.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { useInstance } from "../support/instance.ts"
import { createCustomer } from "../support/story.ts"

const { database, live, accountId } = useInstance()

const CARD = {
  token: Redacted.make("AUTH_one"),
  type: "card",
  brand: "visa",
  last4: "4081",
  bank_name: null,
  exp_month: 12,
  exp_year: 2031,
  signature: null,
} as const

const save = (customer: string, saved: SavedMethod) => {
  // The fields of a charge that the saving reads.
  const charge = { account_id: accountId(), livemode: true, customer_id: customer, rail: "paystack" } as ChargeRow
  return database.run(() => saveMethod(charge, saved, Date.now()).pipe(Effect.provide(Vault.layer(KEYS))))
}

const emailsOf = async (customer: string) =>
  (
    await database.run(
      (sql) => sql<{ email: string }>`SELECT email FROM payment_method WHERE customer_id = ${customer}`,
    )
  ).map(({ email }) => email)

describe("a payment method that a rail saved", () => {
  it("is charged with the e-mail that the rail repeats", async () => {
    const customer = await createCustomer(live, { email: "ada@example.com" })
    await save(customer, { ...CARD, email: "Ada@example.com" })
    expect(await emailsOf(customer)).toEqual(["Ada@example.com"])
  })

  it("is charged with the customer's e-mail, which the rail got, if it repeats none", async () => {
    const customer = await createCustomer(live, { email: "ada@example.com" })
    await save(customer, { ...CARD, email: null })
    expect(await emailsOf(customer)).toEqual(["ada@example.com"])
  })
})
