/** Reserves ports that must be known before a process listens on them. */
import { type AddressInfo, createServer } from "node:net"

export interface HeldPort {
  readonly port: number
  /** Call after another process listens on it. */
  readonly release: () => void
}

/**
 * Reserves a port for processes that share ports on purpose, as HAProxy does (SO_REUSEPORT, with the same user). A port
 * that was only checked may be taken before its use. On a system that cannot share, it is only free for now.
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
