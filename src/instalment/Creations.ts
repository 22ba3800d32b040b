/** How many instalment plans an address may begin in an hour (decision L3): each takes a slot for a day. */
import { Context, Effect, Layer } from "effect"
import { createRateLimit, type Taken } from "../http/rateLimit.ts"
import { type Problem, problem, tryAgainIn } from "../problem.ts"

const HOUR_SECONDS = 3_600

type Ask = (address: string) => Effect.Effect<void, Problem>

export class Creations extends Context.Service<
  Creations,
  {
    /** Whether one more may be begun. */
    readonly look: Ask
    /** Counts one that is begun. */
    readonly take: Ask
  }
>()("billing/instalment/Creations") {
  static readonly layer = (perHour: number): Layer.Layer<Creations> =>
    Layer.sync(Creations, () => {
      const limit = createRateLimit(perHour / HOUR_SECONDS, perHour)
      const asking =
        (ask: (address: string) => Taken): Ask =>
        (address) =>
          Effect.suspend(() => {
            const { allowed, headers } = ask(address)
            if (allowed) return Effect.void
            const retryAfterS = Number(headers["retry-after"])
            const message = `At most ${perHour} instalment plans an hour can be begun from here: try again in ${retryAfterS} s.`
            return Effect.fail(tryAgainIn(retryAfterS, problem("rate_limited", message)))
          })
      return Creations.of({ look: asking(limit.look), take: asking(limit.take) })
    })
}
