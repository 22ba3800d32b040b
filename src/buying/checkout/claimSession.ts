/**
 * Runs the first transaction of submissions of one tenant that arrive together. It claims their sessions and commits their payment attempts
 * in one batch. closing.ts has the lock order.
 */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { noSuch, type Problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { clockTimes } from "../../billing/clock/clocks.ts"
import { customers } from "../../billing/customer/customer.ts"
import { findBillable } from "../../billing/subscription/methodUsers.ts"
import { subscriptions } from "../../billing/subscription/subscription.ts"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import type { SessionRow } from "./checkout.ts"
import { closeSessions, subscriptionRefs } from "./closing.ts"
import { type Completed, completeSubmissions, type Locked, type SessionClaim } from "./completeSubmission.ts"
import { lockSessions, siblingsOf } from "./completion.ts"

/** The result of claiming a session. */
export type Started =
  /** The session is over, or this form was decided before: by the payment `chargeId`, or by the newest. */
  | { readonly kind: "over"; readonly again: boolean; readonly chargeId?: string }
  /** A payment is in progress. `own`: this form started it. */
  | { readonly kind: "under_way"; readonly chargeId: string; readonly own: boolean }
  /** Another submission has just created the customer: claim again. */
  | { readonly kind: "once_more" }
  | ({ readonly kind: "started" } & Completed)

/** Returns the key of submissions that must run one after another: the customer, or the session if there is no customer yet. */
export const buyerOf = ({ customer_id, id }: SessionRow): string => customer_id ?? id

const NUMBERED = { ...REF_COLUMNS, number: "text" } as const

/** Finds the payments of forms that may be older than their session's newest form: a form that is sent twice gets one result. */
const findEarlier = Effect.fnUntraced(function* (claims: ReadonlyArray<SessionClaim>) {
  const numbered = claims.flatMap((claim) => {
    const { number } = claim.submitted
    return number === null || claim.found.charge_id === null ? [] : [{ ...refOf(claim.found), number }]
  })
  if (numbered.length === 0) return () => undefined
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ session_id: string; number: string; charge_id: string }>`
    SELECT r.id AS session_id, r.number, c.id AS charge_id
    FROM ${rowsAsTable(numbered, NUMBERED)} r CROSS JOIN LATERAL (
      SELECT id FROM charge
      WHERE (page_id, account_id, livemode) = (r.id, r.account_id, r.livemode) AND submission = r.number
      ORDER BY id LIMIT 1
    ) c`
  return (claim: SessionClaim): string | undefined =>
    rows.find(({ session_id, number }) => session_id === claim.found.id && number === claim.submitted.number)?.charge_id
})

/**
 * Locks the rows that claims need. Returns these rows for each claim, or `lock_timeout` if another transaction has locked them and waiting
 * is not allowed.
 */
const lockClaims = Effect.fnUntraced(function* (tenant: Tenant, claims: ReadonlyArray<SessionClaim>) {
  const waits = yield* WaitForLocks
  const times = yield* clockTimes(
    tenant,
    claims.flatMap(({ found }) => found.test_clock_id ?? []),
  )
  const wall = Exit.succeed(currentTime())
  const timeOf = ({ test_clock_id: clock }: SessionRow) => (clock === null ? wall : times.get(clock)!)
  const ready = claims.map(({ found }) => found).filter((found) => Exit.isSuccess(timeOf(found)))
  const customerIds = [...new Set(ready.flatMap(({ customer_id }) => customer_id ?? []))]
  const customersById = new Map(
    (yield* customers.lock(
      customerIds.map((id): Ref => ({ ...tenantOf(tenant), id })),
      waits ? "NO KEY UPDATE" : "NO KEY UPDATE SKIP LOCKED",
    )).map((row) => [row.id, row]),
  )
  const customerRefs = [...customersById.values()].map(refOf)
  const [{ rows, left: unlocked }, billable, earlierOf] = yield* Effect.all(
    [lockSessions(ready, waits ? "UPDATE" : "UPDATE SKIP LOCKED"), findBillable(customerRefs), findEarlier(claims)],
    PIPELINED,
  )
  const billableOf = Map.groupBy(billable, ({ customer_id }) => customer_id)
  const blocked = new Set(unlocked.map(({ customer_id }) => customer_id))
  return (claim: SessionClaim) =>
    Effect.gen(function* () {
      const { found } = claim
      const now = yield* timeOf(found)
      const { customer_id: customerId } = found
      const [customer, session] = [customerId === null ? undefined : customersById.get(customerId), rows.get(found.id)]
      if (
        !waits &&
        ((customerId !== null && (customer === undefined || blocked.has(customerId))) || session === undefined)
      )
        return yield* LOCKED
      if (customerId !== null && customer === undefined) return yield* noSuch("customer", customerId)
      // Deleted with its clock, or with its sandbox.
      if (session === undefined) return yield* noSuch("checkout session", found.id)
      const siblings = (of: SessionRow) => siblingsOf(of, rows.values())
      const billed = billableOf.get(customerId ?? "") ?? []
      const concerned = [...subscriptionRefs([session, ...siblings(session)]), ...billed]
      const locked: Locked = {
        claim,
        session,
        existing: customer,
        siblings,
        concerned,
        isBilled: billed.length > 0,
        now,
      }
      return { locked, earlierId: earlierOf(claim) }
    })
})

