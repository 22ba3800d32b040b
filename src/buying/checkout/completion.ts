/**
 * Applies completed sessions to their customers (decision G2). The payment method becomes the default if there was none or a bill is
 * overdue, and is tried on that bill immediately (decision E6). The customer's other open sessions for the same plan are closed, so that a
 * buyer does not subscribe twice from two open pages.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import { findPaymentMethods, methodKey } from "../../billing/payment_method/paymentMethods.ts"
import { tryMethods } from "../../billing/subscription/methodUsers.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import type { LockMode } from "../../db/statementTexts.ts"
import { type Ref, refOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { readDue } from "../payment_page/amountDue.ts"
import { useAtCheckout } from "../payment_page/entered.ts"
import { type SessionRow, sessions } from "./checkout.ts"
import { closeSessions } from "./closing.ts"

export interface Completion {
  /** The ID of the locked customer. */
  readonly customerId: string
  readonly session: SessionRow
  /** null: the buyer's payment method cannot be used again. */
  readonly methodId: string | null
  /** The customer's other open sessions for the plan, locked. */
  readonly siblings: ReadonlyArray<SessionRow>
  /** When the completed page was submitted. */
  readonly submittedAt: number
  /** The time of the customer's clock. */
  readonly now: number
}

/** Closes the other open sessions for the same plan. Sessions that are over stay as they are. */
const closeSiblings = Effect.fnUntraced(function* (all: ReadonlyArray<Completion>) {
  const nows = new Map(all.map(({ customerId, now }) => [customerId, now]))
  // A session that several completions close is closed by the first.
  const by = new Map(all.toReversed().flatMap((one) => one.siblings.map((row) => [row.id, { row, one }] as const)))
  const rows = yield* sessions.lock([...by.values()].map(({ row }) => refOf(row)))
  yield* closeSessions(
    rows.map((row) => {
      const { session, now } = by.get(row.id)!.one
      return { row, event: { type: "expire", at: now }, replacedBy: session.id }
    }),
    ({ customer_id }) => nows.get(customer_id!)!,
  )
})

interface Saved extends Completion {
  readonly methodId: string
}

/**
 * Makes each method its customer's default, if the page said so, and tries it on overdue bills. Each customer occurs once. Reads the
 * customers again: one may have completed another session or removed the method meanwhile. Returns the charges to attempt after the commit.
 */
const setDefaults = Effect.fnUntraced(function* (all: ReadonlyArray<Saved>) {
  const refs = all.map(({ session, customerId: id, methodId: method }) => ({ ...refOf(session), id, method }))
  const [rows, attached, overdue] = yield* Effect.all(
    [customers.lock(refs, "NO KEY UPDATE"), findPaymentMethods(refs), readDue(refs)],
    PIPELINED,
  )
  const customersById = new Map(rows.map((row) => [row.id, row]))
  const overdueOf = Map.groupBy(overdue, ({ customer_id }) => customer_id)
  const set = all.flatMap(({ customerId, methodId, submittedAt, now }) => {
    const customer = customersById.get(customerId)
    if (customer === undefined || !attached.has(methodKey(customerId, methodId))) return []
    const shown = (overdueOf.get(customerId) ?? []).filter(({ dunning }) => dunning!.firstFailedAt <= submittedAt)
    if (useAtCheckout(customer, shown, now).becomes !== "default") return []
    const isNewDefault = customer.default_payment_method_id !== methodId
    return [{ customer, methodId, isNewDefault, isEntered: true, now }]
  })
  const changes = set.flatMap(({ customer: before, methodId, isNewDefault }) =>
    isNewDefault ? [{ before, after: { ...before, default_payment_method_id: methodId } }] : [],
  )
  ;(yield* unitOfWork).update(customers, changes)
  return yield* tryMethods(set)
})

/** Applies completions in the running transaction, after the sessions are written; returns the charges to attempt after the commit. */
export const complete = Effect.fnUntraced(function* (all: ReadonlyArray<Completion>) {
  yield* closeSiblings(all)
  const attempts: Array<ChargeRow> = []
  let remaining = all.flatMap(
    (one): ReadonlyArray<Saved> => (one.methodId === null ? [] : [{ ...one, methodId: one.methodId }]),
  )
  // Completions of one customer run one after another.
  while (remaining.length > 0) {
    const firsts = new Map(remaining.toReversed().map((one) => [one.customerId, one]))
    attempts.push(...(yield* setDefaults([...firsts.values()])))
    remaining = remaining.filter((one) => firsts.get(one.customerId) !== one)
  }
  return attempts
})

/** A session to lock, and the customer whose open sessions are locked with it. */
export interface Wanted extends Ref {
  readonly customer_id: string | null
}

const WANTED = { ...REF_COLUMNS, customer_id: "text" } as const

/**
 * Locks sessions and the open sessions of their customers, in ID order. Returns the rows by ID, and as `left` the sessions that are gone or
 * locked by another transaction. The customers must be locked already.
 */
export const lockSessions = Effect.fnUntraced(function* (wanted: ReadonlyArray<Wanted>, mode: LockMode = "UPDATE") {
  const sql = yield* SqlClient.SqlClient
  const withCustomer = wanted.filter(({ customer_id }) => customer_id !== null)
  const open =
    withCustomer.length === 0
      ? []
      : yield* sql<Wanted>`
          SELECT s.account_id, s.livemode, s.id, s.customer_id FROM ${rowsAsTable(withCustomer, WANTED)} r
          JOIN checkout_session s ON (s.account_id, s.livemode, s.customer_id) = (r.account_id, r.livemode, r.customer_id) AND s.status = 'open'`
  const all = new Map([...wanted, ...open].map((one) => [one.id, one]))
  const locked = yield* sessions.lock([...all.values()].map(refOf), mode)
  const rows = new Map(locked.map((row) => [row.id, row]))
  return { rows, left: [...all.values()].filter(({ id }) => !rows.has(id)) }
})

/** Returns the customer's other open sessions for the same plan, among locked ones. */
export const siblingsOf = (session: SessionRow, locked: Iterable<SessionRow>): ReadonlyArray<SessionRow> =>
  session.plan_id === null || session.customer_id === null
    ? []
    : [...locked].filter(
        (row) =>
          row.id !== session.id &&
          row.status === "open" &&
          row.plan_id === session.plan_id &&
          row.customer_id === session.customer_id,
      )
