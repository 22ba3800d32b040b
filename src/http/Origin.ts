/** Where this service is reached by its users: what links begin with, without a trailing slash. */
import { Context, Layer } from "effect"

export class Origin extends Context.Service<Origin, { readonly url: string }>()("billing/http/Origin") {
  static readonly layer = (url: string): Layer.Layer<Origin> => Layer.succeed(Origin, { url })
}
