/**
 * Requests of one kind that come together, begun together: those of a tenant that arrive while others of theirs are being begun
 * are the next batch, decided, written and committed in one transaction, and answered each for itself. Nothing waits for company
 * that does not come. A batch that fails is begun again one by one, so that nobody fails for another; not one of which nobody
 * knows whether it was committed.
 */
import { Context, Effect, Exit, Tracer } from "effect"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import { Together } from "../process/Together.ts"
import { type Failure, hasDoneNothing } from "./failures.ts"

/** What a request of a batch comes to. */
type Outcome<A> = Exit.Exit<A, Failure>

/** Begins requests of one kind and of one tenant in the running transaction; for each, in their order, what it comes to. */
export type BeginAll<Q, A, R> = (requests: ReadonlyArray<Q>) => Effect.Effect<ReadonlyArray<Outcome<A>>, Failure, R>

interface Asked<Q, A, R> {
  readonly no: number
  readonly tenant: Tenant
  readonly request: Q
  readonly beginAll: BeginAll<Q, A, R>
}

/** Requests begun one by one at once, where a batch of them has failed. */
const ALONE_AT_ONCE = 4

const beginIn = <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) =>
  Effect.flatMap(TenantDatabase, ({ writing }) => {
    const [{ tenant, beginAll }] = all as [Asked<Q, A, R>]
    return writing(tenant, beginAll(all.map(({ request }) => request)))
  })

const beginAlone = <Q, A, R>(one: Asked<Q, A, R>): Effect.Effect<Outcome<A>, never, R | TenantDatabase> =>
  Effect.map(Effect.exit(beginIn([one])), (exit) =>
    Exit.isSuccess(exit) ? exit.value[0]! : Exit.failCause(exit.cause),
  )

const begin = Effect.fnUntraced(function* <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) {
  const eachAlone = Effect.forEach(all, beginAlone<Q, A, R>, { concurrency: ALONE_AT_ONCE })
  const together = Effect.catchCause(beginIn(all), (cause) =>
    hasDoneNothing(cause) ? eachAlone : Effect.succeed(all.map((): Outcome<A> => Exit.failCause(cause))),
  )
  const outcomes = yield* all.length === 1 ? eachAlone : together
  return new Map(all.map(({ no }, at) => [String(no), outcomes[at]!]))
})

/** Requests of one kind. */
class Batch<Q, A, R> {
  #together: Together<Asked<Q, A, R>, Outcome<A>, never, R | TenantDatabase> | undefined
  #no = 0

  /** Begins a request with those of its tenant that come with it. */
  begin(tenant: Tenant, request: Q, beginAll: BeginAll<Q, A, R>): Effect.Effect<A, Failure, R | TenantDatabase> {
    return Effect.flatMap(Effect.context<R | TenantDatabase>(), (context) => {
      this.#together ??= new Together(
        // A batch is no part of the trace of whoever came first.
        Context.omit(Tracer.ParentSpan)(context) as Context.Context<R | TenantDatabase>,
        ({ no }) => String(no),
        begin<Q, A, R>,
        ({ tenant: { account_id, livemode } }) => `${account_id} ${livemode}`,
      )
      const asked = this.#together.ask({ no: this.#no++, tenant, request, beginAll })
      return Effect.flatMap(asked, (outcome) => outcome!)
    })
  }
}

/** Those of a server, by endpoint. */
export class Batches {
  readonly #byEndpoint = new Map<object, unknown>()

  /** Begins a request with those of its tenant and endpoint that come with it. */
  begin<Q extends { readonly endpoint: object }, A, R>(tenant: Tenant, request: Q, beginAll: BeginAll<Q, A, R>) {
    // An endpoint's requests are all of one kind.
    const known = (this.#byEndpoint.get(request.endpoint) ?? new Batch<Q, A, R>()) as Batch<Q, A, R>
    this.#byEndpoint.set(request.endpoint, known)
    return known.begin(tenant, request, beginAll)
  }
}
