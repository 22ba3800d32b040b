/** Builds the addresses of checkout pages (decision G1). Their token is a secret, separate from the session's ID. */
import { Context, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { ConfigProblem } from "../../config/Config.ts"
import type { Ref } from "../../db/tenant.ts"
import { Origin } from "../../http/Origin.ts"
import { linkTokens } from "../../security/secret/linkTokens.ts"
import type { SharedSecrets } from "../../security/secret/SharedSecrets.ts"

const SECRET = "checkout_links"

export class CheckoutLinks extends Context.Service<
  CheckoutLinks,
  {
    readonly token: (session: Ref) => string
    readonly url: (session: Ref) => string
  }
>()("billing/buying/checkout/CheckoutLinks") {
  static readonly layer: Layer.Layer<CheckoutLinks, SqlError.SqlError | ConfigProblem, Origin | SharedSecrets> =
    Layer.effect(
      CheckoutLinks,
      Effect.gen(function* () {
        const { url: origin } = yield* Origin
        const tokenOf = yield* linkTokens(SECRET)
        const token = ({ account_id, id }: Ref): string => tokenOf(account_id, id)
        return CheckoutLinks.of({ token, url: (session) => `${origin}/checkout/${token(session)}` })
      }),
    )
}