/** Returns the result if the session needs no further work. `earlierId`: the payment that this form was submitted for before. */
const resultWithoutWork = (
  { claim, session, siblings, now }: Locked,
  earlierId: string | undefined,
): Started | undefined => {
  if (session.customer_id !== claim.found.customer_id) return { kind: "once_more" }
  const { number } = claim.submitted
  const again = number !== null && session.submission === number
  if (session.status !== "open" || session.expires_at <= now) return { kind: "over", again }
  const paying = [session, ...siblings(session)].find(({ state }) => state === "open.paying")
  if (paying !== undefined)
    return { kind: "under_way", chargeId: paying.charge_id!, own: again && paying.id === session.id }
  if (again) return { kind: "over", again }
  return earlierId === undefined ? undefined : { kind: "over", again: true, chargeId: earlierId }
}

/** Closes the expired sessions among these. Returns those whose subscription another transaction has locked, if waiting is not allowed. */
const closeExpired = Effect.fnUntraced(function* (all: ReadonlyArray<Locked>) {
  const expired = all.filter(({ session, now }) => session.status === "open" && session.expires_at <= now)
  if (expired.length === 0) return []
  const refs = subscriptionRefs(expired.map(({ session }) => session))
  const free = (yield* WaitForLocks) ? refs : yield* subscriptions.lock(refs, "UPDATE SKIP LOCKED")
  const ids = new Set<string | null>([null, ...free.map(({ id }) => id)])
  const isFree = ({ session }: Locked) => ids.has(session.subscription_id)
  const over = expired.filter(isFree)
  const byId = new Map(over.map((one) => [one.session.id, one]))
  const nows = new Map(over.map(({ session, now }) => [session.customer_id, now]))
  yield* closeSessions(
    [...byId.values()].map(({ session }) => ({ row: session, event: { type: "expire", at: session.expires_at } })),
    ({ customer_id }) => nows.get(customer_id)!,
  )
  return expired.filter((one) => !isFree(one))
})

/**
 * Most rounds for the submissions of one buyer in a batch of many buyers. The rest goes into a further batch: no buyer waits for the
 * hundredth submission of another.
 */
const MAX_ROUNDS = 4

/** Claims the sessions of submissions; returns the result of each. */
export const claimSessions = Effect.fn("checkout.claim")(function* (
  tenant: Tenant,
  claims: ReadonlyArray<SessionClaim>,
) {
  const results = new Map<SessionClaim, Exit.Exit<Started, Problem>>()
  const isOfMany = new Set(claims.map(({ found }) => buyerOf(found))).size > 1
  const rounds = isOfMany && !(yield* WaitForLocks) ? MAX_ROUNDS : Number.POSITIVE_INFINITY
  const unanswered = () => claims.filter((claim) => !results.has(claim))
  // The submissions of one buyer run one after another: each sees the result of the one before.
  for (let remaining = claims, round = 0; remaining.length > 0 && round < rounds; remaining = unanswered(), round++) {
    const lockedOf = yield* lockClaims(tenant, remaining)
    const taken = new Set<string>()
    const next: Array<Locked> = []
    const over: Array<Locked> = []
    for (const claim of remaining) {
      if (taken.has(buyerOf(claim.found))) continue
      const exit = yield* Effect.exit(lockedOf(claim))
      if (Exit.isFailure(exit)) {
        results.set(claim, Exit.failCause(exit.cause))
        continue
      }
      const { locked, earlierId } = exit.value
      const result = resultWithoutWork(locked, earlierId)
      if (result === undefined) {
        taken.add(buyerOf(claim.found))
        next.push(locked)
      } else {
        results.set(claim, Exit.succeed(result))
        if (result.kind === "over") over.push(locked)
      }
    }
    for (const { claim } of yield* closeExpired(over)) results.set(claim, Exit.fail(LOCKED))
    const completed = yield* completeSubmissions(tenant, next)
    for (const [at, { claim }] of next.entries())
      results.set(
        claim,
        Exit.map(completed[at]!, (one) => ({ kind: "started", ...one })),
      )
  }
  return claims.map((claim) => results.get(claim) ?? Exit.fail(LOCKED))
})
