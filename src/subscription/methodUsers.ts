/** What new and removed payment methods of a customer mean to its subscriptions (decisions C4, E6). */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeOwners } from "../collecting/ChargeOwners.ts"
import { recoverCharges } from "../collecting/collect.ts"
import type { Payments } from "../collecting/Payments.ts"
import { pay } from "../collecting/pay.ts"
import type { CustomerRow } from "../customer/customer.ts"
import { MethodUsers } from "../customer/MethodUsers.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import { ofTenant, type Ref, refOf } from "../db/tenant.ts"
import type { VatRate } from "../ledger/VatRate.ts"
import type { Nudging } from "../nudge/Nudging.ts"
import type { PaymentRail } from "../rail/PaymentRail.ts"
import type { Vault } from "../secret/Vault.ts"
import { sameForAll } from "../time.ts"
import { move, type SubscriptionCommand } from "./move.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { readTerms } from "./terms.ts"

/** A customer, locked, with a new default payment method. */
interface NewDefault {
  readonly customer: CustomerRow
  readonly methodId: string
  /** The customer's. */
  readonly now: number
}

/** A customer, and a payment method of theirs. */
interface Offered extends Ref {
  readonly method_id: string
}

const OFFERED = { ...REF_COLUMNS, method_id: "text" } as const

interface OfCustomer extends Ref {
  readonly customer_id: string
}

/** Overdue subscriptions of a customer that a new method is tried on at once; it is tried on others when their next retry comes. */
const MAX_TRIED = 100

/** That a subscription has a bill, or may be getting one in a transaction that is not over yet. */
const MAY_BE_BILLED = "status NOT IN ('incomplete', 'cancelled')"

/** The subscriptions of customers that `tryMethods` would lock. */
export const findBillable = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>) {
  if (of.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  return yield* sql<OfCustomer>`
    SELECT s.account_id, s.livemode, s.id, r.id AS customer_id FROM ${records(of, REF_COLUMNS)} r
    CROSS JOIN LATERAL (
      SELECT account_id, livemode, id FROM subscription
      WHERE (account_id, livemode, customer_id) = (r.account_id, r.livemode, r.id) AND ${sql.literal(MAY_BE_BILLED)} OFFSET 0
    ) s`
})

/**
 * Locks all subscriptions of customers that may be billed, and returns those on which payment methods of theirs are to be tried. What is being
 * billed with the default from before is seen from then on, and what is billed later is billed with the new one.
 */
const holdTried = Effect.fnUntraced(function* (offered: ReadonlyArray<Offered>) {
  if (offered.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  // OFFSET 0: which of them have a bill is looked at once they are locked, and all are locked.
  return yield* sql<OfCustomer>`
    SELECT account_id, livemode, id, customer_id FROM (
      SELECT *, row_number() OVER (PARTITION BY account_id, livemode, customer_id ORDER BY id) AS n FROM (
        SELECT s.account_id, s.livemode, s.id, s.customer_id, s.bill, s.payment_method_id, r.method_id FROM ${records(offered, OFFERED)} r
        JOIN subscription s ON (s.account_id, s.livemode, s.customer_id) = (r.account_id, r.livemode, r.id)
        WHERE s.${sql.literal(MAY_BE_BILLED)}
        ORDER BY s.id OFFSET 0 FOR UPDATE OF s
      ) s WHERE bill IS NOT NULL AND payment_method_id IS DISTINCT FROM method_id
    ) s WHERE n <= ${MAX_TRIED}::integer ORDER BY id`
})

/**
 * A new default payment method is tried at once on whatever is overdue, or once the attempt under way fails; where a
 * subscription has a method of its own, that one has failed, so the new one stands in for it and becomes its own if it
 * pays (decision E16). Of different customers; returns the charges to attempt after the commit.
 */
export const tryMethods = Effect.fn("subscription.tryMethods")(function* (all: ReadonlyArray<NewDefault>) {
  const refs = yield* holdTried(all.map(({ customer, methodId }) => ({ ...refOf(customer), method_id: methodId })))
  const byCustomer = new Map(all.map((one) => [one.customer.id, one]))
  const commands = (yield* subscriptions.lock(refs)).map((row): SubscriptionCommand => {
    const { methodId, now } = byCustomer.get(row.customer_id)!
    return { row, event: { type: "method", at: now, methodId: row.payment_method_id === null ? null : methodId } }
  })
  if (commands.length === 0) return []
  return yield* move(commands, {
    nowOf: ({ customer_id }) => byCustomer.get(customer_id!)!.now,
    terms: yield* readTerms(commands.map(({ row }) => refOf(row))),
  })
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
        Effect.map(tryMethods([{ customer, methodId, now }]), (attempts) =>
          Effect.provideContext(Effect.asVoid(pay(attempts, now)), context),
        ).pipe(Effect.provideContext(context)),
      methodRemoved: (customer, methodId, now) =>
        Effect.provideContext(methodRemoved(customer, methodId, now), context),
      recover: (customerId) => Effect.provideContext(recoverCharges({ customerId }), context),
    }),
  ),
)
