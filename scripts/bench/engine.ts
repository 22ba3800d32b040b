/** The engine alone, without a server. */
import { Effect, type Redacted } from "effect"
import { chargeTimers } from "../../src/collecting/collect.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { servicesLayer } from "../../src/services.ts"
import { subscriptionTimers } from "../../src/subscription/timers.ts"
import { KEYS } from "../server.ts"

/** Makes every renewal that is due, to the end; returns the milliseconds that this took. */
export const renewAll = (url: Redacted.Redacted<string>): Promise<number> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const before = performance.now()
      yield* sweep([chargeTimers, subscriptionTimers])
      return performance.now() - before
    }).pipe(Effect.provide(servicesLayer(url, KEYS)), Effect.scoped),
  )
