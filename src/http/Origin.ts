/** The origin of this service for its users: links start with it. It has no trailing slash. */
import { Context, Layer } from "effect"
import type { Config } from "../config/Config.ts"

export class Origin extends Context.Service<Origin, { readonly url: string }>()("billing/http/Origin") {
  static readonly layer = (url: string): Layer.Layer<Origin> => Layer.succeed(Origin, { url })
}

/** The address of a server with these settings and this `port`, for its direct clients and proxies. */
export const addressOf = ({ transport, host }: Config, port: number): string =>
  `${transport.tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`

/** The origin in links of such a server. */
export const originOf = (config: Config, port: number): string => config.publicUrl ?? addressOf(config, port)
