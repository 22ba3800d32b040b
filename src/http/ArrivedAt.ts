/** When the current request arrived, by `performance.now()`; undefined outside of requests. */
import { Context, Effect } from "effect"

export const ArrivedAt = Context.Reference<number | undefined>("billing/http/ArrivedAt", {
  defaultValue: () => undefined,
})

/** A request that charges is answered within 5 s of its arrival, even if the rail is slow (decision P11). */
const MAX_WAIT_MS = 4_400

/** When the current request stops waiting, by `performance.now()`. */
export const waitingLimit = Effect.map(ArrivedAt, (arrivedAt) => (arrivedAt ?? performance.now()) + MAX_WAIT_MS)
