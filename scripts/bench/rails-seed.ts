/** Creates live accounts whose subscriptions are all due, with payment methods saved at their rail. */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { methodPlace } from "../../src/billing/payment_method/paymentMethods.ts"
import { rowsAsTable } from "../../src/db/rows.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { replaceCredentials } from "../../src/rails/credential/credentials.ts"
import { isOutside, type RailName } from "../../src/rails/rail/Rail.ts"
import { Vault } from "../../src/security/secret/Vault.ts"
import { KEYS } from "../server.ts"

const METHOD = {
  customer_id: "text",
  id: "text",
  rail: "text",
  sealed: "text",
  email: "text",
} as const

const numbered = (prefix: string, n: number): string => `${prefix}_${String(n).padStart(26, "0")}`

/** The last number used: customers and subscriptions of all accounts have different IDs. */
let last = 0

/** Creates one account with `due` subscriptions that are due now; returns its ID. `secretKey` is the key for its rail. */
export const seedDue = (rail: RailName, due: number, secretKey: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const vault = yield* Vault
    const { account } = yield* createAccount({ businessName: "Bench", liveAccess: "approved" })
    const { id } = account
    if (isOutside(rail))
      yield* replaceCredentials(id, rail, {
        secret_key: Redacted.make(secretKey),
        ...(rail === "flutterwave" ? { webhook_secret: Redacted.make("a secret of the bench") } : {}),
      })
    yield* sql`
      INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
      VALUES (${id}, true, 'plan_bench', 'Bench', 500000, 'NGN', 'monthly', 0, false, true, '{}',
        '{"enabled": true, "max_attempts": 3, "retry_intervals_days": [1, 3, 7], "escalation_on_failure": "pause_service", "cancel_after_days_unpaid": 30}', '{}', '{}', now(), now())`
    const from = last + 1
    last += due
    const numbers = Array.from({ length: due }, (_, index) => from + index)
    const methods = numbers.map((n) => {
      const customer_id = numbered("cus", n)
      const method = {
        account_id: id,
        livemode: true,
        customer_id,
        id: isOutside(rail) ? numbered("pm", n) : "pm_test_success",
      }
      const sealed = isOutside(rail)
        ? Buffer.from(vault.seal(methodPlace(method), Redacted.make(`AUTH_${n}`))).toString("hex")
        : null
      return { ...method, rail, sealed, email: sealed === null ? null : "card@example.com" }
    })
    yield* sql`
      INSERT INTO customer (account_id, livemode, id, name, metadata, created_at)
      SELECT ${id}, true, 'cus_' || lpad(n::text, 26, '0'), 'Customer ' || n, '{}', now() FROM generate_series(${from}::int, ${last}::int) n`
    yield* sql`
      INSERT INTO payment_method (account_id, livemode, id, customer_id, type, brand, last4, exp_month, exp_year, created_at, rail, sealed, email)
      SELECT ${id}, true, id, customer_id, 'card', 'visa', '4242', 12, 2034, now(), rail, decode(sealed, 'hex'), email FROM ${rowsAsTable(methods, METHOD)} m`
    yield* sql`
      INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, state, status, version, billing_cycle, price_kobo, quantity, start_at,
        anchor_at, period_no, period_start_at, period_end_at, period_quantity, next_charge_at, cancel_at_period_end, bills_made, metadata, created_at)
      SELECT ${id}, true, 'sub_' || right(m.customer_id, 26), m.customer_id, 'plan_bench', m.id, 'active.current', 'active', 2, 'monthly', 500000, 1, start,
        start, 0, start, start + interval '1 month', 1, start + interval '1 month', false, 1, '{}', start
      FROM ${rowsAsTable(methods, METHOD)} m
        CROSS JOIN (SELECT date_trunc('day', now()) - interval '1 month' AS start) s`
    yield* sql`
      INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event)
      SELECT account_id, livemode, id, 'periodEnd', 'subscription', version, period_end_at, 3, 'xstate.after.periodEnd.subscription.active.current'
      FROM subscription WHERE account_id = ${id}`
    return id
  }).pipe(Effect.provide(Vault.layer(KEYS)))
