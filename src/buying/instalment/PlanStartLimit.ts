/**
 * Limits how many instalment plans an address may start in an hour (decision L3): each takes a slot for a day. Each process counts in its
 * own memory.
 */
import { Context, Effect, Layer } from "effect"
import { type Problem, problem, tryAgainIn } from "../../base/problem.ts"
import { HOUR_MS } from "../../base/time.ts"
import { onRollback } from "../../postgres/transaction.ts"

/** Most addresses to remember: those that started nothing for an hour are forgotten first. */
const MAX_ADDRESSES = 50_000

/** When each address started plans within the last hour, the oldest first. */
class StartTimes {
  readonly #byAddress = new Map<string, Array<number>>()

  of(address: string, now: number): ReadonlyArray<number> {
    const all = this.#byAddress.get(address) ?? []
    const firstRecent = all.findIndex((at) => at > now - HOUR_MS)
    all.splice(0, firstRecent === -1 ? all.length : firstRecent)
    return all
  }

  add(address: string, now: number): void {
    const all = this.#byAddress.get(address)
    if (all !== undefined) return void all.push(now)
    if (this.#byAddress.size >= MAX_ADDRESSES) this.#makeRoom(now)
    this.#byAddress.set(address, [now])
  }

  /** Takes back one start of an address. */
  remove(address: string, at: number): void {
    const all = this.#byAddress.get(address)
    const index = all?.indexOf(at) ?? -1
    if (index !== -1) all!.splice(index, 1)
  }

  #makeRoom(now: number): void {
    for (const address of this.#byAddress.keys())
      if (this.of(address, now).length === 0) this.#byAddress.delete(address)
    // All addresses have recent plans: forget the oldest.
    if (this.#byAddress.size >= MAX_ADDRESSES) this.#byAddress.delete(this.#byAddress.keys().next().value!)
  }
}

type Ask = (address: string) => Effect.Effect<void, Problem>

export class PlanStartLimit extends Context.Service<
  PlanStartLimit,
  {
    /** Fails if no further plan may start. */
    readonly look: Ask
    /** Counts a started plan; fails like `look`. */
    readonly take: Ask
  }
>()("billing/buying/instalment/PlanStartLimit") {
  static readonly layer = (perHour: number): Layer.Layer<PlanStartLimit> =>
    Layer.sync(PlanStartLimit, () => {
      const startTimes = new StartTimes()
      const look: Ask = (address) =>
        Effect.suspend(() => {
          const now = performance.now()
          const recent = startTimes.of(address, now)
          if (recent.length < perHour) return Effect.void
          const retryAfterS = Math.max(1, Math.ceil((recent.at(-perHour)! + HOUR_MS - now) / 1000))
          const message = `At most ${perHour} instalment plans an hour can be started from here: try again in ${retryAfterS} s.`
          return Effect.fail(tryAgainIn(retryAfterS, problem("rate_limited", message)))
        })
      // A plan that is not committed does not count, such as that of a repeated request.
      const note = (address: string) =>
        Effect.suspend(() => {
          const now = performance.now()
          startTimes.add(address, now)
          return onRollback(Effect.sync(() => startTimes.remove(address, now)))
        })
      return PlanStartLimit.of({ look, take: (address) => Effect.andThen(look(address), note(address)) })
    })
}
