/** The port to the addresses of the pages on which buyers pay: messages link to them, and rails' own pages send buyers back to them. */
import { Context } from "effect"
import type { Ref } from "../db/tenant.ts"

export class PageUrls extends Context.Service<
  PageUrls,
  {
    /** Returns the full address of the page of a checkout session, of an instalment plan, or of the nudge with the link. */
    readonly url: (page: Ref) => string
  }
>()("billing/http/PageUrls") {}
