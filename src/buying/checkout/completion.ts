/**
 * What completing sessions means to their customers (decision G2): the payment method becomes the default where there was none
 * or something is overdue, which is then tried with it at once (decision E6); other sessions that the customer has open for
 * the same plan are closed, so that nobody subscribes twice by two open pages.
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
  /** Of the customer, who is locked. */
  readonly customerId: string
  readonly session: SessionRow
  /** null: what the buyer paid with cannot be used again. */
  readonly methodId: string | null
  /** The customer's other open sessions for the plan, locked. */
  readonly siblings: ReadonlyArray<SessionRow>
  /** When the page was submitted that this completes. */
  readonly submittedAt: number
  /** The customer's. */
  readonly now: number
}

/** Closes what was open for the same plan as sessions that were completed; what is over by now stays as it is. */
const closeSiblings = Effect.fnUntraced(function* (all: ReadonlyArray<Completion>) {
  const nows = new Map(all.map(({ customerId, now }) => [customerId, now]))
  // Of several that one goes with, it goes with the first.
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
 * What the buyers of different customers paid with becomes their default, where the page said so, and is tried on what they owe;
 * returns the charges to attempt after the commit. The customers are read as they are then: one may have completed another session at
 * the same time, or have removed the method meanwhile.
 */
const setDefaults = Effect.fnUntraced(function* (all: ReadonlyArray<Saved>) {
  const refs = all.map(({ session, customerId: id, methodId: method }) => ({ ...refOf(session), id, method }))
  const [rows, attached, owing] = yield* Effect.all(
    [customers.lock(refs, "NO KEY UPDATE"), findPaymentMethods(refs), readDue(refs)],
    PIPELINED,
  )
  const known = new Map(rows.map((row) => [row.id, row]))
  const owingOf = Map.groupBy(owing, ({ customer_id }) => customer_id)
  const set = all.flatMap(({ customerId, methodId, submittedAt, now }) => {
    const customer = known.get(customerId)
    if (customer === undefined || !attached.has(methodKey(customerId, methodId))) return []
    const shown = (owingOf.get(customerId) ?? []).filter(({ dunning }) => dunning!.firstFailedAt <= submittedAt)
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

/**
 * Carries completions out in the running transaction, once the sessions themselves are written; returns the charges to attempt after
 * the commit.
 */
export const complete = Effect.fnUntraced(function* (all: ReadonlyArray<Completion>) {
  yield* closeSiblings(all)
  const attempts: Array<ChargeRow> = []
  let left = all.flatMap(
    (one): ReadonlyArray<Saved> => (one.methodId === null ? [] : [{ ...one, methodId: one.methodId }]),
  )
  // Those of one customer follow each other.
  while (left.length > 0) {
    const firsts = new Map(left.toReversed().map((one) => [one.customerId, one]))
    attempts.push(...(yield* setDefaults([...firsts.values()])))
    left = left.filter((one) => firsts.get(one.customerId) !== one)
  }
  return attempts
})

/** A session, and whose open ones go with it. */
export interface Wanted extends Ref {
  readonly customer_id: string | null
}

const WANTED = { ...REF_COLUMNS, customer_id: "text" } as const

/**
 * Locks sessions, and those that their customers have open, in ID order, as everybody does; by ID, with those that are `left`: they are
 * gone, or somebody holds them. Their customers are locked before.
 */
export const lockSessions = Effect.fnUntraced(function* (wanted: ReadonlyArray<Wanted>, mode: LockMode = "UPDATE") {
  const sql = yield* SqlClient.SqlClient
  const known = wanted.filter(({ customer_id }) => customer_id !== null)
  const open =
    known.length === 0
      ? []
      : yield* sql<Wanted>`
          SELECT s.account_id, s.livemode, s.id, s.customer_id FROM ${rowsAsTable(known, WANTED)} r
          JOIN checkout_session s ON (s.account_id, s.livemode, s.customer_id) = (r.account_id, r.livemode, r.customer_id) AND s.status = 'open'`
  const all = new Map([...wanted, ...open].map((one) => [one.id, one]))
  const locked = yield* sessions.lock([...all.values()].map(refOf), mode)
  const rows = new Map(locked.map((row) => [row.id, row]))
  return { rows, left: [...all.values()].filter(({ id }) => !rows.has(id)) }
})

/** The other sessions among locked ones that the customer of `session` has open for the same plan. */
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
