/** When the request came that the work is for, by `performance.now()`; undefined: it is for none. */
import { Context } from "effect"

export const ArrivedAt = Context.Reference<number | undefined>("billing/http/ArrivedAt", {
  defaultValue: () => undefined,
})
