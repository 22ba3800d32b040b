/** What new and removed payment methods of a customer mean to its subscriptions (decisions C4, E6). */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { sameForAll } from "../../base/time.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { ofTenant, type Ref, refOf } from "../../db/tenant.ts"
import type { VatRate } from "../../ledger/VatRate.ts"
import type { Nudging } from "../../outbound/nudge/Nudging.ts"
import type { PaymentRail } from "../../rails/rail/PaymentRail.ts"
import type { Vault } from "../../security/secret/Vault.ts"
import type { CustomerRow } from "../customer/customer.ts"
import { MethodUsers } from "../customer/MethodUsers.ts"
import type { PaymentSubjects } from "../payments/PaymentSubjects.ts"
import type { Payments } from "../payments/Payments.ts"
import { recoverCharges } from "../payments/simulatorCharges.ts"
import { waitForPayment } from "../payments/waitForPayment.ts"
import { isBilled, methodCommands, type NewMethod } from "./newMethod.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { readTerms } from "./terms.ts"
import { type SubscriptionCommand, transition } from "./transition.ts"

/** A customer, locked, with the payment method that is their default now. */
interface NewDefault extends NewMethod {
  readonly customer: CustomerRow
  readonly methodId: string
}

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
    SELECT s.account_id, s.livemode, s.id, r.id AS customer_id FROM ${rowsAsTable(of, REF_COLUMNS)} r
    CROSS JOIN LATERAL (
      SELECT account_id, livemode, id FROM subscription
      WHERE (account_id, livemode, customer_id) = (r.account_id, r.livemode, r.id) AND ${sql.literal(MAY_BE_BILLED)} OFFSET 0
    ) s`
})

/**
 * Locks all subscriptions of customers that may be billed, and returns those with a bill. What is being billed with the default from
 * before is seen from then on, and what is billed later is billed with the new one.
 */
const holdBilled = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>) {
  if (of.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  // OFFSET 0: which of them have a bill is looked at once they are locked, and all are locked.
  const refs = yield* sql<Ref>`
    SELECT account_id, livemode, id FROM (
      SELECT *, row_number() OVER (PARTITION BY account_id, livemode, customer_id, is_overdue ORDER BY id) AS n FROM (
        SELECT s.account_id, s.livemode, s.id, s.customer_id, s.bill, s.dunning IS NOT NULL AS is_overdue FROM ${rowsAsTable(of, REF_COLUMNS)} r
        JOIN subscription s ON (s.account_id, s.livemode, s.customer_id) = (r.account_id, r.livemode, r.id)
        WHERE s.${sql.literal(MAY_BE_BILLED)}
        ORDER BY s.id OFFSET 0 FOR UPDATE OF s
      ) s WHERE bill IS NOT NULL
    ) s WHERE n <= ${MAX_TRIED}::integer ORDER BY id`
  return yield* subscriptions.lock(refs)
})

/**
 * Tries payment methods that became the default of different customers on what these owe: at once, or once the attempt under way fails.
 * A method that stands in for a subscription's own becomes that if it pays. Returns the charges to attempt after the commit.
 */
export const tryMethods = Effect.fn("subscription.tryMethods")(function* (all: ReadonlyArray<NewDefault>) {
  const rows = yield* holdBilled(all.map(({ customer }) => refOf(customer)))
  const byCustomer = Map.groupBy(rows, ({ customer_id }) => customer_id)
  return yield* transitionAll(all.flatMap((one) => methodCommands(byCustomer.get(one.customer.id) ?? [], one)))
})

/** Tries what these subscriptions, which are locked, are paid by from now on, on their bills. */
export const tryTheirs = (rows: ReadonlyArray<SubscriptionRow>, now: number) =>
  transitionAll(rows.filter(isBilled).map((row) => ({ row, event: { type: "method", at: now, methodId: null } })))

/** Of different customers. */
const transitionAll = Effect.fnUntraced(function* (commands: ReadonlyArray<SubscriptionCommand>) {
  if (commands.length === 0) return []
  const nows = new Map(commands.map(({ row, event }) => [row.customer_id, event.at]))
  return yield* transition(commands, {
    nowOf: ({ customer_id }) => nows.get(customer_id!)!,
    terms: yield* readTerms(commands.map(({ row }) => refOf(row))),
  })
})

/**
 * Subscriptions that had a method of their own which is being removed go back to the customer's default, which is a new method for
 * what they owe (decision E28). Returns the charges to attempt after the commit.
 */
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
  yield* transition(
    living.map((row) => ({ row, event: { type: "update" as const, at: now } })),
    {
      nowOf: sameForAll(now),
      terms: new Map(),
      details: new Map(living.map((row) => [row.id, { metadata: row.metadata, payment_method_id: null }])),
    },
  )
  const waiting = users.filter(({ bill }) => bill?.standIn === methodId || bill?.nextMethod?.methodId === methodId)
  const rows = yield* subscriptions.lock(waiting.map(refOf))
  yield* transition(
    rows.map((row) => ({ row, event: { type: "method.removed" as const, at: now, methodId } })),
    { nowOf: sameForAll(now), terms: new Map() },
  )
  // What is over changes silently.
  yield* sql`
    UPDATE subscription SET payment_method_id = NULL
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND payment_method_id = ${methodId}`
  const { default_payment_method_id: left } = customer
  if (left === null || left === methodId) return []
  const billed = living.filter(isBilled).slice(0, MAX_TRIED)
  return yield* tryTheirs(yield* subscriptions.lock(billed.map(refOf)), now)
})

export const methodUsersLayer = Layer.effect(
  MethodUsers,
  Effect.map(Effect.context<PaymentSubjects | Nudging | PaymentRail | Payments | Vault | VatRate>(), (context) =>
    MethodUsers.of({
      methodSet: (customer, methodId, now) =>
        Effect.map(tryMethods([{ customer, methodId, isNewDefault: true, isEntered: false, now }]), (attempts) =>
          Effect.provideContext(Effect.asVoid(waitForPayment(attempts, now)), context),
        ).pipe(Effect.provideContext(context)),
      methodRemoved: (customer, methodId, now) =>
        Effect.map(methodRemoved(customer, methodId, now), (attempts) =>
          Effect.provideContext(Effect.asVoid(waitForPayment(attempts, now)), context),
        ).pipe(Effect.provideContext(context)),
      recover: (customerId) => Effect.provideContext(recoverCharges({ customerId }), context),
    }),
  ),
)
