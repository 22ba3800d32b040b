/** Runs the engine alone, without a server. */
import { Effect, type Redacted } from "effect"
import { servicesLayer } from "../../src/app/services.ts"
import { chargeTimers } from "../../src/billing/payments/simulatorCharges.ts"
import { subscriptionTimers } from "../../src/billing/subscription/timers.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { KEYS } from "../server.ts"

/** Makes all due renewals; returns the duration in milliseconds. */
export const renewAll = (url: Redacted.Redacted<string>): Promise<number> =>
  Effect.runPromise(
    Effect.gen(function* () {
      const before = performance.now()
      yield* sweep([chargeTimers, subscriptionTimers])
      return performance.now() - before
    }).pipe(Effect.provide(servicesLayer(url, KEYS)), Effect.scoped),
  )
