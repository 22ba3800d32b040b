/** The connections of a server: how many there may be, how long a response may take to be read, and how they end. */
import type { Server, ServerResponse } from "node:http"
import { Server as NetServer, type Socket } from "node:net"
import { Server as TlsServer } from "node:tls"
import { Counter } from "../concurrency/Counter.ts"

export interface ConnectionLimits {
  /** Connections of the process. */
  readonly connections: number
  /** Connections of one caller. */
  readonly connectionsOfCaller: number
  /** In which time TLS must be agreed on. */
  readonly handshakeMs: number
  /** For how long the reader of a response may take nothing of it. Noticed after twice that at the latest. */
  readonly readerIdleMs: number
  /** In which time a response must be taken whole, counted from when all of it is there. */
  readonly readerMs: number
  /** What a request that is not whole when the server stops is given to become so. */
  readonly halfSentMs: number
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  // A file and some 20 KB each.
  connections: 10_000,
  // Many people may share an address. Of requests that are not whole yet, each holds at most 272 KiB, for 30 s.
  connectionsOfCaller: 1_000,
  handshakeMs: 10_000,
  readerIdleMs: 10_000,
  // A page of 1 MiB by a slow phone, at 17 KiB/s.
  readerMs: 60_000,
  halfSentMs: 2_000,
}

/** Who has a connection; undefined: a proxy, whose connections are many callers'. */
type CallerOf = (socket: Socket) => string | undefined

interface Connection {
  readonly accepted: Socket
  /** What requests come on: with TLS it is within the one accepted, and absent until the handshake is over. */
  socket: Socket | undefined
  /** Responses that are not sent yet. */
  readonly open: Set<ServerResponse>
  /** Bytes that had come when the last response was sent: any more are part of a request. */
  bytesHandled: number
}

/** The two ends of a connection: TLS has a socket of its own, with the same ends as the one it is within. */
const endsOf = ({ localAddress, remoteAddress, remotePort }: Socket): string =>
  `${localAddress} ${remoteAddress} ${remotePort}`

/** A reader that is too slow is hung up on. What the kernel has taken off our hands is not counted. */
const limitReader = (response: ServerResponse, socket: Socket, limits: ConnectionLimits): void => {
  if (socket.writableLength === 0) return
  // Node sees to it that bytes on their way keep this from happening, and destroys the socket when it does.
  socket.setTimeout(limits.readerIdleMs)
  // Before Node sets the time that an idle connection is kept.
  response.prependOnceListener("finish", () => socket.setTimeout(0))
  const limit = setTimeout(() => socket.destroy(), limits.readerMs)
  response.once("close", () => clearTimeout(limit))
}

/** Nothing came since the last response: nobody waits for anything. */
const isQuiet = ({ socket, open, bytesHandled }: Connection): boolean =>
  socket === undefined || (open.size === 0 && socket.bytesRead === bytesHandled)

const isAtWork = ({ open }: Connection): boolean => [...open].some(({ req }) => req.complete)

/** The client is told not to send more on this connection. */
const makeLast = (response: ServerResponse | undefined): void => {
  if (response?.headersSent === false) response.setHeader("connection", "close")
}

/** Nothing is under way after this response. A body that was refused is still coming in where its request is not whole. */
const isOver = ({ open }: Connection, { req }: ServerResponse): boolean => open.size === 0 && req.complete

/** Keeps a server's connections within limits. `stop` ends them: see there. */
export const limitConnections = (server: Server, callerOf: CallerOf, limits: ConnectionLimits) => {
  const connections = new Set<Connection>()
  const byEnds = new Map<string, Connection>()
  const bySocket = new WeakMap<Socket, Connection>()
  const callers = new Counter()
  let stopped: Promise<void> | undefined
  server.maxConnections = limits.connections

  /** Counts a connection for its caller; false: there are too many. */
  const admit = (socket: Socket): boolean => {
    const caller = callerOf(socket)
    if (caller === undefined) return true
    if (callers.of(caller) >= limits.connectionsOfCaller) return false
    callers.add(caller, 1)
    socket.once("close", () => callers.add(caller, -1))
    return true
  }

  const begin = (connection: Connection, socket: Socket): void => {
    connection.socket = socket
    bySocket.set(socket, connection)
  }

  server.on("connection", (accepted: Socket) => {
    // Without an address it is closed already.
    if (accepted.remoteAddress === undefined || !admit(accepted)) return void accepted.destroy()
    const connection: Connection = { accepted, socket: undefined, open: new Set(), bytesHandled: 0 }
    const ends = endsOf(accepted)
    connections.add(connection)
    byEnds.set(ends, connection)
    accepted.once("close", () => {
      connections.delete(connection)
      if (byEnds.get(ends) === connection) byEnds.delete(ends)
    })
    if (!(server instanceof TlsServer)) begin(connection, accepted)
  })
  server.on("secureConnection", (secure: Socket) => {
    const connection = byEnds.get(endsOf(secure))
    if (connection === undefined) secure.destroy()
    else begin(connection, secure)
  })

  server.on("request", ({ socket }, response: ServerResponse) => {
    const connection = bySocket.get(socket)
    if (connection === undefined) return
    connection.open.add(response)
    if (stopped !== undefined) makeLast(response)
    response.once("prefinish", () => limitReader(response, socket, limits))
    response.once("close", () => {
      connection.open.delete(response)
      connection.bytesHandled = socket.bytesRead
      // Its header may have promised otherwise, before we knew.
      if (stopped !== undefined && isOver(connection, response)) socket.destroySoon()
    })
  })

  const endQuiet = () => {
    for (const connection of connections) {
      if (isQuiet(connection)) connection.accepted.destroy()
      else makeLast([...connection.open].at(-1))
    }
  }
  const endHalfSent = () => {
    for (const connection of connections) if (!isAtWork(connection)) connection.accepted.destroy()
  }

  return {
    /** The responses of a connection that are not sent yet, in the order of their requests. */
    underWay: (socket: Socket): ReadonlyArray<ServerResponse> => [...(bySocket.get(socket)?.open ?? [])],
    /**
     * Accepts no more connections. Those on which nothing is under way end at once, requests that are not whole within
     * {@link ConnectionLimits.halfSentMs}, and those at work with their responses. Done after the last.
     */
    stop: (): Promise<void> => {
      stopped ??= new Promise((resolve) => {
        // An HTTP server's own `close` would also cut off responses that are still being read.
        NetServer.prototype.close.call(server, () => resolve())
        endQuiet()
        setTimeout(endHalfSent, limits.halfSentMs).unref()
      })
      return stopped
    },
  }
}
