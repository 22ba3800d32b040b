/** The settings of nudges: unguessable payment links, and quiet hours in which none are sent. */
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
    /** Returns the token of a nudge's payment link (decision F5). It is derived from the nudge's ID and never stored. */
    readonly token: (nudge: Ref) => string
    /** Returns the quiet hours of an environment; null in the sandbox. */
    readonly quietOf: (tenant: Pick<Tenant, "livemode">) => QuietHours | null
  }
>()("billing/outbound/nudge/Nudging") {
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

/** Returns the payment link of a nudge (decision F5). A nudge about an instalment plan has the plan's link (decision L8). */
export const paymentLink = (nudge: Ref & { readonly instalment_plan_id: string | null }) =>
  Effect.map(PageUrls, ({ url }) => url({ ...refOf(nudge), id: nudge.instalment_plan_id ?? nudge.id }))
