/** The addresses of buyers' pages (decision L8): a secret apart from the plan's ID. */
import { Context, Effect, Layer } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ConfigProblem } from "../config/Config.ts"
import { Origin } from "../http/Origin.ts"
import { linkTokens } from "../secret/linkTokens.ts"
import type { Vault } from "../secret/Vault.ts"

const SECRET = "instalment_links"

export class InstalmentLinks extends Context.Service<
  InstalmentLinks,
  {
    readonly token: (plan: string) => string
    readonly pageUrl: (plan: string) => string
    readonly paymentUrl: (plan: string) => string
  }
>()("billing/instalment/InstalmentLinks") {
  static readonly layer: Layer.Layer<
    InstalmentLinks,
    SqlError.SqlError | ConfigProblem,
    SqlClient.SqlClient | Origin | Vault
  > = Layer.effect(
    InstalmentLinks,
    Effect.gen(function* () {
      const { url: origin } = yield* Origin
      const token = yield* linkTokens(SECRET)
      const pageUrl = (plan: string): string => `${origin}/save/${token(plan)}`
      return InstalmentLinks.of({ token, pageUrl, paymentUrl: (plan) => `${pageUrl(plan)}/pay` })
    }),
  )
}
