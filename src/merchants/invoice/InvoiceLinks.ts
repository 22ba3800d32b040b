/** Signed links to invoice PDFs. A link gives access to one document, for a day. */
import { Context, Effect, Layer } from "effect"
import type { SqlError } from "effect/sql"
import { isSame } from "../../base/sameSecret.ts"
import { DAY_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { ConfigProblem } from "../../config/Config.ts"
import type { Ref } from "../../db/tenant.ts"
import { Origin } from "../../http/Origin.ts"
import { bitsOf, isWhole, linkTokens } from "../../security/secret/linkTokens.ts"
import type { SharedSecrets } from "../../security/secret/SharedSecrets.ts"

const LIFETIME_MS = DAY_MS
const SECRET = "invoice_links"

export class InvoiceLinks extends Context.Service<
  InvoiceLinks,
  {
    /** Returns the URL of an invoice's PDF, valid for a day. */
    readonly pdf: (invoice: Ref) => string
    /** Whether a link's signature is right and has not expired. */
    readonly isGood: (invoice: string, search: URLSearchParams) => boolean
    /** Whether the link's token is complete and belongs to the account of the invoice that it led to. */
    readonly isWhole: (invoice: Ref, search: URLSearchParams) => boolean
  }
>()("billing/merchants/invoice/InvoiceLinks") {
  static readonly layer: Layer.Layer<InvoiceLinks, SqlError.SqlError | ConfigProblem, Origin | SharedSecrets> =
    Layer.effect(
      InvoiceLinks,
      Effect.gen(function* () {
        const { url: origin } = yield* Origin
        const token = yield* linkTokens(SECRET)
        const sign = (account: string, invoice: string, expires: number) => token(account, `${invoice} ${expires}`)
        return InvoiceLinks.of({
          pdf: ({ account_id, id }) => {
            const expires = Math.ceil((currentTime() + LIFETIME_MS) / 1000)
            return `${origin}/invoices/${id}.pdf?expires=${expires}&signature=${sign(account_id, id, expires)}`
          },
          isGood: (invoice, search) => {
            const expires = Number(search.get("expires"))
            if (!Number.isSafeInteger(expires) || expires * 1000 < currentTime()) return false
            return isSame(bitsOf(search.get("signature") ?? ""), bitsOf(sign("", invoice, expires)))
          },
          isWhole: ({ account_id }, search) => isWhole(search.get("signature") ?? "", account_id),
        })
      }),
    )
}
