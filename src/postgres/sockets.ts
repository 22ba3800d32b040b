/** The sockets of this process to its databases. Sockets to a silent database can be closed, which looks like a broken connection. */
import { connect, type NetConnectOpts, type Socket } from "node:net"
import { Redacted } from "effect"

const DEFAULT_PORT = 5432
/** The operating system also detects a connection that died silently. */
const KEEP_ALIVE_AFTER_MS = 10_000

/** Parses the address of a database: a host or a Unix socket. As in libpq, query parameters override the other parts. */
export const placeOf = (address: string): NetConnectOpts => {
  const { hostname, port: urlPort, searchParams } = new URL(address)
  const last = (name: string) => searchParams.getAll(name).at(-1)
  const host = last("host") ?? decodeURIComponent(hostname.replace(/^\[(.*)\]$/, "$1"))
  const port = Number(last("port") ?? (urlPort === "" ? DEFAULT_PORT : urlPort))
  return host.startsWith("/")
    ? { path: `${host}/.s.PGSQL.${port}` }
    : { host: host === "" ? "localhost" : host, port, keepAlive: true, keepAliveInitialDelay: KEEP_ALIVE_AFTER_MS }
}

class Sockets {
  readonly #place: NetConnectOpts
  readonly #open = new Set<Socket>()

  constructor(address: string) {
    this.#place = placeOf(address)
  }

  /** Opens a socket. Data written before it is connected waits until then. */
  readonly open = (): Socket => {
    // A statement is one write followed by a wait: delaying the write gains nothing.
    const socket = connect({ ...this.#place, noDelay: true })
    this.#open.add(socket)
    socket.once("close", () => this.#open.delete(socket))
    return socket
  }

  closeAll(): void {
    for (const socket of this.#open) socket.destroy(new Error("The database did not answer any more."))
  }
}

const byAddress = new Map<string, Sockets>()

/** Returns the sockets to one database. */
export const socketsTo = (url: Redacted.Redacted<string>): Sockets => {
  const address = Redacted.value(url)
  const sockets = byAddress.get(address) ?? new Sockets(address)
  byAddress.set(address, sockets)
  return sockets
}
