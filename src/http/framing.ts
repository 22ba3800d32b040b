/**
 * Checks the parts of a request's head that Node does not check: the host (decision A12) and the framing of the body (decision
 * I2). If one is wrong, later bytes on the connection cannot be trusted: the connection ends with the refusal.
 */
import type { IncomingMessage } from "node:http"
import { isIPv6 } from "node:net"
import type { ProblemCode } from "../base/catalogue.ts"
import { type Problem, problem } from "../base/problem.ts"

/** A name of at most 255 bytes, a colon and a port. */
const MAX_HOST = 262
const MAX_PORT = 65_535

/** `uri-host [ ":" port ]` of RFC 9110: a name, an IPv4 address, or an IPv6 address in brackets. */
const HOST = /^(?:\[([\da-f:.]+)\]|(?:[\w.~!$&'()*+,;=-]|%[\da-f]{2})+)(?::(\d{0,5}))?$/i

const isHost = (value: string): boolean => {
  const [whole, ipv6, port = ""] = value.length > MAX_HOST ? [] : (HOST.exec(value) ?? [])
  return whole !== undefined && (ipv6 === undefined || isIPv6(ipv6)) && Number(port) <= MAX_PORT
}

/** Returns the values of all `Host` headers: Node shows only the first. */
const hostsOf = ({ rawHeaders }: IncomingMessage): ReadonlyArray<string> =>
  rawHeaders.filter((_, index) => index % 2 === 1 && /^host$/i.test(rawHeaders[index - 1]!))

const needsHost = ({ httpVersionMajor: major, httpVersionMinor: minor }: IncomingMessage): boolean =>
  major > 1 || (major === 1 && minor >= 1)

const hostFault = (request: IncomingMessage): Problem | undefined => {
  const [host, ...others] = hostsOf(request)
  if (host === undefined)
    return needsHost(request)
      ? problem("host_invalid", "The Host header is missing: send one with the host that you call.")
      : undefined
  if (others.length > 0) return problem("host_invalid", "The request has more than one Host header: send one.")
  return isHost(host)
    ? undefined
    : problem(
        "host_invalid",
        "The Host header is not a valid host: send a name or an address, with a port if one is needed.",
      )
}

export const TRANSFER_ENCODING_UNSUPPORTED = problem(
  "transfer_encoding_unsupported",
  "Transfer-Encoding may only be chunked: send the body unchanged, with a Content-Length or in chunks.",
)

/** Whether a Transfer-Encoding is the supported one. */
export const isChunked = (encoding: string): boolean => /^chunked$/i.test(encoding.trim())

const framingFault = (request: IncomingMessage): Problem | undefined => {
  const encoding = request.headers["transfer-encoding"]
  if (encoding === undefined) return undefined
  if (!isChunked(encoding)) return TRANSFER_ENCODING_UNSUPPORTED
  return needsHost(request)
    ? undefined
    : problem("request_malformed", "HTTP/1.0 has no Transfer-Encoding: send a Content-Length.")
}

/** Returns the refusal of a wrong head; undefined if it is right. */
export const headFault = (request: IncomingMessage): Problem | undefined => hostFault(request) ?? framingFault(request)

const ENDING: ReadonlySet<ProblemCode> = new Set(["host_invalid", "transfer_encoding_unsupported", "request_malformed"])

/** Whether a refusal ends the connection that the request came on. */
export const endsConnection = ({ code }: Problem): boolean => ENDING.has(code)
