/** Saves the method that a buyer paid with on a rail's page as a payment method of the customer (decision P7). */
import { createHash } from "node:crypto"
import { PgTypes } from "@effect/sql-pg"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { ofTenant } from "../../db/tenant.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import type { SavedMethod } from "../../rails/rail/Rail.ts"
import { Vault } from "../../security/secret/Vault.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { customers } from "../customer/customer.ts"
import { methodPlace } from "../payment_method/paymentMethods.ts"

/** Identifies a card that the customer already has; the rail's own signature identifies it better than the token. */
const signatureOf = ({ signature, token }: SavedMethod): string =>
  createHash("sha256")
    .update(signature ?? Redacted.value(token))
    .digest("hex")

/** The e-mail address with which the page was opened; used if the rail does not report with which address it saved the method. */
const emailOf = Effect.fnUntraced(function* (charge: ChargeRow) {
  const customer = (yield* customers.find(charge, [charge.customer_id])).get(charge.customer_id)
  return customer?.email ?? ""
})

/**
 * Attaches the method that a rail saved to the charge's customer, who is locked. A method that the customer already has gets the new token.
 * Runs in the running transaction.
 */
export const saveMethod = Effect.fnUntraced(function* (charge: ChargeRow, saved: SavedMethod, now: number) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const { account_id, livemode, customer_id, rail } = charge
  const signature = signatureOf(saved)
  const [existing] = yield* sql<{ id: string }>`
    SELECT id FROM payment_method
    WHERE ${ofTenant(sql, charge)} AND customer_id = ${customer_id} AND rail = ${rail} AND signature = ${signature}`
  const id = existing?.id ?? newId("payment_method")
  const { type, brand, last4, bank_name, exp_month, exp_year } = saved
  const email = saved.email ?? (yield* emailOf(charge))
  const sealed = vault.seal(methodPlace({ account_id, livemode, customer_id, id }), saved.token)
  yield* existing === undefined
    ? sql`
        INSERT INTO payment_method (account_id, livemode, customer_id, id, type, brand, last4, bank_name, exp_month, exp_year, created_at, rail, sealed, email, signature)
        VALUES (${account_id}, ${livemode}, ${customer_id}, ${id}, ${type}, ${brand}, ${last4}, ${bank_name}, ${exp_month}, ${exp_year},
          ${PgTypes.timestamptz(new Date(now))}, ${rail}, ${sealed}, ${email}, ${signature})`
    : sql`
        UPDATE payment_method SET sealed = ${sealed}, email = ${email}, exp_month = ${exp_month}, exp_year = ${exp_year}
        WHERE ${ofTenant(sql, charge)} AND customer_id = ${customer_id} AND id = ${id}`
  return { id, type, brand, last4, bank_name, exp_month, exp_year } satisfies PaymentMethodSummary
})
