/** Limits a server's connections: how many there are, how long a client may take to read a response, and how they end. */
import type { Server, ServerResponse } from "node:http"
import { Server as NetServer, type Socket } from "node:net"
import { Server as TlsServer } from "node:tls"
import { Counter } from "../concurrency/Counter.ts"

export interface ConnectionLimits {
  /** Connections of the process. */
  readonly connections: number
  /** Connections of one caller. */
  readonly connectionsOfCaller: number
  /** Timeout of the TLS handshake. */
  readonly handshakeMs: number
  /** How long a client may read nothing of a response. A slow client is closed after at most twice this time. */
  readonly readerIdleMs: number
  /** How long a client may take to read a complete response, from when all of it is ready. */
  readonly readerMs: number
  /** How long an incomplete request may take to complete after the server stops. */
  readonly halfSentMs: number
}

export const CONNECTION_LIMITS: ConnectionLimits = {
  // Each needs a file descriptor and some 20 KB.
  connections: 10_000,
  // Many clients may share an address. Each incomplete request takes at most 272 KiB, for 30 s.
  connectionsOfCaller: 1_000,
  handshakeMs: 10_000,
  readerIdleMs: 10_000,
  // A slow phone needs this long for a page of 1 MiB, at 17 KiB/s.
  readerMs: 60_000,
  halfSentMs: 2_000,
}

/** Returns the caller of a connection; undefined for a proxy, whose connections carry many callers. */
type CallerOf = (socket: Socket) => string | undefined

interface Connection {
  readonly accepted: Socket
  /** The socket of its requests. With TLS it wraps the accepted socket, and is undefined until the handshake is complete. */
  socket: Socket | undefined
  /** Responses that are not sent yet. */
  readonly open: Set<ServerResponse>
  /** Bytes received when the last response was sent: any later byte belongs to a new request. */
  bytesHandled: number
}

/** Identifies a connection by its two ends: a TLS socket has the same ends as the socket that it wraps. */
const endsOf = ({ localAddress, remoteAddress, remotePort }: Socket): string =>
  `${localAddress} ${remoteAddress} ${remotePort}`

/** Closes the connection of a client that reads too slowly. Bytes that the kernel has accepted are not counted. */
const limitReader = (response: ServerResponse, socket: Socket, limits: ConnectionLimits): void => {
  if (socket.writableLength === 0) return
  // Node resets this timeout whenever bytes are sent, and destroys the socket when it ends.
  socket.setTimeout(limits.readerIdleMs)
  // This runs before Node sets the keep-alive timeout.
  response.prependOnceListener("finish", () => socket.setTimeout(0))
  const limit = setTimeout(() => socket.destroy(), limits.readerMs)
  response.once("close", () => clearTimeout(limit))
}

/** Whether a connection has no response to send and received nothing since the last one. */
const isQuiet = ({ socket, open, bytesHandled }: Connection): boolean =>
  socket === undefined || (open.size === 0 && socket.bytesRead === bytesHandled)

const isAtWork = ({ open }: Connection): boolean => [...open].some(({ req }) => req.complete)

/** Makes this the last response of its connection, if its headers are not sent yet. */
const makeLast = (response: ServerResponse | undefined): void => {
  if (response?.headersSent === false) response.setHeader("connection", "close")
}

/** Whether nothing is under way after this response. A refused body may still arrive: then its request is incomplete. */
const isOver = ({ open }: Connection, { req }: ServerResponse): boolean => open.size === 0 && req.complete

/** Applies limits to a server's connections. The returned `stop` ends them. */
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
    // A socket without an address is already closed.
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
      // Its headers may have been sent before the stop, without `Connection: close`.
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
    /** Returns the responses of a connection that are not sent yet, in the order of their requests. */
    underWay: (socket: Socket): ReadonlyArray<ServerResponse> => [...(bySocket.get(socket)?.open ?? [])],
    /**
     * Accepts no more connections. Idle connections end immediately, incomplete requests after
     * {@link ConnectionLimits.halfSentMs}, and other connections with their responses. Resolves after the last one.
     */
    stop: (): Promise<void> => {
      stopped ??= new Promise((resolve) => {
        // The `close` of an HTTP server would also cut off responses that clients still read.
        NetServer.prototype.close.call(server, () => resolve())
        endQuiet()
        setTimeout(endHalfSent, limits.halfSentMs).unref()
      })
      return stopped
    },
  }
}
