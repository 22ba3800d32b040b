/**
 * The first transaction of submissions of one tenant that come together: their sessions are claimed, and what is to be attempted is
 * committed, for all of them at once. Locked in the order of closing.ts.
 */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { noSuch, type Problem } from "../../base/problem.ts"
import { currentTime } from "../../base/wallClock.ts"
import { standingTimes } from "../../billing/clock/clocks.ts"
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

/** What the transaction finds or makes. */
export type Started =
  /** The session is over, or this very form was decided before: by its own payment, or by the newest. */
  | { readonly kind: "over"; readonly again: boolean; readonly chargeId?: string }
  /** A payment is under way. `own`: it is what this very form was submitted for. */
  | { readonly kind: "under_way"; readonly chargeId: string; readonly own: boolean }
  /** The customer was made by another submission this instant. */
  | { readonly kind: "once_more" }
  | ({ readonly kind: "started" } & Completed)

/** Those whose submissions follow each other: a customer, or one who is not known yet. */
export const buyerOf = ({ customer_id, id }: SessionRow): string => customer_id ?? id

const NUMBERED = { ...REF_COLUMNS, number: "text" } as const

/** The payments of forms that may have been submitted before the last one of their session: a form that is sent twice gets one outcome. */
const findEarlier = Effect.fnUntraced(function* (claims: ReadonlyArray<SessionClaim>) {
  const asked = claims.flatMap((claim) => {
    const { number } = claim.submitted
    return number === null || claim.found.charge_id === null ? [] : [{ ...refOf(claim.found), number }]
  })
  if (asked.length === 0) return () => undefined
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ session_id: string; number: string; charge_id: string }>`
    SELECT r.id AS session_id, r.number, c.id AS charge_id
    FROM ${rowsAsTable(asked, NUMBERED)} r CROSS JOIN LATERAL (
      SELECT id FROM charge
      WHERE (page_id, account_id, livemode) = (r.id, r.account_id, r.livemode) AND submission = r.number
      ORDER BY id LIMIT 1
    ) c`
  return (claim: SessionClaim): string | undefined =>
    rows.find(({ session_id, number }) => session_id === claim.found.id && number === claim.submitted.number)?.charge_id
})

/** Locks what claims are about; for each what is found, or `lock_timeout` where somebody holds what is not to be waited for. */
const lockClaims = Effect.fnUntraced(function* (tenant: Tenant, claims: ReadonlyArray<SessionClaim>) {
  const waits = yield* WaitForLocks
  const times = yield* standingTimes(
    tenant,
    claims.flatMap(({ found }) => found.test_clock_id ?? []),
  )
  const wall = Exit.succeed(currentTime())
  const timeOf = ({ test_clock_id: clock }: SessionRow) => (clock === null ? wall : times.get(clock)!)
  const standing = claims.map(({ found }) => found).filter((found) => Exit.isSuccess(timeOf(found)))
  const buyers = [...new Set(standing.flatMap(({ customer_id }) => customer_id ?? []))]
  const known = new Map(
    (yield* customers.lock(
      buyers.map((id): Ref => ({ ...tenantOf(tenant), id })),
      waits ? "NO KEY UPDATE" : "NO KEY UPDATE SKIP LOCKED",
    )).map((row) => [row.id, row]),
  )
  const buying = [...known.values()].map(refOf)
  const [{ rows, left }, billable, earlierOf] = yield* Effect.all(
    [lockSessions(standing, waits ? "UPDATE" : "UPDATE SKIP LOCKED"), findBillable(buying), findEarlier(claims)],
    PIPELINED,
  )
  const billableOf = Map.groupBy(billable, ({ customer_id }) => customer_id)
  const holdsSome = new Set(left.map(({ customer_id }) => customer_id))
  return (claim: SessionClaim) =>
    Effect.gen(function* () {
      const { found } = claim
      const now = yield* timeOf(found)
      const { customer_id: buyer } = found
      const [customer, session] = [buyer === null ? undefined : known.get(buyer), rows.get(found.id)]
      if (!waits && ((buyer !== null && (customer === undefined || holdsSome.has(buyer))) || session === undefined))
        return yield* LOCKED
      if (buyer !== null && customer === undefined) return yield* noSuch("customer", buyer)
      // Deleted with its clock, or with its sandbox.
      if (session === undefined) return yield* noSuch("checkout session", found.id)
      const siblings = (of: SessionRow) => siblingsOf(of, rows.values())
      const its = billableOf.get(buyer ?? "") ?? []
      const concerned = [...subscriptionRefs([session, ...siblings(session)]), ...its]
      const locked: Locked = { claim, session, known: customer, siblings, concerned, isBilled: its.length > 0, now }
      return { locked, earlierId: earlierOf(claim) }
    })
})

/** How a session stands, where that leaves nothing to carry out; `earlierId`: the payment that this form was submitted for before. */
const standingOf = ({ claim, session, siblings, now }: Locked, earlierId: string | undefined): Started | undefined => {
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

/** Closes the sessions among these that are over by now; returns those whose subscription somebody holds, which is not to be waited for. */
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
 * How often a batch of many buyers looks at those of one buyer that follow each other. What is left goes on in a batch of its own: nobody
 * waits for the hundredth submission of somebody else.
 */
const MAX_ROUNDS = 4

/** Claims the sessions of submissions; for each what it finds or makes. */
export const claimSessions = Effect.fn("checkout.claim")(function* (
  tenant: Tenant,
  claims: ReadonlyArray<SessionClaim>,
) {
  const answers = new Map<SessionClaim, Exit.Exit<Started, Problem>>()
  const isOfMany = new Set(claims.map(({ found }) => buyerOf(found))).size > 1
  const rounds = isOfMany && !(yield* WaitForLocks) ? MAX_ROUNDS : Number.POSITIVE_INFINITY
  const open = () => claims.filter((claim) => !answers.has(claim))
  // Those of one buyer follow each other, each finding what the one before it has left.
  for (let left = claims, round = 0; left.length > 0 && round < rounds; left = open(), round++) {
    const lockedOf = yield* lockClaims(tenant, left)
    const taken = new Set<string>()
    const next: Array<Locked> = []
    const over: Array<Locked> = []
    for (const claim of left) {
      if (taken.has(buyerOf(claim.found))) continue
      const exit = yield* Effect.exit(lockedOf(claim))
      if (Exit.isFailure(exit)) {
        answers.set(claim, Exit.failCause(exit.cause))
        continue
      }
      const { locked, earlierId } = exit.value
      const standing = standingOf(locked, earlierId)
      if (standing === undefined) {
        taken.add(buyerOf(claim.found))
        next.push(locked)
      } else {
        answers.set(claim, Exit.succeed(standing))
        if (standing.kind === "over") over.push(locked)
      }
    }
    for (const { claim } of yield* closeExpired(over)) answers.set(claim, Exit.fail(LOCKED))
    const carried = yield* completeSubmissions(tenant, next)
    for (const [at, { claim }] of next.entries())
      answers.set(
        claim,
        Exit.map(carried[at]!, (its) => ({ kind: "started", ...its })),
      )
  }
  return claims.map((claim) => answers.get(claim) ?? Exit.fail(LOCKED))
})
