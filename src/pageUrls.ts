/** Where the pages of checkout sessions, instalment plans and payment links are. */
import { Effect, Layer } from "effect"
import { CheckoutLinks } from "./checkout/CheckoutLinks.ts"
import { Origin } from "./http/Origin.ts"
import { PageUrls } from "./http/PageUrls.ts"
import { isId, isPlanCode } from "./ids.ts"
import { InstalmentLinks } from "./instalment/InstalmentLinks.ts"
import { Nudging } from "./nudge/Nudging.ts"

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
