/** Requests that never became one: half-sent, or not HTTP. Node would respond to them itself, without our envelope. */
import { type Server, STATUS_CODES } from "node:http"
import type { Socket } from "node:net"
import { newId } from "../ids.ts"
import { problem } from "../problem.ts"
import { failureBody } from "./envelope.ts"

/** What a client is given to read the response in: one that goes on sending would lose it to a reset. */
const LINGER_MS = 500

const TIMEOUT = "ERR_HTTP_REQUEST_TIMEOUT"

const toProblem = (code: string) =>
  code === TIMEOUT
    ? problem("request_timeout", "The request did not arrive whole in time.")
    : problem("request_malformed", "This is not an HTTP request that can be read.")

/** Whether HTTP is what went wrong: where it was the connection, or TLS, no response could be read. */
const isAboutHttp = (code = ""): boolean => code === TIMEOUT || code.startsWith("HPE_")

/** Responds to what Node gives up on, in the API's own envelope, and closes the connection. */
export const respondToBroken = (server: Server, origin: string): void => {
  server.on("clientError", ({ code }: NodeJS.ErrnoException, socket: Socket) => {
    if (!isAboutHttp(code) || !socket.writable) return void socket.destroy()
    const refusal = toProblem(code!)
    const requestId = newId("request")
    const body = failureBody(refusal, requestId, origin)
    const head = [
      `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status]}`,
      "Content-Type: application/json; charset=utf-8",
      `Content-Length: ${Buffer.byteLength(body)}`,
      `X-Request-Id: ${requestId}`,
      "Connection: close",
    ]
    socket.end(`${head.join("\r\n")}\r\n\r\n${body}`)
    setTimeout(() => socket.destroy(), LINGER_MS).unref()
  })
}
