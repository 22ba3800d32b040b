/** Builds the URLs of the pages of checkout sessions, instalment plans and payment links. */
import { Effect, Layer } from "effect"
import { isId, isPlanCode } from "../base/ids.ts"
import { CheckoutLinks } from "../buying/checkout/CheckoutLinks.ts"
import { InstalmentLinks } from "../buying/instalment/InstalmentLinks.ts"
import { Origin } from "../http/Origin.ts"
import { PageUrls } from "../http/PageUrls.ts"
import { Nudging } from "../outbound/nudge/Nudging.ts"

export const pageUrlsLayer = Layer.effect(
  PageUrls,
  Effect.gen(function* () {
    const { url: origin } = yield* Origin
    const checkouts = yield* CheckoutLinks
    const instalments = yield* InstalmentLinks
    const nudging = yield* Nudging
    return PageUrls.of({
      url: (page) => {
        if (isId("checkout_session", page.id)) return checkouts.url(page)
        return isPlanCode(page.id) ? instalments.paymentUrl(page) : `${origin}/pay/${nudging.token(page)}`
      },
    })
  }),
)
