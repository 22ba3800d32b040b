/** Applies events from the API to existing subscriptions, one or many: locks the rows that they name, decides, commits. */
import { Effect, Exit } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { SubscriptionEvent } from "../../../machines/events.ts"
import { checkBeforeStateError, noSuch, type Problem } from "../../base/problem.ts"
import { sameForAll } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import type { ChargeRow } from "../charge/charge.ts"
import { clockTime, clockTimes } from "../clock/clocks.ts"
import { customers } from "../customer/customer.ts"
import { type AttachedMethod, findNamed, nameMethod, summaryOf } from "../payment_method/paymentMethods.ts"
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

/** A locked subscription with its current terms. */
export interface Found extends Locked {
  readonly terms: Terms
}

/** Locks, by one statement, rows that are locked before subscriptions; takes the arguments of the subscriptions' own lock. */
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
 * Locks subscriptions for events from the API; returns the result for each ID. A subscription's clock is locked first; while it advances,
 * the result is a failure (422). Without {@link WaitForLocks}, a row that another transaction has locked gives `lock_timeout`.
 */
const lockForEvents = Effect.fnUntraced(function* <R>(
  tenant: Tenant,
  ids: ReadonlyArray<string>,
  before: LockBefore<R>,
) {
  const waits = yield* WaitForLocks
  const refsTo = (some: ReadonlyArray<string>) => some.map((id): Ref => ({ ...tenantOf(tenant), id }))
  const found = new Map<string, Exit.Exit<Found, Problem>>()
  const onWallClock = yield* lockWithTerms(before, refsTo(ids), waits, "test_clock_id IS NULL")
  const wallTime = currentTime()
  for (const one of onWallClock) found.set(one.row.id, Exit.succeed({ ...one, now: wallTime }))
  const others = ids.filter((id) => !found.has(id))
  if (others.length === 0) return found

  const existing = yield* subscriptions.find(tenant, others)
  const clockOf = (id: string): string | undefined => existing.get(id)?.test_clock_id ?? undefined
  const times = yield* clockTimes(
    tenant,
    others.flatMap((id) => clockOf(id) ?? []),
  )
  for (const id of others) {
    const time = times.get(clockOf(id) ?? "")
    if (!existing.has(id)) found.set(id, Exit.fail(noSuch("subscription", id)))
    else if (time !== undefined && Exit.isFailure(time)) found.set(id, Exit.failCause(time.cause))
    // A subscription that was created between the two statements is locked below.
    else if (time === undefined && !waits) found.set(id, Exit.fail(LOCKED))
  }
  const remaining = others.filter((id) => !found.has(id))
  for (const id of remaining) found.set(id, Exit.fail(waits ? noSuch("subscription", id) : LOCKED))
  for (const one of yield* lockWithTerms(before, refsTo(remaining), waits)) {
    const time = times.get(one.row.test_clock_id ?? "") ?? Exit.succeed(wallTime)
    found.set(
      one.row.id,
      Exit.map(time, (now) => ({ ...one, now })),
    )
  }
  return found
})

/** A subscription after its event, and the charges to attempt for it. */
export interface Applied extends Locked {
  readonly attempts: ReadonlyArray<ChargeRow>
}

/** A request's decision: the event on its subscription, if any, and the answer afterwards. */
export interface Decision<A> {
  readonly event: SubscriptionEvent | undefined
  readonly details?: Details
  /** The payment method of the details, which may first have to be attached. */
  readonly paying?: Paying | undefined
  /** The method that pays from now on, if the request changes it; null: none is left. */
  readonly method?: AttachedMethod | null | undefined
  readonly answer: (applied: Applied) => A
}

const termsWith = (terms: Terms, method: AttachedMethod | null | undefined): Terms => {
  if (method === undefined) return terms
  return method === null
    ? { ...terms, payment_method: null }
    : { ...terms, payment_method: summaryOf(method), rail: method.rail }
}

/** The answer to one request, and its subscription afterwards. */
interface Outcome<A> {
  readonly answer: A
  readonly found: Found
}

