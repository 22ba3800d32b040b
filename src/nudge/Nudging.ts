/** What nudges are made with: payment links that nobody can guess, and the hours in which none are sent. */
import { createHash, createHmac } from "node:crypto"
import { Context, Effect, Layer, Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { QuietHours } from "../../machines/reminders.ts"
import type { ConfigProblem } from "../config/Config.ts"
import { Origin } from "../http/Origin.ts"
import { serviceSecret } from "../secret/serviceSecrets.ts"
import type { Vault } from "../secret/Vault.ts"

const SECRET = "payment_links"

/** What is kept of a token. */
export const hashToken = (token: string): string => createHash("sha256").update(token).digest("hex")

export class Nudging extends Context.Service<
  Nudging,
  {
    /** The token of a nudge's payment link (decision F5). It is never stored: it follows from the nudge's ID. */
    readonly token: (nudge: string) => string
    /** In live; the sandbox has none. */
    readonly quietHours: QuietHours | null
  }
>()("billing/nudge/Nudging") {
  static readonly layer = (
    quietHours: QuietHours | null,
  ): Layer.Layer<Nudging, SqlError.SqlError | ConfigProblem, SqlClient.SqlClient | Vault> =>
    Layer.effect(
      Nudging,
      Effect.map(serviceSecret(SECRET), (secret) =>
        Nudging.of({
          token: (nudge) => createHmac("sha256", Redacted.value(secret)).update(nudge).digest("base64url"),
          quietHours,
        }),
      ),
    )
}

/** The payment link of a nudge (decision F5). */
export const paymentLink = Effect.fnUntraced(function* (nudge: string) {
  const { token } = yield* Nudging
  const { url } = yield* Origin
  return `${url}/pay/${token(nudge)}`
})
