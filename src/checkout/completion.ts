/**
 * What completing a session means to its customer (decision G2): the payment method becomes the default where there was none
 * or something is overdue, which is then tried with it at once (decision E6); other sessions that the customer has open for
 * the same plan are closed, so that nobody subscribes twice by two open pages.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type CustomerRow, customers } from "../customer/customer.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import { ofTenant, type Ref, refOf } from "../db/tenant.ts"
import { attachedTo } from "../payment_method/paymentMethods.ts"
import { commit } from "../runtime/commit.ts"
import { tryMethod } from "../subscription/methodUsers.ts"
import { sameForAll } from "../time.ts"
import { type SessionRow, sessions } from "./checkout.ts"
import { closingOf } from "./closing.ts"

const hasOverdue = Effect.fnUntraced(function* (customer: CustomerRow) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`
    SELECT 1 FROM subscription
    WHERE ${ofTenant(sql, customer)} AND customer_id = ${customer.id} AND dunning IS NOT NULL LIMIT 1`
  return found.length > 0
})

export interface Completion {
  /** Of the customer, who is locked. */
  readonly customerId: string
  readonly session: SessionRow
  /** null: what the buyer paid with cannot be used again. */
  readonly methodId: string | null
  /** The customer's other open sessions for the plan, locked. */
  readonly siblings: ReadonlyArray<SessionRow>
  /** The customer's. */
  readonly now: number
}

/**
 * Carries it out in the running transaction, once the session itself is written; returns the charges to attempt after the
 * commit. The customer is read as it is then: it may have completed another session at the same time, or have removed the
 * method meanwhile.
 */
export const completion = Effect.fnUntraced(function* (of: Completion) {
  const { session, methodId, siblings, now } = of
  const others = yield* sessions.lock(siblings.map(refOf))
  yield* commit(
    yield* closingOf(
      others.map((row) => ({ row, event: { type: "expire", at: now } })),
      sameForAll(now),
      session.id,
    ),
  )
  if (methodId === null) return []
  const ref: Ref = { ...refOf(session), id: of.customerId }
  const [customer] = yield* customers.lock([ref], "NO KEY UPDATE")
  const isAttached = (yield* attachedTo(ref, methodId)) !== null
  if (customer === undefined || !isAttached || customer.default_payment_method_id === methodId) return []
  if (customer.default_payment_method_id !== null && !(yield* hasOverdue(customer))) return []
  yield* customers.update([{ before: customer, after: { ...customer, default_payment_method_id: methodId } }])
  return yield* tryMethod(customer, methodId, now)
})

/** A session, and whose open ones go with it. */
export interface Wanted extends Ref {
  readonly customer_id: string | null
}

const WANTED = { ...REF_COLUMNS, customer_id: "text" } as const

/**
 * Locks sessions, and those that their customers have open, in ID order, as everybody does; by ID. Their customers are locked
 * before.
 */
export const lockSessions = Effect.fnUntraced(function* (wanted: ReadonlyArray<Wanted>) {
  const sql = yield* SqlClient.SqlClient
  const known = wanted.filter(({ customer_id }) => customer_id !== null)
  const open =
    known.length === 0
      ? []
      : yield* sql<Ref>`
          SELECT s.account_id, s.livemode, s.id FROM ${records(sql, known, WANTED)} r
          JOIN checkout_session s ON (s.account_id, s.livemode, s.customer_id) = (r.account_id, r.livemode, r.customer_id) AND s.status = 'open'`
  const refs = new Map([...open, ...wanted].map((ref) => [ref.id, refOf(ref)]))
  const rows = yield* sessions.lock([...refs.values()])
  return new Map(rows.map((row) => [row.id, row]))
})

/** The other sessions among locked ones that the customer of `session` has open for the same plan. */
export const siblingsOf = (session: SessionRow, locked: ReadonlyMap<string, SessionRow>): ReadonlyArray<SessionRow> =>
  session.plan_id === null || session.customer_id === null
    ? []
    : [...locked.values()].filter(
        (row) =>
          row.id !== session.id &&
          row.status === "open" &&
          row.plan_id === session.plan_id &&
          row.customer_id === session.customer_id,
      )
