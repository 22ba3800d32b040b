/** Facts about a request from its connection and address: HTTPS or not, the caller's address, and the environment. */
import type { IncomingMessage } from "node:http"
import { isIP, type Socket } from "node:net"
import { addressIn, callerNetwork } from "../base/ip.ts"
import type { Transport } from "../config/Config.ts"

/** Whether a peer is a proxy whose headers about the original request are trusted. */
const isTrusted = (address: string, { trustProxy }: Transport): boolean =>
  typeof trustProxy === "boolean" ? trustProxy : trustProxy.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")

/** The address at the other end of a connection; undefined if the connection is closed. */
const peerOf = (socket: Socket): string | undefined => addressIn(socket.remoteAddress ?? "")

/** Whether a connection comes from a proxy in front of us (TRUST_PROXY). */
export const isProxied = (socket: Socket, transport: Transport): boolean => {
  const peer = peerOf(socket)
  return peer !== undefined && isTrusted(peer, transport)
}

/** Whether a request comes from a proxy in front of us, so that its forwarding headers are trusted. */
export const isFromTrustedProxy = ({ socket }: IncomingMessage, transport: Transport): boolean =>
  isProxied(socket, transport)

/** The values of a header to which each proxy appends one. Node joins several lines of it in their order. */
const valuesOf = (request: IncomingMessage, name: string): ReadonlyArray<string> =>
  String(request.headers[name] ?? "")
    .split(",")
    .map((value) => value.trim())

/** Whether the request came over HTTPS, to us or to a trusted proxy (decision A2). The proxy's own value is the last. */
export const isSecure = (request: IncomingMessage, transport: Transport): boolean =>
  transport.allowInsecureHttp ||
  transport.tls !== undefined ||
  (isFromTrustedProxy(request, transport) && valuesOf(request, "x-forwarded-proto").at(-1)!.toLowerCase() === "https")

/**
 * The caller's address according to the proxies in front. The nearest proxy wrote the last entry. If that entry is a trusted
 * proxy, it forwarded a request from the entry before it. The caller may have invented entries further to the left. Undefined:
 * the entry is not an address.
 */
const forwardedFor = (request: IncomingMessage, transport: Transport): string | undefined => {
  const addresses = valuesOf(request, "x-forwarded-for").map(addressIn)
  if (transport.trustProxy === true) return addresses.at(-1)
  const outside = addresses.findLastIndex((address) => address === undefined || !isTrusted(address, transport))
  return addresses[Math.max(outside, 0)]
}

/** The address for which a request's rate is counted: the caller's, IPv6 by its /64 (decision J6). */
export const addressOf = (request: IncomingMessage, transport: Transport): string => {
  const forwarded = isFromTrustedProxy(request, transport) ? forwardedFor(request, transport) : undefined
  return callerNetwork(forwarded ?? peerOf(request.socket) ?? "")
}

/** The address for which a connection is counted. */
export const networkOf = (socket: Socket): string => callerNetwork(peerOf(socket) ?? "")

/** The called host: a target in absolute form names it and overrides `Host` (RFC 9112). */
export const hostOf = ({ node, url }: { readonly node: IncomingMessage; readonly url: URL }): string =>
  /^https?:/i.test(node.url ?? "") ? url.host : (node.headers.host ?? "")

/** The environment of a path, and the rest of the path (decision A1). */
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
  // If live has its own host, `/v1` does not exist on any other host.
  if (v1 !== undefined)
    return transport.liveHost === undefined || name === transport.liveHost ? { livemode: true, path: v1 } : undefined
  const sandbox = under("/sandbox/v1")
  return sandbox === undefined ? undefined : { livemode: false, path: sandbox }
}
