/** A merchant of the service on stand-ins for rails: its credentials, and payment methods that a rail has saved. */
import { Effect, Redacted } from "effect"
import { KEYS } from "../../../scripts/server.ts"
import type { ChargeRow } from "../../../src/billing/charge/charge.ts"
import { saveMethod } from "../../../src/billing/payments/saveMethod.ts"
import { replaceCredentials } from "../../../src/rails/credential/credentials.ts"
import type { OutsideRail, SavedMethod } from "../../../src/rails/rail/Rail.ts"
import { Vault } from "../../../src/security/secret/Vault.ts"
import type { TestDatabase } from "../database.ts"
import type { Merchant } from "./wire.ts"

/** Puts an account on a rail, with the keys of a merchant there. */
export const putOnRail = (database: TestDatabase, account: string, rail: OutsideRail, merchant: Merchant) => {
  const fields = {
    secret_key: Redacted.make(merchant.secretKey),
    ...(rail === "flutterwave" ? { webhook_secret: Redacted.make(merchant.webhookSecret) } : {}),
  }
  return database.run(() => replaceCredentials(account, rail, fields).pipe(Effect.provide(Vault.layer(KEYS))))
}

/** Attaches a card that the merchant's rail saved with this e-mail to a customer. Returns the payment method's ID. */
export const saveCard = async (
  database: TestDatabase,
  account: string,
  rail: OutsideRail,
  merchant: Merchant,
  customer: string,
  email: string,
): Promise<string> => {
  const issued = merchant.books.issueToken(email)
  const saved: SavedMethod = {
    token: Redacted.make(issued.token),
    email,
    type: "card",
    brand: "visa",
    last4: issued.card.last4,
    bank_name: issued.card.bank,
    exp_month: 12,
    exp_year: 2031,
    signature: issued.signature,
  }
  // The fields of a charge that the saving reads.
  const charge = { account_id: account, livemode: true, customer_id: customer, rail } as ChargeRow
  const { id } = await database.run(() => saveMethod(charge, saved, Date.now()).pipe(Effect.provide(Vault.layer(KEYS))))
  return id
}
