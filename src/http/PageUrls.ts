/** The port to the pages on which buyers pay: where messages lead to, and rails' own pages send buyers back to. */
import { Context } from "effect"
import type { Ref } from "../db/tenant.ts"

export class PageUrls extends Context.Service<
  PageUrls,
  {
    /** The whole address of the page of a checkout session, of an instalment plan, or of the nudge with the link. */
    readonly url: (page: Ref) => string
  }
>()("billing/http/PageUrls") {}
