/**
 * The limits of requests, counted in each process separately: requests per second (decision J6), requests under way, and bytes of
 * buffered bodies from callers without a key.
 */
import { Effect } from "effect"
import { type Problem, problem, tryAgainIn } from "../base/problem.ts"
import { Counter } from "../concurrency/Counter.ts"
import type { RateLimits } from "../config/Config.ts"
import { createInFlight } from "./inFlight.ts"
import { createRateLimit } from "./rateLimit.ts"

/** Bytes of buffered bodies without a key: of one address, and of all addresses. */
const MAX_BUFFERED_OF_ADDRESS = 8 * 1024 * 1024
const MAX_BUFFERED = 64 * 1024 * 1024

/** Most requests are answered within a second. */
const TOO_MANY_UNDER_WAY = tryAgainIn(
  1,
  problem(
    "too_many_in_flight",
    "Too many requests are under way at the same time: send the next one when one of them is answered.",
  ),
)
const OVERLOADED = problem("service_unavailable", "The service has too many unfinished requests just now.")

/** The limits' part of a request: headers of its response, and functions that release its limits after the response is written. */
export interface Limited {
  headers: Readonly<Record<string, string>>
  readonly ends: Array<() => void>
}

export type Rate = "live" | "sandbox" | "public" | "publishable"

export interface Limits {
  /** Takes a token of a rate limit; the headers of the response say what is left. */
  readonly take: (request: Limited, rate: Rate, name: string) => Effect.Effect<void, Problem>
  /** Counts the request as under way until its response is written. */
  readonly enter: (request: Limited, name: string) => Effect.Effect<void, Problem>
  /** Counts buffered bytes of its body until its response is written; returns the refusal if there are too many. */
  readonly buffer: (request: Limited, address: string, bytes: number) => Problem | undefined
}

export const createLimits = (rates: Pick<RateLimits, "live" | "sandbox" | "public">, inFlight: number): Limits => {
  const buckets = {
    live: createRateLimit(rates.live),
    sandbox: createRateLimit(rates.sandbox),
    public: createRateLimit(rates.public),
    // Such a key is public. So it has a rate for each address that uses it, and takes nothing from its account's rate.
    publishable: createRateLimit(rates.public),
  }
  const underWay = createInFlight(inFlight)
  const buffered = new Counter()
  let bufferedInAll = 0

  const applyRate = (request: Limited, { allowed, headers }: ReturnType<(typeof buckets)["live"]["take"]>) => {
    request.headers = { ...request.headers, ...headers }
    return allowed
      ? Effect.void
      : Effect.fail(problem("rate_limited", `Too many requests: try again in ${headers["retry-after"]} s.`))
  }

  return {
    take: (request, rate, name) => Effect.suspend(() => applyRate(request, buckets[rate].take(name))),
    enter: (request, name) =>
      Effect.suspend(() => {
        const leave = underWay.enter(name)
        if (leave === undefined) return Effect.fail(TOO_MANY_UNDER_WAY)
        request.ends.push(leave)
        return Effect.void
      }),
    buffer: (request, address, bytes) => {
      if (buffered.of(address) + bytes > MAX_BUFFERED_OF_ADDRESS) return TOO_MANY_UNDER_WAY
      if (bufferedInAll + bytes > MAX_BUFFERED) return OVERLOADED
      buffered.add(address, bytes)
      bufferedInAll += bytes
      request.ends.push(() => {
        bufferedInAll -= bytes
        buffered.add(address, -bytes)
      })
      return undefined
    },
  }
}
