/**
 * FairSemaphore limits how many pieces of work run at the same time, in total and for one tenant. It is used for the connections that
 * requests write on, so that one tenant's slow writes leave connections for the others. In memory only.
 */
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import { Counter } from "./Counter.ts"

/**
 * How long a write waits for places that other tenants use, and for places that its own tenant uses. A burst of hundreds of writes
 * finishes within seconds.
 */
const WAIT_FOR_OTHERS_MS = 10_000
const WAIT_FOR_OWN_MS = 30_000

const OWN_LIMIT = problem(
  "lock_timeout",
  "Other writes of this account use all the connections that one account may use. Try again when they have finished.",
)
const OVERLOADED = problem("service_unavailable", "The service has more writes than it can do at the moment.")

interface Waiting {
  readonly tenant: string
  readonly start: () => void
}

export class FairSemaphore {
  readonly #total: number
  readonly #share: number
  #used = 0
  readonly #byTenant = new Counter()
  readonly #waiting = new Set<Waiting>()

  constructor(total: number, share: number) {
    this.#total = total
    this.#share = share
  }

  #of(tenant: string): number {
    return this.#byTenant.of(tenant)
  }

  #grant(tenant: string): void {
    this.#used++
    this.#byTenant.add(tenant, 1)
  }

  /** The next to get a place: the waiting tenant below its share with the fewest places. */
  #next(): Waiting | undefined {
    let next: Waiting | undefined
    for (const waiting of this.#waiting) {
      const used = this.#of(waiting.tenant)
      if (used < this.#share && (next === undefined || used < this.#of(next.tenant))) next = waiting
    }
    return next
  }

  #take(tenant: string): Effect.Effect<void, Problem> {
    return Effect.suspend(() => {
      if (this.#used >= this.#total || this.#of(tenant) >= this.#share) return this.#wait(tenant)
      this.#grant(tenant)
      return Effect.void
    })
  }

  #wait(tenant: string): Effect.Effect<void, Problem> {
    return Effect.callback((resume) => {
      const waiting: Waiting = {
        tenant,
        start: () => {
          clearTimeout(limit)
          this.#waiting.delete(waiting)
          this.#grant(tenant)
          resume(Effect.void)
        },
      }
      const refuse = (why: Problem) => {
        this.#waiting.delete(waiting)
        resume(Effect.fail(why))
      }
      let limit = setTimeout(() => {
        if (this.#of(tenant) < this.#share) return refuse(OVERLOADED)
        limit = setTimeout(() => refuse(OWN_LIMIT), WAIT_FOR_OWN_MS - WAIT_FOR_OTHERS_MS)
      }, WAIT_FOR_OTHERS_MS)
      this.#waiting.add(waiting)
    })
  }

  #release(tenant: string): void {
    this.#used--
    this.#byTenant.add(tenant, -1)
    this.#next()?.start()
  }

  /** Runs `work` in one of the tenant's places. Fails if no place becomes free in time. */
  within<A, E, R>(tenant: string, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | Problem, R> {
    return Effect.acquireUseRelease(
      this.#take(tenant),
      () => work,
      () => Effect.sync(() => this.#release(tenant)),
    )
  }
}
