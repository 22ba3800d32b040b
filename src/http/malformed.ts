/** Responds to malformed requests: incomplete, or not HTTP. Node would respond to them itself, without our envelope. */
import { type Server, type ServerResponse, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { newId } from "../base/ids.ts"
import { type Problem, problem } from "../base/problem.ts"
import { failureBody } from "./envelope.ts"
import { isChunked, TRANSFER_ENCODING_UNSUPPORTED } from "./framing.ts"

/** The time for a client to read the response: a client that continues to send would lose it to a reset. */
const LINGER_MS = 500

const TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT"

/** Node's error about a request that it cannot parse: its bytes, and the position of the fault. */
interface ParseError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  readonly bytesParsed?: number
}

const ENCODING = /\r\ntransfer-encoding:[\t ]*([^\r\n]*)/gi

/**
 * Whether a request was refused because of an unknown transfer coding. Node refuses a Content-Length with any Transfer-Encoding, at the
 * later of both headers, before the request is visible.
 */
const hasOtherEncoding = ({ code, rawPacket, bytesParsed = 0 }: ParseError): boolean => {
  if (rawPacket === undefined || !/^HPE_INVALID_(?:TRANSFER_ENCODING|CONTENT_LENGTH)$/.test(code ?? "")) return false
  const end = rawPacket.indexOf("\r\n", bytesParsed)
  const head = rawPacket.toString("latin1", 0, end < 0 ? undefined : end)
  const [, encoding] = [...head.matchAll(ENCODING)].at(-1) ?? []
  return encoding !== undefined && !isChunked(encoding)
}

const toProblem = (error: ParseError): Problem => {
  if (error.code === TIMEOUT) return problem("request_timeout", "The request did not arrive completely in time.")
  return hasOtherEncoding(error)
    ? TRANSFER_ENCODING_UNSUPPORTED
    : problem("request_malformed", "This is not a valid HTTP request.")
}

/** Whether the fault is in HTTP. If it is in the connection or in TLS, the client could not read a response. */
const isAboutHttp = (code = ""): boolean => code === TIMEOUT || code.startsWith("HPE_")

/** Makes the refusal as bytes: Node has no request that it could respond to. */
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

/** Returns the responses of a connection that are not sent yet, in the order of their requests. */
export type UnderWay = (socket: Socket) => ReadonlyArray<ServerResponse>

/**
 * Responds to requests that Node cannot parse, in the API's envelope, after the responses to the complete requests before them. Then it closes
 * the connection.
 */
export const respondToMalformed = (server: Server, origin: string, underWay: UnderWay): void => {
  const malformed = new WeakSet<Socket>()
  const end = (socket: Socket, error: ParseError) => {
    // If the response to the incomplete request is already sent, it is the last one.
    const isAnswered = underWay(socket).some(({ headersSent }) => headersSent)
    if (socket.writable) socket.end(isAnswered ? "" : refusalBytes(error, origin))
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  }
  server.on("clientError", (error: ParseError, socket: Socket) => {
    if (!isAboutHttp(error.code) || !socket.writable) return void socket.destroy()
    // Node reports the bytes after a malformed request again and again.
    if (malformed.has(socket)) return
    malformed.add(socket)
    const before = underWay(socket).findLast(({ req }) => req.complete)
    if (before === undefined) return end(socket, error)
    before.once("close", () => end(socket, error))
  })
}
