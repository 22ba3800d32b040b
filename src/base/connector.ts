/**
 * Connections of our HTTP clients. Interim answers (100, 102, 103 and any other 1xx but 101) are read over, as RFC 9110 asks
 * (decision I2): undici breaks the connection off at a 100 that it did not ask for.
 */
import type { LookupFunction, Socket } from "node:net"
import { buildConnector } from "undici"

/** Of the interim answers to one request, all together. */
const MAX_INTERIM_BYTES = 16 * 1024

/** How an answer begins, up to its status. */
const STATUS_LINE = /^HTTP\/1\.\d (\d{3})$/
const STATUS_LINE_BYTES = "HTTP/1.1 200".length
const END_OF_HEAD = "\r\n\r\n"
const NOTHING = Buffer.alloc(0)

/** The status of the answer that begins here; undefined: it is none. */
const statusIn = (bytes: Buffer): string | undefined =>
  STATUS_LINE.exec(bytes.toString("latin1", 0, STATUS_LINE_BYTES))?.[1]

/** Finds the final answer to one request: given what comes, its first bytes, an error, or undefined while it has not begun. */
const createFilter = () => {
  let waiting: Buffer = NOTHING
  let readOver = 0
  return (chunk: Buffer): Buffer | Error | undefined => {
    waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk])
    for (;;) {
      if (waiting.length < STATUS_LINE_BYTES) return undefined
      const status = statusIn(waiting)
      if (status?.startsWith("1") !== true) return waiting
      if (status === "101") return new Error("an answer that changes the protocol")
      const end = waiting.indexOf(END_OF_HEAD)
      if (readOver + (end < 0 ? waiting.length : end) > MAX_INTERIM_BYTES) return new Error("too many interim answers")
      if (end < 0) return undefined
      readOver += end + END_OF_HEAD.length
      waiting = waiting.subarray(end + END_OF_HEAD.length)
    }
  }
}

/** Hides interim answers from the reader of a socket on which exchanges follow each other: each begins when something is written. */
const readOverInterim = (socket: Socket): Socket => {
  const write = socket.write.bind(socket) as (...args: Parameters<Socket["write"]>) => boolean
  const read = socket.read.bind(socket)
  let filter: ReturnType<typeof createFilter> | undefined
  /** The next bytes that are the final answer's; null: none are there yet. */
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
    // Node itself reads nothing (size 0) to have more read from the kernel.
    read: (size?: number) => (size === undefined ? readFinal() : read(size)),
  })
}

/** Connects an agent of undici. One exchange at a time on a connection: what breaks it, or keeps it waiting, is about that exchange alone. */
export const createConnector = (options: {
  readonly timeout: number
  readonly lookup?: LookupFunction
}): buildConnector.connector => {
  const connect = buildConnector({ ...options, allowH2: false } as buildConnector.BuildOptions)
  return (target, callback) =>
    connect(target, (...[error, socket]) =>
      error === null ? callback(null, readOverInterim(socket)) : callback(error, null),
    )
}
