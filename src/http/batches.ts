/**
 * Requests of one kind that come together, begun together: those of a tenant that arrive while others of theirs are being begun
 * are the next batch, decided, written and committed in one transaction, and answered each for itself. Nothing waits for company
 * that does not come. What a batch cannot have at once, because somebody holds it, is waited for by those alone who need it; a
 * batch that fails is begun again one by one, so that nobody fails for another; not one of which nobody knows whether it was
 * committed.
 */
import { Cause, Context, Effect, Exit, Tracer } from "effect"
import { MayWait } from "../db/held.ts"
import { Places } from "../db/Places.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import { Together } from "../Together.ts"
import { type Failure, hasDoneNothing } from "./failures.ts"

/** What a request of a batch comes to. */
type Outcome<A> = Exit.Exit<A, Failure>

/**
 * Begins requests of one kind and of one tenant in the running transaction; for each, in their order, what it comes to. One that
 * needs what somebody else holds comes to `lock_timeout` where that may not be waited for (`MayWait`).
 */
export type BeginAll<Q, A, R> = (requests: ReadonlyArray<Q>) => Effect.Effect<ReadonlyArray<Outcome<A>>, Failure, R>

interface Asked<Q, A, R> {
  readonly no: number
  readonly tenant: Tenant
  readonly request: Q
  readonly beginAll: BeginAll<Q, A, R>
}

/** Requests begun by themselves at once, and of one tenant: so many that others of its own have connections while these wait. */
const ALONE_AT_ONCE = 12
const ALONE_SHARE = 3

/** What a batch tells a request: what it comes to, or that it is to be begun by itself. */
type Told<A> = Outcome<A> | "alone"

const nameOf = ({ account_id, livemode }: Tenant): string => `${account_id} ${livemode}`

const beginIn = <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) =>
  Effect.flatMap(TenantDatabase, ({ writing }) => {
    const [{ tenant, beginAll }] = all as [Asked<Q, A, R>]
    return writing(tenant, beginAll(all.map(({ request }) => request)))
  })

/** Begins one outside of all batches, where it keeps nobody waiting. */
const beginAlone = <Q, A, R>(one: Asked<Q, A, R>): Effect.Effect<A, Failure, R | TenantDatabase> =>
  Effect.flatMap(beginIn([one]), ([outcome]) => outcome!)

const isHeld = (outcome: Outcome<unknown>): boolean =>
  Exit.isFailure(outcome) &&
  outcome.cause.reasons.some(
    (reason) => Cause.isFailReason(reason) && "code" in reason.error && reason.error.code === "lock_timeout",
  )

const begin = Effect.fnUntraced(function* <Q, A, R>(all: ReadonlyArray<Asked<Q, A, R>>) {
  const told = yield* Effect.matchCause(Effect.provideService(beginIn(all), MayWait, false), {
    onSuccess: (outcomes): ReadonlyArray<Told<A>> => outcomes.map((outcome) => (isHeld(outcome) ? "alone" : outcome)),
    onFailure: (cause) =>
      all.map((): Told<A> => (all.length > 1 && hasDoneNothing(cause) ? "alone" : Exit.failCause(cause))),
  })
  return new Map(all.map(({ no }, at) => [String(no), told[at]!]))
})

/** Requests of one kind. */
class Batch<Q, A, R> {
  readonly #alone: Places
  #together: Together<Asked<Q, A, R>, Told<A>, never, R | TenantDatabase> | undefined
  #no = 0

  constructor(alone: Places) {
    this.#alone = alone
  }

  /** Begins a request with those of its tenant that come with it. */
  begin(tenant: Tenant, request: Q, beginAll: BeginAll<Q, A, R>): Effect.Effect<A, Failure, R | TenantDatabase> {
    return Effect.flatMap(Effect.context<R | TenantDatabase>(), (context) => {
      this.#together ??= new Together(
        // A batch is no part of the trace of whoever came first.
        Context.omit(Tracer.ParentSpan)(context) as Context.Context<R | TenantDatabase>,
        ({ no }) => String(no),
        begin<Q, A, R>,
        ({ tenant }) => nameOf(tenant),
      )
      const asked = { no: this.#no++, tenant, request, beginAll }
      return Effect.flatMap(this.#together.ask(asked), (told) =>
        told === "alone" ? this.#alone.within(nameOf(tenant), beginAlone(asked)) : told!,
      )
    })
  }
}

/** Those of a server, by endpoint. */
export class Batches {
  readonly #byEndpoint = new Map<object, unknown>()
  readonly #alone = new Places(ALONE_AT_ONCE, ALONE_SHARE)

  /** Begins a request with those of its tenant and endpoint that come with it. */
  begin<Q extends { readonly endpoint: object }, A, R>(tenant: Tenant, request: Q, beginAll: BeginAll<Q, A, R>) {
    // An endpoint's requests are all of one kind.
    const known = (this.#byEndpoint.get(request.endpoint) ?? new Batch<Q, A, R>(this.#alone)) as Batch<Q, A, R>
    this.#byEndpoint.set(request.endpoint, known)
    return known.begin(tenant, request, beginAll)
  }
}
