/** Events from the API on subscriptions that exist: locks what they name, decides, commits; many together, or one. */
import { Effect, Exit } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { SubscriptionEvent } from "../../../machines/events.ts"
import { beforeState, noSuch, type Problem } from "../../base/problem.ts"
import { sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { standingTime, standingTimes } from "../clock/clocks.ts"
import { customers } from "../customer/customer.ts"
import { findNamed, nameMethod } from "../payment_method/paymentMethods.ts"
import { attachNew, type Paying } from "../payments/payers.ts"
import type { Details } from "./outcome.ts"
import { type SubscriptionRow, subscriptions } from "./subscription.ts"
import { readTerms, type Terms } from "./terms.ts"
import { transition, transitionRows } from "./transition.ts"

/** A subscription locked for an event from the API, with its own now. */
export interface Locked {
  readonly row: SubscriptionRow
  readonly now: number
}

/** The same with its terms, as they stand. */
export interface Found extends Locked {
  readonly terms: Terms
}

/** Locks, by one statement, what is locked before subscriptions; the same ones. */
type LockBefore<R> = (
  ...which: Parameters<typeof subscriptions.lock>
) => Effect.Effect<void, SqlError.SqlError, R | SqlClient.SqlClient>

const lockWithTerms = <R>(before: LockBefore<R>, refs: ReadonlyArray<Ref>, waits: boolean, only = "true") => {
  const mode = waits ? "UPDATE" : "UPDATE SKIP LOCKED"
  const locking = [before(refs, mode, only), subscriptions.lock(refs, mode, only), readTerms(refs)] as const
  return Effect.map(Effect.all(locking, PIPELINED), ([, rows, terms]) =>
    rows.map((row) => ({ row, terms: terms.get(row.id)! })),
  )
}

/**
 * Locks subscriptions for events from the API; for each ID what is found. Those of a clock are locked once that is held, and
 * refused while it moves (422). Where it is not to be waited for what somebody else holds, that is `lock_timeout`.
 */
const lockForEvents = Effect.fnUntraced(function* <R>(
  tenant: Tenant,
  ids: ReadonlyArray<string>,
  before: LockBefore<R>,
) {
  const waits = yield* WaitForLocks
  const refsTo = (some: ReadonlyArray<string>) => some.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const found = new Map<string, Exit.Exit<Found, Problem>>()
  const free = yield* lockWithTerms(before, refsTo(ids), waits, "test_clock_id IS NULL")
  const wall = currentTime()
  for (const one of free) found.set(one.row.id, Exit.succeed({ ...one, now: wall }))
  const others = ids.filter((id) => !found.has(id))
  if (others.length === 0) return found

  const known = yield* subscriptions.find(tenant, others)
  const clockOf = (id: string): string | undefined => known.get(id)?.test_clock_id ?? undefined
  const times = yield* standingTimes(
    tenant,
    others.flatMap((id) => clockOf(id) ?? []),
  )
  for (const id of others) {
    const time = times.get(clockOf(id) ?? "")
    if (!known.has(id)) found.set(id, Exit.fail(noSuch("subscription", id)))
    else if (time !== undefined && Exit.isFailure(time)) found.set(id, Exit.failCause(time.cause))
    // It may also have come between the two statements: then it is locked below.
    else if (time === undefined && !waits) found.set(id, Exit.fail(LOCKED))
  }
  const standing = others.filter((id) => !found.has(id))
  for (const id of standing) found.set(id, Exit.fail(waits ? noSuch("subscription", id) : LOCKED))
  for (const one of yield* lockWithTerms(before, refsTo(standing), waits)) {
    const time = times.get(one.row.test_clock_id ?? "") ?? Exit.succeed(wall)
    found.set(
      one.row.id,
      Exit.map(time, (now) => ({ ...one, now })),
    )
  }
  return found
})

/** A subscription once its event is applied, and the charges to attempt for it. */
export interface Applied extends Locked {
  readonly attempts: ReadonlyArray<ChargeRow>
}

/** What a request does to the subscription that it names, if anything, and what it answers then. */
export interface Decision<A> {
  readonly event: SubscriptionEvent | undefined
  readonly details?: Details
  /** What the details pay by, which may have to be attached first. */
  readonly paying?: Paying | undefined
  readonly answer: (applied: Applied) => A
}

/** What one of several requests comes to, and its subscription as it is then. */
interface Outcome<A> {
  readonly answer: A
  readonly found: Found
}

/** Applies requests of which no two name the same subscription; for each what it comes to. */
const applyDistinct = Effect.fnUntraced(function* <Q extends { readonly id: string }, A>(
  requests: ReadonlyArray<Q>,
  foundOf: (id: string) => Exit.Exit<Found, Problem>,
  decide: (found: Found, request: Q) => Effect.Effect<Decision<A>, Problem>,
) {
  const decided = yield* Effect.forEach(requests, (request) =>
    Effect.exit(
      Effect.gen(function* () {
        const found = yield* foundOf(request.id)
        return { found, verdict: yield* decide(found, request) }
      }),
    ),
  )
  const accepted = decided.filter(Exit.isSuccess).map(({ value }) => value)
  // A customer has one clock.
  const nows = new Map(accepted.map(({ found: { row, now } }) => [row.customer_id, now]))
  attachNew(
    yield* unitOfWork,
    accepted.flatMap(({ verdict: { paying } }) => (paying === undefined ? [] : [paying])),
  )
  const { rows, attempts } = yield* transitionRows(
    accepted.flatMap(({ found: { row }, verdict: { event } }) => (event === undefined ? [] : [{ row, event }])),
    {
      nowOf: ({ customer_id }) => nows.get(customer_id!)!,
      terms: new Map(accepted.map(({ found }) => [found.row.id, found.terms])),
      details: new Map(
        accepted.flatMap(({ found, verdict: { details } }) => (details === undefined ? [] : [[found.row.id, details]])),
      ),
    },
  )
  const attemptsOf = Map.groupBy(attempts, ({ subscription_id }) => subscription_id)
  return decided.map(
    Exit.map(({ found, verdict }): Outcome<A> => {
      const row = rows.get(found.row.id) ?? found.row
      const answer = verdict.answer({ row, now: found.now, attempts: attemptsOf.get(row.id) ?? [] })
      return { answer, found: { ...found, row } }
    }),
  )
})

/**
 * Locks the subscriptions that requests name, and returns what applies requests to them of which no two name the same one: for each what
 * it comes to. Whatever is applied finds what was applied before has left.
 */
export const lockAndApply = Effect.fnUntraced(function* <R = never>(
  tenant: Tenant,
  requests: ReadonlyArray<{ readonly id: string }>,
  before: LockBefore<R> = () => Effect.void,
) {
  const found = yield* lockForEvents(tenant, [...new Set(requests.map(({ id }) => id))], before)
  return Effect.fnUntraced(function* <Q extends { readonly id: string }, A>(
    distinct: ReadonlyArray<Q>,
    decide: (found: Found, request: Q) => Effect.Effect<Decision<A>, Problem>,
  ) {
    const outcomes = yield* applyDistinct(distinct, (id) => found.get(id)!, decide)
    const left = outcomes.filter(Exit.isSuccess).map(({ value }) => value.found)
    const paysAnew = left.filter(({ row }) => {
      const known = found.get(row.id)!
      return Exit.isSuccess(known) && known.value.row.payment_method_id !== row.payment_method_id
    })
    const terms = yield* readTerms(paysAnew.map(({ row }) => refOf(row)))
    for (const one of left) found.set(one.row.id, Exit.succeed({ ...one, terms: terms.get(one.row.id) ?? one.terms }))
    return outcomes.map(Exit.map(({ answer }) => answer))
  })
})

/** What requests come to, of which those that name the same subscription follow each other: a round has one of each. */
export const oneEachRound = Effect.fnUntraced(function* <Q extends { readonly id: string }, A, E, R>(
  requests: ReadonlyArray<Q>,
  round: (distinct: ReadonlyArray<Q>) => Effect.Effect<ReadonlyArray<A>, E, R>,
) {
  const answers = new Map<Q, A>()
  for (let left = requests; left.length > 0; left = left.filter((one) => !answers.has(one))) {
    const firsts = [...Map.groupBy(left, ({ id }) => id).values()].map(([first]) => first!)
    for (const [at, answer] of (yield* round(firsts)).entries()) answers.set(firsts[at]!, answer)
  }
  return requests.map((one) => answers.get(one)!)
})

/** Applies requests that came together, each to the subscription that it names: for each what it comes to. */
export const applyAll = Effect.fnUntraced(function* <Q extends { readonly id: string }, A, R = never>(
  tenant: Tenant,
  requests: ReadonlyArray<Q>,
  decide: (found: Found, request: Q) => Effect.Effect<Decision<A>, Problem>,
  before?: LockBefore<R>,
) {
  const applyDecided = yield* lockAndApply(tenant, requests, before)
  return yield* oneEachRound(requests, (distinct) => applyDecided(distinct, decide))
})

/**
 * Locks one for a request that may name a payment method in its `payment_method`: the customer is locked too, so that no method is
 * removed while it is being named.
 */
export const lockWithMethod = Effect.fnUntraced(function* (
  tenant: Tenant,
  id: string,
  named: string | null | undefined,
) {
  const { test_clock_id, customer_id } = yield* subscriptions.get(tenant, id)
  const judged =
    named == null ? Effect.void : findNamed({ ...tenantOf(tenant), id: customer_id }, named, "payment_method")
  const now = yield* beforeState(judged, standingTime(tenant, test_clock_id))
  const customer = yield* customers.lockOne(tenant, customer_id, "SHARE")
  const method = named == null ? undefined : yield* nameMethod(customer, named, "payment_method", now)
  return { row: yield* subscriptions.lockOne(tenant, id), now, customer, method }
})

/** Applies one event to a locked subscription, with its plan's terms as they stand. Returns the charges to attempt. */
export const apply = Effect.fnUntraced(function* ({ row, now }: Locked, event: SubscriptionEvent, details?: Details) {
  return yield* transition([{ row, event }], {
    nowOf: sameForAll(now),
    terms: yield* readTerms([refOf(row)]),
    ...(details === undefined ? {} : { details: new Map([[row.id, details]]) }),
  })
})
