/**
 * Runs requests of one kind and tenant in batches. Requests that arrive while a batch runs form the next one: it is decided,
 * written and committed in one transaction, and each request gets its own answer. A request never waits for more requests to come.
 * A batch does not wait for locks: requests for a locked object wait for it in a separate batch, which later requests for the
 * same object join. If a batch fails, its requests run again one by one, so that none fails because of another. If its commit
 * is uncertain, they do not run again.
 */
import { Cause, Context, Effect, Exit, Layer, Tracer } from "effect"
import type { Problem } from "../base/problem.ts"
import { Batcher } from "../concurrency/Batcher.ts"
import { FairSemaphore } from "../concurrency/FairSemaphore.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { type Tenant, tenantName } from "../db/tenant.ts"
import { WaitForLocks } from "../postgres/lockWait.ts"
import { isCertainlyRolledBack } from "../postgres/rollback.ts"
import type { Failure } from "./failures.ts"

/** The result of one request of a batch. */
type Outcome<A> = Exit.Exit<A, Failure>

/**
 * Starts requests of one kind and tenant in the running transaction; returns the result of each, in their order. A request that
 * needs a locked row fails with `lock_timeout` if it may not wait (`WaitForLocks`).
 */
export type StartAll<Q, A, R> = (
  tenant: Tenant,
  requests: ReadonlyArray<Q>,
) => Effect.Effect<ReadonlyArray<Outcome<A>>, Failure, R>

interface Pending<Q, A, R> {
  readonly no: number
  readonly tenant: Tenant
  /** Names the object whose lock it may have to wait for. */
  readonly lockKey: string
  readonly request: Q
  readonly startAll: StartAll<Q, A, R>
}

/**
 * How many batches and requests may wait for locks at the same time, in all and of one tenant. The tenant's other requests still
 * get connections while these wait.
 */
const WAITING_AT_ONCE = 12
const WAITING_SHARE = 3

const startIn = <Q, A, R>(all: ReadonlyArray<Pending<Q, A, R>>) =>
  Effect.flatMap(TenantDatabase, ({ writing }) => {
    const [{ tenant, startAll }] = all as [Pending<Q, A, R>]
    return writing(
      tenant,
      startAll(
        tenant,
        all.map(({ request }) => request),
      ),
    )
  })

const isLocked = (cause: Cause.Cause<Failure>): boolean =>
  cause.reasons.some(
    (reason) => Cause.isFailReason(reason) && "code" in reason.error && reason.error.code === "lock_timeout",
  )

/** The next step of a request without a result in its batch: wait for the lock, or run alone. */
type Next = "waits" | "alone"

/** A batch's answer to a request: its result, or its next step. */
type Started<A> = Outcome<A> | Next

/** The answer to each request of a batch that failed as a whole. */
const failed = <A>(all: ReadonlyArray<unknown>, cause: Cause.Cause<Failure>): ReadonlyArray<Started<A>> =>
  all.map(() => (all.length > 1 && isCertainlyRolledBack(cause) ? "alone" : Exit.failCause(cause)))

const byNo = <A>(all: ReadonlyArray<{ readonly no: number }>, answers: ReadonlyArray<Started<A>>) =>
  new Map(all.map(({ no }, at) => [String(no), answers[at]!]))

/** Starts requests without waiting for locks. */
const startUnlocked = <Q, A, R>(all: ReadonlyArray<Pending<Q, A, R>>) =>
  Effect.matchCause(Effect.provideService(startIn(all), WaitForLocks, false), {
    onSuccess: (outcomes) =>
      byNo<A>(
        all,
        outcomes.map((outcome) => (Exit.isFailure(outcome) && isLocked(outcome.cause) ? "waits" : outcome)),
      ),
    onFailure: (cause) => byNo(all, failed<A>(all, cause)),
  })

/**
 * Starts requests that wait for the lock of one object. If the wait for another object timed out, which not all of them need, it
 * starts those that need not wait.
 */
