/** What the connection says of a request, and its address: by what it came, from where, and to which environment. */
import type { IncomingMessage } from "node:http"
import { isIP, type Socket } from "node:net"
import { addressIn, callerNetwork } from "../base/ip.ts"
import type { Transport } from "../config/Config.ts"

/** Whether what a peer says of the request that it passes on is believed. */
const isTrusted = (address: string, { trustProxy }: Transport): boolean =>
  typeof trustProxy === "boolean" ? trustProxy : trustProxy.check(address, isIP(address) === 6 ? "ipv6" : "ipv4")

/** The address at the other end of a connection; undefined where it is closed. */
const peerOf = (socket: Socket): string | undefined => addressIn(socket.remoteAddress ?? "")

/** Whether a connection comes from a proxy in front of us (TRUST_PROXY). */
export const isProxied = (socket: Socket, transport: Transport): boolean => {
  const peer = peerOf(socket)
  return peer !== undefined && isTrusted(peer, transport)
}

/** Whether a request comes from a proxy in front of us, so that its headers about where it came from are believed. */
export const isFromTrustedProxy = ({ socket }: IncomingMessage, transport: Transport): boolean =>
  isProxied(socket, transport)

/** The values of a header that each proxy on the way adds one to. Node joins several lines of it in their order. */
const valuesOf = (request: IncomingMessage, name: string): ReadonlyArray<string> =>
  String(request.headers[name] ?? "")
    .split(",")
    .map((value) => value.trim())

/** Whether the request came over HTTPS, by ourselves or by a proxy that we trust (decision A2): the last value is its own. */
export const isSecure = (request: IncomingMessage, transport: Transport): boolean =>
  transport.allowInsecureHttp ||
  transport.tls !== undefined ||
  (isFromTrustedProxy(request, transport) && valuesOf(request, "x-forwarded-proto").at(-1)!.toLowerCase() === "https")

/**
 * The address that the proxies in front saw. The last entry is by the nearest of them; one that is itself a trusted proxy
 * passed on what came from the entry before. What is further to the left, the caller may have made up. Undefined: what
 * should be an address is none.
 */
const forwardedFor = (request: IncomingMessage, transport: Transport): string | undefined => {
  const addresses = valuesOf(request, "x-forwarded-for").map(addressIn)
  if (transport.trustProxy === true) return addresses.at(-1)
  const outside = addresses.findLastIndex((address) => address === undefined || !isTrusted(address, transport))
  return addresses[Math.max(outside, 0)]
}

/** Whom a request's rate is counted for: the address that it comes from, IPv6 by its /64 (decision J6). */
export const addressOf = (request: IncomingMessage, transport: Transport): string => {
  const seen = isFromTrustedProxy(request, transport) ? forwardedFor(request, transport) : undefined
  return callerNetwork(seen ?? peerOf(request.socket) ?? "")
}

/** Whom a connection is counted for. */
export const networkOf = (socket: Socket): string => callerNetwork(peerOf(socket) ?? "")

/** The host that is called: a target that is a whole address names it, whatever `Host` says (RFC 9112). */
export const hostOf = ({ node, url }: { readonly node: IncomingMessage; readonly url: URL }): string =>
  /^https?:/i.test(node.url ?? "") ? url.host : (node.headers.host ?? "")

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
