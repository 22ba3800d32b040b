/** Where the pages of checkout sessions and payment links are, for rails that send buyers back to them. */
import { Effect, Layer } from "effect"
import { PageUrls } from "../collecting/PageUrls.ts"
import { Origin } from "../http/Origin.ts"
import { isId } from "../ids.ts"
import { Nudging } from "../nudge/Nudging.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"

export const pageUrlsLayer = Layer.effect(
  PageUrls,
  Effect.gen(function* () {
    const { url: origin } = yield* Origin
    const links = yield* CheckoutLinks
    const nudging = yield* Nudging
    return PageUrls.of({
      url: (pageId) =>
        isId("checkout_session", pageId) ? links.url(pageId) : `${origin}/pay/${nudging.token(pageId)}`,
    })
  }),
)
