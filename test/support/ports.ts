/** Ports that have to be known before there is anything to listen on them. */
import { type AddressInfo, createServer } from "node:net"

export interface HeldPort {
  readonly port: number
  /** Call once another process listens on it. */
  readonly release: () => void
}

/**
 * A port that is kept from everybody but who shares ports on purpose, as HAProxy does (SO_REUSEPORT, with the same user): what is
 * free and only looked for may be somebody else's by the time that it is used. Where a system cannot share, it is free for now.
 */
export const holdPort = (): Promise<HeldPort> =>
  new Promise((resolve, reject) => {
    const holder = createServer((socket) => socket.destroy())
    const reusePort = process.platform === "linux"
    holder.once("error", reject)
    holder.listen({ port: 0, host: "127.0.0.1", reusePort }, () => {
      const { port } = holder.address() as AddressInfo
      if (!reusePort) holder.close()
      holder.unref()
      resolve({ port, release: () => void holder.close() })
    })
  })
