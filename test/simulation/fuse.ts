/** A TCP proxy before the database that breaks after a number of chunks, in the middle of one. */
import { connect, createServer, type Socket } from "node:net"
import { Redacted } from "effect"

/** The point at which it breaks. */
export interface Break {
  /** The chunk that does not pass completely, counting both directions, from 1. */
  readonly piece: number
  /** The part of that chunk that still passes: 0 to 1. */
  readonly share: number
}

export interface Fuse {
  readonly url: Redacted.Redacted<string>
  /** Breaks it now, in both directions, permanently. */
  readonly blow: () => void
  /** The chunks that have passed. */
  readonly pieces: () => number
}

/** `blown` is called once, for any way to break. */
export const startFuse = (
  url: Redacted.Redacted<string>,
  breaks: Break | undefined,
  blown: () => void,
): Promise<Fuse> => {
  const target = new URL(Redacted.value(url))
  const open = new Set<Socket>()
  let isBlown = false
  let pieces = 0
  const blow = () => {
    if (isBlown) return
    isBlown = true
    server.close()
    for (const socket of open) socket.destroy()
    blown()
  }
  const pass = (from: Socket, to: Socket) =>
    from.on("data", (piece) => {
      if (isBlown) return
      pieces++
      if (pieces !== breaks?.piece) return void to.write(piece)
      const part = piece.subarray(0, Math.floor(piece.length * breaks.share))
      // Destroying the socket would drop bytes that are not written yet.
      if (part.length === 0) blow()
      else to.write(part, blow)
    })
  const server = createServer((client) => {
    if (isBlown) return void client.destroy()
    const upstream = connect(Number(target.port), target.hostname)
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true)
      open.add(socket)
      socket.on("error", () => {})
      socket.on("close", () => {
        open.delete(socket)
        client.destroy()
        upstream.destroy()
      })
    }
    pass(client, upstream)
    pass(upstream, client)
  })
  return new Promise((resolve) => {
    server.listen(0, "127.0.0.1", () => {
      const through = new URL(target)
      through.port = String((server.address() as { port: number }).port)
      resolve({ url: Redacted.make(through.href), blow, pieces: () => pieces })
    })
  })
}
