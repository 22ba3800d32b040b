/** Where this service is reached by its users: what links begin with, without a trailing slash. */
import { Context, Layer } from "effect"
import type { Config } from "../config/Config.ts"

export class Origin extends Context.Service<Origin, { readonly url: string }>()("billing/http/Origin") {
  static readonly layer = (url: string): Layer.Layer<Origin> => Layer.succeed(Origin, { url })
}

/** The origin of a server with these settings that listens on `port`. */
export const originOf = ({ publicUrl, transport, host }: Config, port: number): string =>
  publicUrl ?? `${transport.tls === undefined ? "http" : "https"}://${host.includes(":") ? `[${host}]` : host}:${port}`
