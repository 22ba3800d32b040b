/** What nudges are made with: payment links that nobody can guess, and the hours in which none are sent. */
import { Context, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql"
import type { QuietHours } from "../../../machines/reminders.ts"
import type { ConfigProblem } from "../../config/Config.ts"
import { type Ref, refOf, type Tenant } from "../../db/tenant.ts"
import { PageUrls } from "../../http/PageUrls.ts"
import { linkTokens } from "../../security/secret/linkTokens.ts"
import type { SharedSecrets } from "../../security/secret/SharedSecrets.ts"

const SECRET = "payment_links"

export class Nudging extends Context.Service<
  Nudging,
  {
    /** The token of a nudge's payment link (decision F5). It is never stored: it follows from the nudge's ID. */
    readonly token: (nudge: Ref) => string
    /** Those of an environment: the sandbox has none. */
    readonly quietOf: (tenant: Pick<Tenant, "livemode">) => QuietHours | null
  }
>()("billing/nudge/Nudging") {
  static readonly layer = (
    quietHours: QuietHours | null,
  ): Layer.Layer<Nudging, SqlError.SqlError | ConfigProblem, SharedSecrets> =>
    Layer.effect(
      Nudging,
      Effect.map(linkTokens(SECRET), (token) =>
        Nudging.of({
          token: ({ account_id, id }) => token(account_id, id),
          quietOf: ({ livemode }) => (livemode ? quietHours : null),
        }),
      ),
    )
}

/** The payment link of a nudge (decision F5); of one about an instalment plan, the plan's own (decision L8). */
export const paymentLink = (nudge: Ref & { readonly instalment_plan_id: string | null }) =>
  Effect.map(PageUrls, ({ url }) => url({ ...refOf(nudge), id: nudge.instalment_plan_id ?? nudge.id }))
