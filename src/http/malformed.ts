/** Requests that never became one: half-sent, or not HTTP. Node would respond to them itself, without our envelope. */
import { type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { newId } from "../base/ids.ts"
import { type Problem, problem } from "../base/problem.ts"
import { failureBody } from "./envelope.ts"
import { isChunked, TRANSFER_ENCODING_UNSUPPORTED } from "./framing.ts"

/** What a client is given to read the response in: one that goes on sending would lose it to a reset. */
const LINGER_MS = 500

const TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT"

/** What Node says of a request that it gives up on: where in which bytes it did. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

const ENCODING = /\r\ntransfer-encoding:[\t ]*([^\r\n]*)/gi

/**
 * Whether a request is given up on for a transfer coding that is not understood. Node refuses a Content-Length beside any Transfer-Encoding, at the
 * later of both headers, before the request is to be seen.
 */
const hasOtherEncoding = ({ code, rawPacket, bytesParsed = 0 }: ParseError): boolean => {
  if (rawPacket === undefined || !/^HPE_INVALID_(?:TRANSFER_ENCODING|CONTENT_LENGTH)$/.test(code ?? "")) return false
  const end = rawPacket.indexOf("\r\n", bytesParsed)
  const head = rawPacket.toString("latin1", 0, end < 0 ? undefined : end)
  const [, encoding] = [...head.matchAll(ENCODING)].at(-1) ?? []
  return encoding !== undefined && !isChunked(encoding)
}

const toProblem = (error: ParseError): Problem => {
  if (error.code === TIMEOUT) return problem("request_timeout", "The request did not arrive whole in time.")
  return hasOtherEncoding(error)
    ? TRANSFER_ENCODING_UNSUPPORTED
    : problem("request_malformed", "This is not an HTTP request that can be read.")
}

/** Whether HTTP is what went wrong: where it was the connection, or TLS, no response could be read. */
const isAboutHttp = (code = ""): boolean => code === TIMEOUT || code.startsWith("HPE_")

/** The refusal as bytes: there is no request that Node could respond to. */
const refusalBytes = (error: ParseError, origin: string): string => {
  const refusal = toProblem(error)
  const requestId = newId("request")
  const body = failureBody(refusal, requestId, origin)
  const head = [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
    "Content-Type: application/json; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(body)}`,
    `X-Request-Id: ${requestId}`,
    "Cache-Control: no-store",
    "Connection: close",
  ]
  return `${head.join("\r\n")}\r\n\r\n${body}`
}

/** The responses of a connection that are not sent yet, in the order of their requests. */
export type UnderWay = (socket: Socket) => ReadonlyArray<ServerResponse>

/**
 * Responds to what Node gives up on, in the API's own envelope, behind the responses to the requests that came whole before it, and closes the
 * connection.
 */
export const respondToMalformed = (server: Server, origin: string, underWay: UnderWay): void => {
  const broken = new WeakSet<Socket>()
  const end = (socket: Socket, error: ParseError) => {
    // The response to the request that broke off may be out already: it is the last then.
    const isAnswered = underWay(socket).some(({ headersSent }) => headersSent)
    if (socket.writable) socket.end(isAnswered ? "" : refusalBytes(error, origin))
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  }
  server.on("clientError", (error: ParseError, socket: Socket) => {
    if (!isAboutHttp(error.code) || !socket.writable) return void socket.destroy()
    // Whatever comes behind it is as broken, again and again.
    if (broken.has(socket)) return
    broken.add(socket)
    const before = underWay(socket).findLast(({ req }) => req.complete)
    if (before === undefined) return end(socket, error)
    before.once("close", () => end(socket, error))
  })
}
