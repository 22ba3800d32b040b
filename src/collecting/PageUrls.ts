/** The port to the pages on which buyers pay: where a rail's own page sends them back to. */
import { Context } from "effect"

export class PageUrls extends Context.Service<
  PageUrls,
  {
    /** The whole address of the page of a checkout session, or of the nudge with the link, by its ID. */
    readonly url: (pageId: string) => string
  }
>()("billing/collecting/PageUrls") {}
