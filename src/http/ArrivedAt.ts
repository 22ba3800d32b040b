/** When the request came that the work is for, by `performance.now()`; undefined: it is for none. */
import { Context, Effect } from "effect"

export const ArrivedAt = Context.Reference<number | undefined>("billing/http/ArrivedAt", {
  defaultValue: () => undefined,
})

/** A request that charges is answered within 5 s of its arrival, whatever the rail does (decision P11). */
const MAX_WAIT_MS = 4_400

/** When it stops waiting, by `performance.now()`. */
export const waitingLimit = Effect.map(ArrivedAt, (arrivedAt) => (arrivedAt ?? performance.now()) + MAX_WAIT_MS)
