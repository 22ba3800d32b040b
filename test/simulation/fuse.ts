/** A TCP proxy before the database that breaks by itself: after so many pieces of what goes through it, in the middle of one. */
import { connect, createServer, type Socket } from "node:net"
import { Redacted } from "effect"

/** Where it breaks. */
export interface Break {
  /** The piece that does not get through whole, of both directions, from 1. */
  readonly piece: number
  /** How much of that one still gets through: 0 to 1. */
  readonly share: number
}

export interface Fuse {
  readonly url: Redacted.Redacted<string>
  /** Breaks it now. Nothing gets through any more, in either direction, for ever. */
  readonly blow: () => void
  /** Pieces that have gone through. */
  readonly pieces: () => number
}

/** `blown` is called once, however it breaks. */
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
      // Destroying the socket would take back what is not written yet.
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
