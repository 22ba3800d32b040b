/** Rails is a service with the adapters of external rails, configured for this process. */
import { Context, Effect, Layer } from "effect"
import type { RailSettings } from "../../config/Config.ts"
import { flutterwave } from "./flutterwave/flutterwave.ts"
import { openRailClient } from "./http.ts"
import { paystack } from "./paystack/paystack.ts"
import type { OutsideRail, Rail } from "./Rail.ts"

export class Rails extends Context.Service<
  Rails,
  {
    readonly of: (name: OutsideRail) => Rail
    /** The origin of the rail's API. */
    readonly origin: (name: OutsideRail) => string
  }
>()("billing/rails/rail/Rails") {
  /** Closes the rails' connections with the layer. */
  static readonly layer = ({ urls, timeoutMs }: RailSettings): Layer.Layer<Rails> =>
    Layer.effect(
      Rails,
      Effect.gen(function* () {
        const rails: Readonly<Record<OutsideRail, Rail>> = {
          paystack: paystack(yield* openRailClient(urls.paystack, timeoutMs)),
          flutterwave: flutterwave(yield* openRailClient(urls.flutterwave, timeoutMs)),
        }
        return { of: (name) => rails[name], origin: (name) => new URL(urls[name]).origin }
      }),
    )
}
