/** What nudges are made with: payment links that nobody can guess, and the hours in which none are sent. */
import { createHash, createHmac, randomBytes } from "node:crypto"
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { QuietHours } from "../../machines/reminders.ts"
import { Origin } from "../http/Origin.ts"

const SECRET = "payment_links"
const SECRET_BYTES = 32

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
  ): Layer.Layer<Nudging, SqlError.SqlError, SqlClient.SqlClient> =>
    Layer.effect(
      Nudging,
      Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        yield* sql`INSERT INTO service_secret (name, value) VALUES (${SECRET}, ${randomBytes(SECRET_BYTES)}) ON CONFLICT DO NOTHING`
        const [row] = yield* sql<{ value: Uint8Array }>`SELECT value FROM service_secret WHERE name = ${SECRET}`
        return Nudging.of({
          token: (nudge) => createHmac("sha256", row!.value).update(nudge).digest("base64url"),
          quietHours,
        })
      }),
    )
}

/** The payment link of a nudge (decision F5). */
export const paymentLink = Effect.fnUntraced(function* (nudge: string) {
  const { token } = yield* Nudging
  const { url } = yield* Origin
  return `${url}/pay/${token(nudge)}`
})