/** Applies requests that name different subscriptions; returns the result of each. */
const applyDistinct = Effect.fnUntraced(function* <Q extends { readonly id: string }, A>(
  requests: ReadonlyArray<Q>,
  foundOf: (id: string) => Exit.Exit<Found, Problem>,
  decide: (found: Found, request: Q) => Effect.Effect<Decision<A>, Problem>,
) {
  const decided = yield* Effect.forEach(requests, (request) =>
    Effect.exit(
      Effect.gen(function* () {
        const found = yield* foundOf(request.id)
        return { found, decision: yield* decide(found, request) }
      }),
    ),
  )
  const accepted = decided.filter(Exit.isSuccess).map(({ value }) => value)
  // A customer has one clock.
  const nows = new Map(accepted.map(({ found: { row, now } }) => [row.customer_id, now]))
  attachNew(
    yield* unitOfWork,
    accepted.flatMap(({ decision: { paying } }) => (paying === undefined ? [] : [paying])),
  )
  const { rows, attempts } = yield* transitionRows(
    accepted.flatMap(({ found: { row }, decision: { event } }) => (event === undefined ? [] : [{ row, event }])),
    {
      nowOf: ({ customer_id }) => nows.get(customer_id!)!,
      terms: new Map(accepted.map(({ found, decision }) => [found.row.id, termsWith(found.terms, decision.method)])),
      details: new Map(
        accepted.flatMap(({ found, decision: { details } }) =>
          details === undefined ? [] : [[found.row.id, details]],
        ),
      ),
    },
  )
  const attemptsOf = Map.groupBy(attempts, ({ subscription_id }) => subscription_id)
  return decided.map(
    Exit.map(({ found, decision }): Outcome<A> => {
      const row = rows.get(found.row.id) ?? found.row
      const answer = decision.answer({ row, now: found.now, attempts: attemptsOf.get(row.id) ?? [] })
      return { answer, found: { ...found, row } }
    }),
  )
})

/**
 * Locks the subscriptions that requests name. Returns a function that applies requests naming different subscriptions and returns the
 * result of each. Each call sees the changes of earlier calls.
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
    const applied = outcomes.filter(Exit.isSuccess).map(({ value }) => value.found)
    const withNewMethod = applied.filter(({ row }) => {
      const previous = found.get(row.id)!
      return Exit.isSuccess(previous) && previous.value.row.payment_method_id !== row.payment_method_id
    })
    const terms = yield* readTerms(withNewMethod.map(({ row }) => refOf(row)))
    for (const one of applied)
      found.set(one.row.id, Exit.succeed({ ...one, terms: terms.get(one.row.id) ?? one.terms }))
    return outcomes.map(Exit.map(({ answer }) => answer))
  })
})

/** Processes requests in rounds of one per subscription: requests for the same one run in sequence. Returns the result of each. */
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

/** Applies requests that are processed together, each to the subscription that it names; returns the result of each. */
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
 * Locks a subscription for a request that may name a payment method in `payment_method`. Also locks the customer, so that the method is not
 * removed in the meantime.
 */
export const lockWithMethod = Effect.fnUntraced(function* (
  tenant: Tenant,
  id: string,
  named: string | null | undefined,
) {
  const { test_clock_id, customer_id } = yield* subscriptions.get(tenant, id)
  const methodCheck =
    named == null ? Effect.void : findNamed({ ...tenantOf(tenant), id: customer_id }, named, "payment_method")
  const now = yield* checkBeforeStateError(methodCheck, clockTime(tenant, test_clock_id))
  const customer = yield* customers.lockOne(tenant, customer_id, "SHARE")
  const method = named == null ? undefined : yield* nameMethod(customer, named, "payment_method", now)
  return { row: yield* subscriptions.lockOne(tenant, id), now, customer, method }
})

/** Applies one event to a locked subscription, with its plan's current terms. Returns the charges to attempt. */
export const apply = Effect.fnUntraced(function* ({ row, now }: Locked, event: SubscriptionEvent, details?: Details) {
  return yield* transition([{ row, event }], {
    nowOf: sameForAll(now),
    terms: yield* readTerms([refOf(row)]),
    ...(details === undefined ? {} : { details: new Map([[row.id, details]]) }),
  })
})
