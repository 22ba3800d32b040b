/** How many instalment plans an address may begin in an hour (decision L3): each takes a slot for a day. */
import { Context, Effect, Layer } from "effect"
import { createRateLimit } from "../http/rateLimit.ts"
import { Problem, problem } from "../problem.ts"

const HOUR_SECONDS = 3_600

export class Creations extends Context.Service<
  Creations,
  { readonly take: (address: string) => Effect.Effect<void, Problem> }
>()("billing/instalment/Creations") {
  static readonly layer = (perHour: number): Layer.Layer<Creations> =>
    Layer.sync(Creations, () => {
      const limit = createRateLimit(perHour / HOUR_SECONDS, perHour)
      return Creations.of({
        take: (address) =>
          Effect.suspend(() => {
            const { allowed, headers } = limit.take(address)
            if (allowed) return Effect.void
            const retryAfterS = Number(headers["retry-after"])
            const message = `At most ${perHour} instalment plans an hour can be begun from here: try again in ${retryAfterS} s.`
            return Effect.fail(new Problem({ ...problem("rate_limited", message), message, retryAfterS }))
          }),
      })
    })
}
