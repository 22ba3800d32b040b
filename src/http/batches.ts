/**
 * Requests of one kind that come together, begun together: those of a tenant that arrive while others of theirs are being begun
 * are the next batch, decided, written and committed in one transaction, and answered each for itself. Nothing waits for company
 * that does not come. A batch waits for nobody: requests that need an object which somebody holds wait for it in a batch of its
 * own, and whoever else needs it meanwhile joins them. A batch that fails is begun again one by one, so that nobody fails for
 * another; not one of which nobody knows whether it was committed.
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

/** What a request of a batch comes to. */
type Outcome<A> = Exit.Exit<A, Failure>

/**
 * Begins requests of one kind and of one tenant in the running transaction; for each, in their order, what it comes to. One that
 * needs what somebody else holds comes to `lock_timeout` where that may not be waited for (`MayWait`).
 */
export type StartAll<Q, A, R> = (
  tenant: Tenant,
  requests: ReadonlyArray<Q>,
) => Effect.Effect<ReadonlyArray<Outcome<A>>, Failure, R>

interface Asked<Q, A, R> {
  readonly no: number
  readonly tenant: Tenant
  /** The object that it may have to wait for. */
  readonly lockKey: string
  readonly request: Q
  readonly startAll: StartAll<Q, A, R>
}

/**
 * Batches and requests that may wait at once, and of one tenant: so many that others of its own have connections while these
 * wait.
 */
const WAITING_AT_ONCE = 12
const WAITING_SHARE = 3

const startIn = <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) =>
  Effect.flatMap(TenantDatabase, ({ writing }) => {
    const [{ tenant, startAll }] = all as [Asked<Q, A, R>]
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

/** Where a request goes on: nothing came of it in its batch. */
type Next = "waits" | "alone"

/** What a batch tells a request: what it comes to, or where it goes on. */
type Started<A> = Outcome<A> | Next

/** What each comes to of whom a batch says nothing: it failed as a whole. */
const failed = <A>(all: ReadonlyArray<unknown>, cause: Cause.Cause<Failure>): ReadonlyArray<Started<A>> =>
  all.map(() => (all.length > 1 && isCertainlyRolledBack(cause) ? "alone" : Exit.failCause(cause)))

const byNo = <A>(all: ReadonlyArray<{ readonly no: number }>, told: ReadonlyArray<Started<A>>) =>
  new Map(all.map(({ no }, at) => [String(no), told[at]!]))

/** Begins those that wait for no lock. */
const startAtOnce = <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) =>
  Effect.matchCause(Effect.provideService(startIn(all), WaitForLocks, false), {
    onSuccess: (outcomes) =>
      byNo<A>(
        all,
        outcomes.map((outcome) => (Exit.isFailure(outcome) && isLocked(outcome.cause) ? "waits" : outcome)),
      ),
    onFailure: (cause) => byNo(all, failed<A>(all, cause)),
  })

/**
 * Begins those that wait for one object, which they have then, or nobody has. Where it was another that they waited for in vain,
 * which not all of them need, those that need not wait are begun after all.
 */
const startWaiting = <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) =>
  Effect.matchCauseEffect(startIn(all), {
    onSuccess: (outcomes) => Effect.succeed(byNo<A>(all, outcomes)),
    onFailure: (cause) => {
      if (all.length === 1 || !isLocked(cause)) return Effect.succeed(byNo(all, failed<A>(all, cause)))
      const refused = (told: Started<A>): Started<A> => (told === "waits" ? Exit.failCause(cause) : told)
      return Effect.map(startAtOnce<Q, A, R>(all), (told) => new Map([...told].map(([no, one]) => [no, refused(one)])))
    },
  })

/** Requests of one kind. */
class Batch<Q, A, R> {
  readonly #places: FairSemaphore
  readonly #atOnce: Batcher<Asked<Q, A, R>, Started<A>, never, R | TenantDatabase>
  readonly #waiting: Batcher<Asked<Q, A, R>, Started<A>, Problem, R | TenantDatabase>
  #no = 0

  constructor(places: FairSemaphore, context: Context.Context<R | TenantDatabase>) {
    this.#places = places
    const noOf = ({ no }: Asked<Q, A, R>) => String(no)
    this.#atOnce = new Batcher(context, noOf, startAtOnce<Q, A, R>, { laneOf: ({ tenant }) => tenantName(tenant) })
    this.#waiting = new Batcher<Asked<Q, A, R>, Started<A>, Problem, R | TenantDatabase>(
      context,
      noOf,
      startWaiting<Q, A, R>,
      {
        laneOf: ({ tenant, lockKey }) => `${tenantName(tenant)} ${lockKey}`,
        admit: ({ tenant }, run) => places.within(tenantName(tenant), run),
      },
    )
  }

  /** Begins one outside of all batches. */
  #alone(asked: Asked<Q, A, R>) {
    const started = Effect.flatMap(startIn([asked]), ([outcome]) => outcome!)
    return this.#places.within(tenantName(asked.tenant), started)
  }

  /** Begins a request that needs an object, with those of its tenant that come with it. */
  start(tenant: Tenant, lockKey: string, request: Q, startAll: StartAll<Q, A, R>) {
    return Effect.gen({ self: this }, function* () {
      const asked = { no: this.#no++, tenant, lockKey, request, startAll }
      let told: Started<A> = "waits"
      if (!this.#waiting.isUnderWay(asked)) told = (yield* this.#atOnce.ask(asked))!
      if (told === "waits") told = (yield* this.#waiting.ask(asked))!
      return yield* told === "alone" || told === "waits" ? this.#alone(asked) : told
    })
  }
}

/** Those of a server, by what is asked for: an endpoint, say. They share the places to wait in. */
export class Batches extends Context.Service<
  Batches,
  {
    /** Starts a request together with those of its tenant and kind that come with it; `lockKey` names the object that it may have to wait for. */
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
    const places = new FairSemaphore(WAITING_AT_ONCE, WAITING_SHARE)
    return {
      start: <Q, A, R>(kind: object, tenant: Tenant, lockKey: string, request: Q, startAll: StartAll<Q, A, R>) =>
        Effect.flatMap(Effect.context<R | TenantDatabase>(), (context) => {
          // Requests of a kind are of one type.
          let batch = byKind.get(kind) as Batch<Q, A, R> | undefined
          if (batch === undefined) {
            // A batch is no part of the trace of whoever came first.
            const own = Context.omit(Tracer.ParentSpan)(context) as Context.Context<R | TenantDatabase>
            batch = new Batch(places, own)
            byKind.set(kind, batch)
          }
          return batch.start(tenant, lockKey, request, startAll)
        }),
    }
  })
}
