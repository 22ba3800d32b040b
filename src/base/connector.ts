/**
 * Connections of our HTTP clients. Interim responses (1xx other than 101) are skipped, as RFC 9110 requires (decision I2): undici closes
 * the connection at a 100 that it did not ask for.
 */
import type { LookupFunction, Socket } from "node:net"
import { buildConnector } from "undici"

/** Of all interim responses to one request together. */
const MAX_INTERIM_BYTES = 16 * 1024

/** The start of a response, up to its status. */
const STATUS_LINE = /^HTTP\/1\.\d (\d{3})$/
const STATUS_LINE_BYTES = "HTTP/1.1 200".length
const END_OF_HEAD = "\r\n\r\n"
const NOTHING = Buffer.alloc(0)

/** The status of the response that starts here; undefined if it is not a response. */
const statusIn = (bytes: Buffer): string | undefined =>
  STATUS_LINE.exec(bytes.toString("latin1", 0, STATUS_LINE_BYTES))?.[1]

/** Creates a filter that skips interim responses: each chunk returns the first bytes of the final response, an error, or undefined (not started). */
const createFilter = () => {
  let waiting: Buffer = NOTHING
  let skippedBytes = 0
  return (chunk: Buffer): Buffer | Error | undefined => {
    waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk])
    for (;;) {
      if (waiting.length < STATUS_LINE_BYTES) return undefined
      const status = statusIn(waiting)
      if (status?.startsWith("1") !== true) return waiting
      if (status === "101") return new Error("a response that changes the protocol")
      const end = waiting.indexOf(END_OF_HEAD)
      if (skippedBytes + (end < 0 ? waiting.length : end) > MAX_INTERIM_BYTES)
        return new Error("too many interim responses")
      if (end < 0) return undefined
      skippedBytes += end + END_OF_HEAD.length
      waiting = waiting.subarray(end + END_OF_HEAD.length)
    }
  }
}

/** Hides interim responses from the reader of a socket. Each write starts a new exchange. */
const skipInterim = (socket: Socket): Socket => {
  const write = socket.write.bind(socket) as (...args: Parameters<Socket["write"]>) => boolean
  const read = socket.read.bind(socket)
  let filter: ReturnType<typeof createFilter> | undefined
  /** The next bytes of the final response; null if none have arrived yet. */
  const readFinal = (): Buffer | null => {
    for (;;) {
      const chunk: Buffer | null = read()
      if (chunk === null || filter === undefined) return chunk
      const found = filter(chunk)
      if (found instanceof Error) {
        socket.destroy(found)
        return null
      }
      if (found !== undefined) {
        filter = undefined
        return found
      }
    }
  }
  return Object.assign(socket, {
    write: (...args: Parameters<Socket["write"]>) => {
      filter = createFilter()
      return write(...args)
    },
    // Node calls read(0) to fetch more from the kernel.
    read: (size?: number) => (size === undefined ? readFinal() : read(size)),
  })
}

/** Creates the connector of an undici agent. A connection has one exchange at a time: an error or a delay belongs to that exchange alone. */
export const createConnector = (options: {
  readonly timeout: number
  readonly lookup?: LookupFunction
}): buildConnector.connector => {
  const connect = buildConnector({ ...options, allowH2: false } as buildConnector.BuildOptions)
  return (target, callback) =>
    connect(target, (...[error, socket]) =>
      error === null ? callback(null, skipInterim(socket)) : callback(error, null),
    )
}
