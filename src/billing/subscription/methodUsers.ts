/** Applies new and removed payment methods of a customer to its subscriptions (decisions C4, E6). */
import { Context, Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { sameForAll } from "../../base/time.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { ofTenant, type Ref, refOf } from "../../db/tenant.ts"
import type { VatRate } from "../../ledger/VatRate.ts"
import type { Nudging } from "../../outbound/nudge/Nudging.ts"
import type { PaymentRail } from "../../rails/rail/PaymentRail.ts"
import type { Vault } from "../../security/secret/Vault.ts"
import type { ChargeRow } from "../charge/charge.ts"
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

/** A locked customer, and the payment method that is now its default. */
interface NewDefault extends NewMethod {
  readonly customer: CustomerRow
  readonly methodId: string
}

interface OfCustomer extends Ref {
  readonly customer_id: string
}

/** Limit of a customer's overdue subscriptions on which a new method is tried immediately; on others it is tried at their next retry. */
const MAX_TRIED = 100

/** SQL: a subscription has a bill, or an unfinished transaction may be adding one. */
const MAY_BE_BILLED = "status NOT IN ('incomplete', 'cancelled')"

/** Finds the subscriptions of customers that {@link tryMethods} would lock. */
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
 * Locks all subscriptions of customers that may be billed, and returns those with a bill. After the lock, bills made with the previous
 * default are visible, and later bills use the new one.
 */
const lockBilled = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>) {
  if (of.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  // OFFSET 0: locks all rows first, then filters those with a bill.
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
 * Tries the new default methods of different customers on what they owe: immediately, or once the attempt under way fails. A method that
 * replaces a subscription's own one for a bill becomes its own if it pays. Returns the charges to attempt after the commit.
 */
export const tryMethods = Effect.fn("subscription.tryMethods")(function* (all: ReadonlyArray<NewDefault>) {
  const rows = yield* lockBilled(all.map(({ customer }) => refOf(customer)))
  const byCustomer = Map.groupBy(rows, ({ customer_id }) => customer_id)
  return yield* transitionAll(all.flatMap((one) => methodCommands(byCustomer.get(one.customer.id) ?? [], one)))
})

/** Tries the current payment methods of these locked subscriptions on their bills. */
export const tryCurrentMethods = (rows: ReadonlyArray<SubscriptionRow>, now: number) =>
  transitionAll(rows.filter(isBilled).map((row) => ({ row, event: { type: "method", at: now, methodId: null } })))

/** Applies commands to subscriptions of different customers. */
const transitionAll = Effect.fnUntraced(function* (commands: ReadonlyArray<SubscriptionCommand>) {
  if (commands.length === 0) return []
  const nows = new Map(commands.map(({ row, event }) => [row.customer_id, event.at]))
  return yield* transition(commands, {
    nowOf: ({ customer_id }) => nows.get(customer_id!)!,
    terms: yield* readTerms(commands.map(({ row }) => refOf(row))),
  })
})

/**
 * Returns subscriptions whose own method is being removed to the customer's default, which is then tried on what they owe (decision E28).
 * Returns the charges to attempt after the commit.
 */
const methodRemoved = Effect.fn("subscription.methodRemoved")(function* (
  customer: CustomerRow,
  methodId: string,
  now: number,
) {
  const sql = yield* SqlClient.SqlClient
  // Includes subscriptions that are trying the method and would adopt it: after their lock they find it removed.
  const users = yield* sql<SubscriptionRow>`
    SELECT * FROM subscription
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id}
      AND (payment_method_id = ${methodId} OR bill->>'methodId' = ${methodId}
        OR bill->>'standIn' = ${methodId} OR bill->'nextMethod'->>'methodId' = ${methodId})
    ORDER BY id FOR UPDATE`
  const uncancelled = users.filter((row) => row.payment_method_id === methodId && row.status !== "cancelled")
  yield* transition(
    uncancelled.map((row) => ({ row, event: { type: "update" as const, at: now } })),
    {
      nowOf: sameForAll(now),
      terms: new Map(),
      details: new Map(uncancelled.map((row) => [row.id, { metadata: row.metadata, payment_method_id: null }])),
    },
  )
  const waiting = users.filter(({ bill }) => bill?.standIn === methodId || bill?.nextMethod?.methodId === methodId)
  const rows = yield* subscriptions.lock(waiting.map(refOf))
  yield* transition(
    rows.map((row) => ({ row, event: { type: "method.removed" as const, at: now, methodId } })),
    { nowOf: sameForAll(now), terms: new Map() },
  )
  // Cancelled subscriptions change without an event.
  yield* sql`
    UPDATE subscription SET payment_method_id = NULL
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND payment_method_id = ${methodId}`
  const { default_payment_method_id: defaultId } = customer
  if (defaultId === null || defaultId === methodId) return []
  const billed = uncancelled.filter(isBilled).slice(0, MAX_TRIED)
  return yield* tryCurrentMethods(yield* subscriptions.lock(billed.map(refOf)), now)
})

export const methodUsersLayer = Layer.effect(
  MethodUsers,
  Effect.map(Effect.context<PaymentSubjects | Nudging | PaymentRail | Payments | Vault | VatRate>(), (context) => {
    /** Pays with the payments of the caller: a dry run has its own. */
    const pay = (attempts: ReadonlyArray<ChargeRow>, now: number) =>
      Effect.flatMap(Effect.context<never>(), (own) =>
        Effect.provideContext(Effect.asVoid(waitForPayment(attempts, now)), Context.merge(context, own)),
      )
    return MethodUsers.of({
      methodSet: (customer, methodId, now) =>
        Effect.map(tryMethods([{ customer, methodId, isNewDefault: true, isEntered: false, now }]), (attempts) =>
          pay(attempts, now),
        ).pipe(Effect.provideContext(context)),
      methodRemoved: (customer, methodId, now) =>
        Effect.map(methodRemoved(customer, methodId, now), (attempts) => pay(attempts, now)).pipe(
          Effect.provideContext(context),
        ),
      recover: (customerId) => Effect.provideContext(recoverCharges({ customerId }), context),
    })
  }),
)