const startWaiting = <Q, A, R>(all: ReadonlyArray<Pending<Q, A, R>>) =>
  Effect.matchCauseEffect(startIn(all), {
    onSuccess: (outcomes) => Effect.succeed(byNo<A>(all, outcomes)),
    onFailure: (cause) => {
      if (all.length === 1 || !isLocked(cause)) return Effect.succeed(byNo(all, failed<A>(all, cause)))
      const refused = (answer: Started<A>): Started<A> => (answer === "waits" ? Exit.failCause(cause) : answer)
      return Effect.map(
        startUnlocked<Q, A, R>(all),
        (answers) => new Map([...answers].map(([no, answer]) => [no, refused(answer)])),
      )
    },
  })

/** The batches of one kind of request. */
class Batch<Q, A, R> {
  readonly #semaphore: FairSemaphore
  readonly #unlocked: Batcher<Pending<Q, A, R>, Started<A>, never, R | TenantDatabase>
  readonly #waiting: Batcher<Pending<Q, A, R>, Started<A>, Problem, R | TenantDatabase>
  #no = 0

  constructor(semaphore: FairSemaphore, context: Context.Context<R | TenantDatabase>) {
    this.#semaphore = semaphore
    const noOf = ({ no }: Pending<Q, A, R>) => String(no)
    this.#unlocked = new Batcher(context, noOf, startUnlocked<Q, A, R>, { laneOf: ({ tenant }) => tenantName(tenant) })
    this.#waiting = new Batcher<Pending<Q, A, R>, Started<A>, Problem, R | TenantDatabase>(
      context,
      noOf,
      startWaiting<Q, A, R>,
      {
        laneOf: ({ tenant, lockKey }) => `${tenantName(tenant)} ${lockKey}`,
        admit: ({ tenant }, run) => semaphore.within(tenantName(tenant), run),
      },
    )
  }

  /** Starts a request outside of all batches. */
  #alone(pending: Pending<Q, A, R>) {
    const started = Effect.flatMap(startIn([pending]), ([outcome]) => outcome!)
    return this.#semaphore.within(tenantName(pending.tenant), started)
  }

  /** Starts a request in a batch of its tenant. */
  start(tenant: Tenant, lockKey: string, request: Q, startAll: StartAll<Q, A, R>) {
    return Effect.gen({ self: this }, function* () {
      const pending = { no: this.#no++, tenant, lockKey, request, startAll }
      let answer: Started<A> = "waits"
      if (!this.#waiting.isUnderWay(pending)) answer = (yield* this.#unlocked.ask(pending))!
      if (answer === "waits") answer = (yield* this.#waiting.ask(pending))!
      return yield* answer === "alone" || answer === "waits" ? this.#alone(pending) : answer
    })
  }
}

/** The batches of a server, by kind, such as an endpoint. All kinds share the limit of requests that wait for locks. */
export class Batches extends Context.Service<
  Batches,
  {
    /** Starts a request in a batch of its tenant and kind. `lockKey` names the object whose lock it may have to wait for. */
    readonly start: <Q, A, R>(
      kind: object,
      tenant: Tenant,
      lockKey: string,
      request: Q,
      startAll: StartAll<Q, A, R>,
    ) => Effect.Effect<A, Failure, R | TenantDatabase>
  }
>()("billing/http/Batches") {
  static readonly layer = Layer.sync(Batches, () => {
    const byKind = new Map<object, unknown>()
    const semaphore = new FairSemaphore(WAITING_AT_ONCE, WAITING_SHARE)
    return {
      start: <Q, A, R>(kind: object, tenant: Tenant, lockKey: string, request: Q, startAll: StartAll<Q, A, R>) =>
        Effect.flatMap(Effect.context<R | TenantDatabase>(), (context) => {
          // All requests of one kind have one type.
          let batch = byKind.get(kind) as Batch<Q, A, R> | undefined
          if (batch === undefined) {
            // A batch does not belong to the trace of its first request.
            const own = Context.omit(Tracer.ParentSpan)(context) as Context.Context<R | TenantDatabase>
            batch = new Batch(semaphore, own)
            byKind.set(kind, batch)
          }
          return batch.start(tenant, lockKey, request, startAll)
        }),
    }
  })
}
