/** Opens connections like a badly behaved client's. */
import { connect, type Socket } from "node:net"

/** Resolves when it is closed, in any way. `once` would fail on a reset. */
export const closed = (socket: Socket): Promise<unknown> => {
  socket.on("error", () => {})
  return new Promise((resolve) => socket.resume().once("close", resolve))
}

export interface RawAnswer {
  readonly status: number
  readonly headers: string
  readonly body: string
}

/** The answers that a server sent on a connection: each with a Content-Length, or without a body. */
const answersIn = (bytes: Buffer): ReadonlyArray<RawAnswer> => {
  const end = bytes.indexOf("\r\n\r\n")
  if (end < 0) return []
  const headers = bytes.toString("latin1", 0, end)
  const length = Number(/^content-length: (\d+)/im.exec(headers)?.[1] ?? 0)
  const after = end + 4 + length
  const body = bytes.toString("utf8", end + 4, after)
  return [{ status: Number(headers.slice(9, 12)), headers, body }, ...answersIn(bytes.subarray(after))]
}

/** Sends raw bytes in one write on a new connection. Returns the answers before the server closed it. */
export const sendRaw = async (origin: string, bytes: string | Buffer): Promise<ReadonlyArray<RawAnswer>> => {
  const { hostname, port } = new URL(origin)
  const socket = connect(Number(port), hostname)
  const parts: Array<Buffer> = []
  socket.on("data", (part) => parts.push(part))
  socket.write(bytes)
  await closed(socket)
  return answersIn(Buffer.concat(parts))
}
