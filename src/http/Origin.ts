/** Where this service is reached by its users: what links begin with, without a trailing slash. */
import { Context, Layer } from "effect"
import type { Config } from "../config/Config.ts"

export class Origin extends Context.Service<Origin, { readonly url: string }>()("billing/http/Origin") {
  static readonly layer = (url: string): Layer.Layer<Origin> => Layer.succeed(Origin, { url })
}

/** Where a server with these settings that listens on `port` is reached by who stands right before it. */
export const addressOf = ({ transport, host }: Config, port: number): string =>
  `${transport.tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`

/** What links of such a server begin with. */
export const originOf = (config: Config, port: number): string => config.publicUrl ?? addressOf(config, port)
