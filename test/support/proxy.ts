/** A TCP proxy before the database, which a test can cut. */

import { connect, createServer, type Socket } from "node:net"
import { Transform } from "node:stream"
import { Redacted } from "effect"

export interface Proxy {
  readonly url: Redacted.Redacted<string>
  readonly cut: () => void
  /** From now on no data passes, and no connection is closed until it is mended. */
  readonly hush: () => void
  readonly mend: () => void
  /**
   * Breaks all connections at the `piece`-th chunk from now on, in either direction, and loses that chunk. New ones can
   * be opened immediately. Returns a function that ends this and returns true if it happened.
   */
  readonly breakAt: (piece: number) => () => boolean
  readonly close: () => void
}

export const startProxy = (url: Redacted.Redacted<string>): Promise<Proxy> =>
  new Promise((resolve) => {
    const target = new URL(Redacted.value(url))
    const open = new Set<Socket>()
    let isCut = false
    let isHushed = false
    /** Chunks that still pass before all connections are lost. */
    let left = Number.POSITIVE_INFINITY
    const loseAll = () => {
      for (const socket of open) socket.destroy()
    }
    const gate = () =>
      new Transform({
        transform: (piece, _, pass) => {
          if (--left !== 0) return pass(null, piece)
          loseAll()
        },
      })
    const server = createServer((client) => {
      if (isCut) return void client.destroy()
      if (isHushed) return void open.add(client.on("error", () => {}))
      const upstream = connect(Number(target.port), target.hostname)
      for (const socket of [client, upstream]) {
        open.add(socket)
        socket.on("error", () => {})
        socket.on("close", () => {
          open.delete(socket)
          client.destroy()
          upstream.destroy()
        })
      }
      client.pipe(gate()).pipe(upstream).pipe(gate()).pipe(client)
    })
    server.listen(0, "127.0.0.1", () => {
      const through = new URL(target)
      through.port = String((server.address() as { port: number }).port)
      const cut = () => {
        isCut = true
        loseAll()
      }
      resolve({
        url: Redacted.make(through.href),
        cut,
        hush: () => {
          isHushed = true
          for (const socket of open) socket.unpipe().pause()
        },
        mend: () => {
          if (isHushed) loseAll()
          isCut = false
          isHushed = false
        },
        breakAt: (piece) => {
          left = piece
          return () => {
            const isBroken = left <= 0
            left = Number.POSITIVE_INFINITY
            return isBroken
          }
        },
        close: () => {
          cut()
          server.close()
        },
      })
    })
  })
