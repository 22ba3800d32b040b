/** A TCP proxy before the database, which a test can cut. */

import { connect, createServer, type Socket } from "node:net"
import { Redacted } from "effect"

export interface Proxy {
  readonly url: Redacted.Redacted<string>
  readonly cut: () => void
  /** From now on nothing passes, and no connection is closed until it is mended. */
  readonly hush: () => void
  readonly mend: () => void
  readonly close: () => void
}

export const startProxy = (url: Redacted.Redacted<string>): Promise<Proxy> =>
  new Promise((resolve) => {
    const target = new URL(Redacted.value(url))
    const open = new Set<Socket>()
    let isCut = false
    let isHushed = false
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
      client.pipe(upstream).pipe(client)
    })
    server.listen(0, "127.0.0.1", () => {
      const through = new URL(target)
      through.port = String((server.address() as { port: number }).port)
      const cut = () => {
        isCut = true
        for (const socket of open) socket.destroy()
      }
      resolve({
        url: Redacted.make(through.href),
        cut,
        hush: () => {
          isHushed = true
          for (const socket of open) socket.unpipe().pause()
        },
        mend: () => {
          if (isHushed) for (const socket of open) socket.destroy()
          isCut = false
          isHushed = false
        },
        close: () => {
          cut()
          server.close()
        },
      })
    })
  })
