/**
 * Places at the connections that requests write by: so many in all, and no more than a share for one tenant, so that whatever
 * a tenant's writes wait for, there is a connection for the others. In memory only.
 */
import { Effect } from "effect"
import { type Problem, problem } from "../base/problem.ts"
import { Counter } from "./Counter.ts"

/**
 * For how long a write waits for places that others hold, and for those of its own tenant's other writes: a burst of hundreds is
 * worked off in seconds.
 */
const WAIT_FOR_OTHERS_MS = 10_000
const WAIT_FOR_OWN_MS = 30_000

const OWN_DOING = problem(
  "lock_timeout",
  "Other writes of this account take all the connections that it may use at once: try again once they are through.",
)
const OTHERS_DOING = problem("service_unavailable", "The service has more to write than it can just now.")

interface Waiting {
  readonly tenant: string
  readonly go: () => void
}

export class FairSemaphore {
  readonly #inAll: number
  readonly #share: number
  #taken = 0
  readonly #byTenant = new Counter()
  readonly #waiting = new Set<Waiting>()

  constructor(inAll: number, share: number) {
    this.#inAll = inAll
    this.#share = share
  }

  #of(tenant: string): number {
    return this.#byTenant.of(tenant)
  }

  #give(tenant: string): void {
    this.#taken++
    this.#byTenant.add(tenant, 1)
  }

  /** Who is next: of those that may take a place, the tenant that has the fewest. */
  #next(): Waiting | undefined {
    let next: Waiting | undefined
    for (const waiting of this.#waiting) {
      const taken = this.#of(waiting.tenant)
      if (taken < this.#share && (next === undefined || taken < this.#of(next.tenant))) next = waiting
    }
    return next
  }

  #take(tenant: string): Effect.Effect<void, Problem> {
    return Effect.suspend(() => {
      if (this.#taken >= this.#inAll || this.#of(tenant) >= this.#share) return this.#wait(tenant)
      this.#give(tenant)
      return Effect.void
    })
  }

  #wait(tenant: string): Effect.Effect<void, Problem> {
    return Effect.callback((resume) => {
      const waiting: Waiting = {
        tenant,
        go: () => {
          clearTimeout(limit)
          this.#waiting.delete(waiting)
          this.#give(tenant)
          resume(Effect.void)
        },
      }
      const refuse = (why: Problem) => {
        this.#waiting.delete(waiting)
        resume(Effect.fail(why))
      }
      let limit = setTimeout(() => {
        if (this.#of(tenant) < this.#share) return refuse(OTHERS_DOING)
        limit = setTimeout(() => refuse(OWN_DOING), WAIT_FOR_OWN_MS - WAIT_FOR_OTHERS_MS)
      }, WAIT_FOR_OTHERS_MS)
      this.#waiting.add(waiting)
    })
  }

  #release(tenant: string): void {
    this.#taken--
    this.#byTenant.add(tenant, -1)
    this.#next()?.go()
  }

  /** Does `work` in one of the tenant's places; fails where none is free in time. */
  within<A, E, R>(tenant: string, work: Effect.Effect<A, E, R>): Effect.Effect<A, E | Problem, R> {
    return Effect.acquireUseRelease(
      this.#take(tenant),
      () => work,
      () => Effect.sync(() => this.#release(tenant)),
    )
  }
}
