/** The addresses of checkout pages (decision G1): a secret apart from the session's ID. */
import { Context, Effect, Layer } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ConfigProblem } from "../config/Config.ts"
import { Origin } from "../http/Origin.ts"
import { linkTokens } from "../secret/linkTokens.ts"
import type { Vault } from "../secret/Vault.ts"

const SECRET = "checkout_links"

export class CheckoutLinks extends Context.Service<
  CheckoutLinks,
  {
    readonly token: (session: string) => string
    readonly url: (session: string) => string
  }
>()("billing/checkout/CheckoutLinks") {
  static readonly layer: Layer.Layer<
    CheckoutLinks,
    SqlError.SqlError | ConfigProblem,
    SqlClient.SqlClient | Origin | Vault
  > = Layer.effect(
    CheckoutLinks,
    Effect.gen(function* () {
      const { url: origin } = yield* Origin
      const token = yield* linkTokens(SECRET)
      return CheckoutLinks.of({ token, url: (session) => `${origin}/checkout/${token(session)}` })
    }),
  )
}
