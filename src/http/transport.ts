/** What the connection says of a request, and its address: by what it came, from where, and to which environment. */
import type { IncomingMessage } from "node:http"
import type { Transport } from "../config/Config.ts"

/** Whether the request came over HTTPS, by ourselves or by a proxy that we trust (decision A2). */
export const isSecure = (request: IncomingMessage, transport: Transport): boolean =>
  transport.allowInsecureHttp ||
  transport.tls !== undefined ||
  (transport.trustProxy &&
    String(request.headers["x-forwarded-proto"] ?? "")
      .split(",")[0]!
      .trim() === "https")

/** Whether a request came by a proxy of ours. */
export const isFromTrustedProxy = (_: IncomingMessage, transport: Transport): boolean => transport.trustProxy

/** The address that a request comes from; behind a proxy that we trust, the one which that proxy saw. */
export const addressOf = (request: IncomingMessage, transport: Transport): string => {
  const forwarded = String(request.headers["x-forwarded-for"] ?? "").split(",")
  const seen = transport.trustProxy ? forwarded.at(-1)!.trim() : ""
  return seen === "" ? (request.socket.remoteAddress ?? "") : seen
}

/** Which environment a path is in, and the rest of it (decision A1). */
export const environment = (
  host: string,
  path: string,
  transport: Transport,
): { readonly livemode: boolean; readonly path: string } | undefined => {
  const name = host.replace(/:\d+$/, "").toLowerCase()
  const under = (prefix: string) =>
    path === prefix || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined
  const v1 = under("/v1")
  if (v1 !== undefined && name === transport.sandboxHost) return { livemode: false, path: v1 }
  // Where live has a host of its own, `/v1` of any other is nowhere.
  if (v1 !== undefined)
    return transport.liveHost === undefined || name === transport.liveHost ? { livemode: true, path: v1 } : undefined
  const sandbox = under("/sandbox/v1")
  return sandbox === undefined ? undefined : { livemode: false, path: sandbox }
}
