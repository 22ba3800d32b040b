/** Builds the addresses of buyers' pages (decision L8). Their token is a secret, separate from the plan's ID. */
import { Context, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { ConfigProblem } from "../../config/Config.ts"
import type { Ref } from "../../db/tenant.ts"
import { Origin } from "../../http/Origin.ts"
import { linkTokens } from "../../security/secret/linkTokens.ts"
import type { SharedSecrets } from "../../security/secret/SharedSecrets.ts"

const SECRET = "instalment_links"

export class InstalmentLinks extends Context.Service<
  InstalmentLinks,
  {
    readonly token: (plan: Ref) => string
    readonly pageUrl: (plan: Ref) => string
    readonly paymentUrl: (plan: Ref) => string
  }
>()("billing/buying/instalment/InstalmentLinks") {
  static readonly layer: Layer.Layer<InstalmentLinks, SqlError.SqlError | ConfigProblem, Origin | SharedSecrets> =
    Layer.effect(
      InstalmentLinks,
      Effect.gen(function* () {
        const { url: origin } = yield* Origin
        const tokenOf = yield* linkTokens(SECRET)
        // Plan codes are unique in an account and environment, tokens everywhere.
        const token = ({ account_id, livemode, id }: Ref): string =>
          tokenOf(account_id, `${account_id} ${livemode} ${id}`)
        const pageUrl = (plan: Ref): string => `${origin}/save/${token(plan)}`
        return InstalmentLinks.of({ token, pageUrl, paymentUrl: (plan) => `${pageUrl(plan)}/pay` })
      }),
    )
}
