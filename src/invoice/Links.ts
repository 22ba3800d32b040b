/** Signed links to invoices' PDFs: whoever has one may read that one document, for a day. */
import { createHmac, timingSafeEqual } from "node:crypto"
import { Context, Effect, Layer, Redacted } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ConfigProblem } from "../config/Config.ts"
import { Origin } from "../http/Origin.ts"
import { serviceSecret } from "../secret/serviceSecrets.ts"
import type { Vault } from "../secret/Vault.ts"
import { DAY_MS } from "../time.ts"

const LIFETIME_MS = DAY_MS
const SECRET = "invoice_links"

export class Links extends Context.Service<
  Links,
  {
    /** The address of an invoice's PDF, good for a day. */
    readonly pdf: (invoice: string) => string
    /** Whether a link is one of ours and still good. */
    readonly isGood: (invoice: string, search: URLSearchParams) => boolean
  }
>()("billing/invoice/Links") {
  static readonly layer: Layer.Layer<Links, SqlError.SqlError | ConfigProblem, SqlClient.SqlClient | Origin | Vault> =
    Layer.effect(
      Links,
      Effect.gen(function* () {
        const { url: origin } = yield* Origin
        const secret = yield* serviceSecret(SECRET)
        const sign = (invoice: string, expires: number) =>
          createHmac("sha256", Redacted.value(secret)).update(`${invoice} ${expires}`).digest("base64url")
        return Links.of({
          pdf: (invoice) => {
            const expires = Math.ceil((Date.now() + LIFETIME_MS) / 1000)
            return `${origin}/invoices/${invoice}.pdf?expires=${expires}&signature=${sign(invoice, expires)}`
          },
          isGood: (invoice, search) => {
            const expires = Number(search.get("expires"))
            if (!Number.isSafeInteger(expires) || expires * 1000 < Date.now()) return false
            const [given, right] = [search.get("signature") ?? "", sign(invoice, expires)].map((text) =>
              Buffer.from(text),
            )
            return given!.length === right!.length && timingSafeEqual(given!, right!)
          },
        })
      }),
    )
}
