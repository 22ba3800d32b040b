/**
 * What bounds requests, in each process by itself: how many come in a second (decision J6), how many are under way at
 * once, and how many bytes of bodies are held of callers that are not known yet.
 */
import { Effect } from "effect"
import { type Problem, problem, tryAgainIn } from "../base/problem.ts"
import { Counter } from "../concurrency/Counter.ts"
import type { RateLimits } from "../config/Config.ts"
import { createInFlight } from "./inFlight.ts"
import { createRateLimit } from "./rateLimit.ts"

/** Bytes of bodies that nobody's key answers for, of one address and of all together. */
const MAX_HELD_OF_ADDRESS = 8 * 1024 * 1024
const MAX_HELD = 64 * 1024 * 1024

/** Most requests are answered within a second. */
const TOO_MANY_UNDER_WAY = tryAgainIn(
  1,
  problem(
    "too_many_in_flight",
    "Too many requests are under way at once: send the next one when one of them is answered.",
  ),
)
const OVERLOADED = problem("service_unavailable", "The service holds more unfinished requests than it can just now.")

/** What limits note about a request: headers of its response, and what to give back once that is written. */
export interface Limited {
  headers: Readonly<Record<string, string>>
  readonly ends: Array<() => void>
}

export type Rate = "live" | "sandbox" | "public" | "publishable"

export interface Limits {
  /** Takes the request's place in a rate; its response says what is left. */
  readonly take: (request: Limited, rate: Rate, name: string) => Effect.Effect<void, Problem>
  /** Takes the request's place among those under way, until its response is written. */
  readonly enter: (request: Limited, name: string) => Effect.Effect<void, Problem>
  /** Notes bytes of its body as held until its response is written; says why they may not be. */
  readonly hold: (request: Limited, address: string, bytes: number) => Problem | undefined
}

export const createLimits = (rates: Pick<RateLimits, "live" | "sandbox" | "public">, inFlight: number): Limits => {
  const buckets = {
    live: createRateLimit(rates.live),
    sandbox: createRateLimit(rates.sandbox),
    public: createRateLimit(rates.public),
    // Anybody can read such a key, so it has a rate at each address that uses it, and takes nothing from its account.
    publishable: createRateLimit(rates.public),
  }
  const underWay = createInFlight(inFlight)
  const held = new Counter()
  let heldInAll = 0

  const judge = (request: Limited, { allowed, headers }: ReturnType<(typeof buckets)["live"]["take"]>) => {
    request.headers = { ...request.headers, ...headers }
    return allowed
      ? Effect.void
      : Effect.fail(problem("rate_limited", `Too many requests: try again in ${headers["retry-after"]} s.`))
  }

  return {
    take: (request, rate, name) => Effect.suspend(() => judge(request, buckets[rate].take(name))),
    enter: (request, name) =>
      Effect.suspend(() => {
        const leave = underWay.enter(name)
        if (leave === undefined) return Effect.fail(TOO_MANY_UNDER_WAY)
        request.ends.push(leave)
        return Effect.void
      }),
    hold: (request, address, bytes) => {
      if (held.of(address) + bytes > MAX_HELD_OF_ADDRESS) return TOO_MANY_UNDER_WAY
      if (heldInAll + bytes > MAX_HELD) return OVERLOADED
      held.add(address, bytes)
      heldInAll += bytes
      request.ends.push(() => {
        heldInAll -= bytes
        held.add(address, -bytes)
      })
      return undefined
    },
  }
}
