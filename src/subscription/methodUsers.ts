/** What new and removed payment methods of a customer mean to its subscriptions (decisions C4, E6). */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeOwners } from "../collecting/ChargeOwners.ts"
import { recoverCharges } from "../collecting/collect.ts"
import type { Payments } from "../collecting/Payments.ts"
import { pay } from "../collecting/pay.ts"
import type { CustomerRow } from "../customer/customer.ts"
import { MethodUsers } from "../customer/MethodUsers.ts"
import { ofTenant, refOf } from "../db/tenant.ts"
import type { VatRate } from "../ledger/VatRate.ts"
import type { Nudging } from "../nudge/Nudging.ts"
import type { PaymentRail } from "../rail/PaymentRail.ts"
import type { Vault } from "../secret/Vault.ts"
import { sameForAll } from "../time.ts"
import { move } from "./move.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { readTerms } from "./terms.ts"

/**
 * A new default payment method is tried at once on whatever is overdue, or once the attempt under way fails; where a
 * subscription has a method of its own, that one has failed, so the new one stands in for it and becomes its own if it
 * pays (decision E16). Returns the charges to attempt after the commit. `now` is the customer's.
 */
export const tryMethod = Effect.fn("subscription.tryMethod")(function* (
  customer: CustomerRow,
  methodId: string,
  now: number,
) {
  const sql = yield* SqlClient.SqlClient
  const owing = yield* sql<SubscriptionRow>`
    SELECT * FROM subscription
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND bill IS NOT NULL AND status <> 'incomplete'
      AND payment_method_id IS DISTINCT FROM ${methodId}
    ORDER BY id FOR UPDATE`
  if (owing.length === 0) return []
  const terms = yield* readTerms(owing.map(refOf))
  const commands = owing.map((row) => ({
    row,
    event: { type: "method" as const, at: now, methodId: row.payment_method_id === null ? null : methodId },
  }))
  return yield* move(commands, { nowOf: sameForAll(now), terms })
})

/** Subscriptions that had a method of their own which is being removed go back to the customer's default. */
const methodRemoved = Effect.fn("subscription.methodRemoved")(function* (
  customer: CustomerRow,
  methodId: string,
  now: number,
) {
  const sql = yield* SqlClient.SqlClient
  // Those too that are just trying it, and would adopt it: they find it gone once they get their lock.
  const users = yield* sql<SubscriptionRow>`
    SELECT * FROM subscription
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id}
      AND (payment_method_id = ${methodId} OR bill->>'methodId' = ${methodId}
        OR bill->>'standIn' = ${methodId} OR bill->'nextMethod'->>'methodId' = ${methodId})
    ORDER BY id FOR UPDATE`
  const living = users.filter((row) => row.payment_method_id === methodId && row.status !== "cancelled")
  yield* move(
    living.map((row) => ({ row, event: { type: "update" as const, at: now } })),
    {
      nowOf: sameForAll(now),
      terms: new Map(),
      details: new Map(living.map((row) => [row.id, { metadata: row.metadata, payment_method_id: null }])),
    },
  )
  const waiting = users.filter(({ bill }) => bill?.standIn === methodId || bill?.nextMethod?.methodId === methodId)
  const rows = yield* subscriptions.lock(waiting.map(refOf))
  yield* move(
    rows.map((row) => ({ row, event: { type: "method.removed" as const, at: now, methodId } })),
    { nowOf: sameForAll(now), terms: new Map() },
  )
  // What is over changes silently.
  yield* sql`
    UPDATE subscription SET payment_method_id = NULL
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND payment_method_id = ${methodId}`
})

export const methodUsersLayer = Layer.effect(
  MethodUsers,
  Effect.map(Effect.context<ChargeOwners | Nudging | PaymentRail | Payments | Vault | VatRate>(), (context) =>
    MethodUsers.of({
      methodSet: (customer, methodId, now) =>
        Effect.map(tryMethod(customer, methodId, now), (attempts) =>
          Effect.provideContext(pay(attempts, now), context),
        ).pipe(Effect.provideContext(context)),
      methodRemoved: (customer, methodId, now) =>
        Effect.provideContext(methodRemoved(customer, methodId, now), context),
      recover: (customerId) => Effect.provideContext(recoverCharges({ customerId }), context),
    }),
  ),
)
