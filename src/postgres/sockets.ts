/** The sockets of this process to its databases: those of one that says nothing any more can be closed, as a line that breaks closes them. */
import { connect, type NetConnectOpts, type Socket } from "node:net"
import { Redacted } from "effect"

const DEFAULT_PORT = 5432
/** A connection that died without a word is found out by the system, too. */
const KEEP_ALIVE_AFTER_MS = 10_000

/** Where a database is, by its address: at a host, or behind a socket of the system. As in libpq, its parameters replace what stands before. */
export const placeOf = (address: string): NetConnectOpts => {
  const { hostname, port: own, searchParams } = new URL(address)
  const last = (name: string) => searchParams.getAll(name).at(-1)
  const host = last("host") ?? decodeURIComponent(hostname.replace(/^\[(.*)\]$/, "$1"))
  const port = Number(last("port") ?? (own === "" ? DEFAULT_PORT : own))
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

  /** Opens one more. What is written to it before it is connected waits for that. */
  readonly open = (): Socket => {
    // A statement is one write and then a wait: nothing is gained by holding it back.
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

/** Those to one database. */
export const socketsTo = (url: Redacted.Redacted<string>): Sockets => {
  const address = Redacted.value(url)
  const known = byAddress.get(address) ?? new Sockets(address)
  byAddress.set(address, known)
  return known
}
