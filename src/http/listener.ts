/** Listens for requests, with limits on slow clients. */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http"
import { createServer as createTlsServer } from "node:https"
import type { AddressInfo } from "node:net"
import * as NodeHttpServer from "@effect/platform-node/NodeHttpServer"
import { Effect, Redacted, Scope } from "effect"
import { HttpMiddleware, type HttpServerResponse } from "effect/http"
import { type Config, ConfigProblem } from "../config/Config.ts"
import { CONNECTION_LIMITS, type ConnectionLimits, limitConnections } from "./connections.ts"
import { headFault } from "./framing.ts"
import { respondToMalformed, type UnderWay } from "./malformed.ts"
import { addressOf, originOf } from "./Origin.ts"
import { isProxied, networkOf } from "./transport.ts"

/** A request whose head or body has not arrived after this is dropped: a slow client uses a connection, not work. */
const HEADERS_LIMIT_MS = 10_000
const REQUEST_LIMIT_MS = 30_000
const CHECK_EVERY_MS = 1_000
/** Longer than the keep-alive of proxies, so that the proxy closes the connection. */
const KEEP_ALIVE_MS = 65_000

const SERVER_OPTIONS = {
  // We refuse a request without Host ourselves, in the envelope.
  requireHostHeader: false,
  headersTimeout: HEADERS_LIMIT_MS,
  requestTimeout: REQUEST_LIMIT_MS,
  connectionsCheckingInterval: CHECK_EVERY_MS,
  keepAliveTimeout: KEEP_ALIVE_MS,
}

type Handler = (request: IncomingMessage, response: ServerResponse) => void

const createHttpServer = ({ tls }: Config["transport"], { handshakeMs }: ConnectionLimits): Server =>
  tls === undefined
    ? createServer(SERVER_OPTIONS)
    : createTlsServer({
        ...SERVER_OPTIONS,
        cert: tls.cert,
        key: Redacted.value(tls.key),
        handshakeTimeout: handshakeMs,
      })

/** The problem of an address that cannot be listened on. `prefix`: of the settings `…HOST` and `…PORT` that name it. */
export const cannotListen = (
  prefix: string,
  host: string,
  port: number,
  { code, message }: NodeJS.ErrnoException,
): ConfigProblem =>
  new ConfigProblem({
    message:
      code === "EADDRINUSE"
        ? `${prefix}PORT ${port} on ${host} is in use: stop the other program or set ${prefix}PORT.`
        : `Cannot listen on ${prefix}HOST ${host}, ${prefix}PORT ${port}: ${code ?? message}.`,
  })

/** Starts to listen; returns the address, and the origin in links. */
const bind = (
  server: Server,
  config: Config,
  underWay: UnderWay,
): Effect.Effect<{ readonly address: string; readonly origin: string }, ConfigProblem> =>
  Effect.callback((resume) => {
    const { host, port: wanted } = config
    const refused = (error: Error) => resume(Effect.fail(cannotListen("", host, wanted, error)))
    server.once("error", refused)
    server.listen({ host, port: wanted }, () => {
      server.off("error", refused)
      const { port } = server.address() as AddressInfo
      const origin = originOf(config, port)
      respondToMalformed(server, origin, underWay)
      resume(Effect.succeed({ address: addressOf(config, port), origin }))
    })
  })

/**
 * Listens, with TLS if it is configured, until `stop` or the scope's end. Requests that arrive before `serve` wait for it: the
 * app needs the origin, and with PORT 0 the origin is known only after the server listens.
 */
export const listen = Effect.fnUntraced(function* (config: Config, limits = CONNECTION_LIMITS) {
  const { transport } = config
  const server = createHttpServer(transport, limits)
  const callerOf = (socket: IncomingMessage["socket"]) => (isProxied(socket, transport) ? undefined : networkOf(socket))
  const connections = limitConnections(server, callerOf, limits)
  const early: Array<Parameters<Handler>> = []
  let respond: Handler = (...request) => void early.push(request)
  const refused = new WeakSet<IncomingMessage["socket"]>()
  const take: Handler = (request, response) => {
    // Bytes after a malformed head are not read as a request: the connection ends with that refusal.
    if (refused.has(request.socket)) return
    if (headFault(request) !== undefined) refused.add(request.socket)
    respond(request, response)
  }
  server.on("request", take)
  // An `Expect` other than 100-continue has no meaning for us, so the request is served. Node alone would refuse it without our envelope.
  server.on("checkExpectation", take)

  const bound = yield* bind(server, config, connections.underWay)
  const stop = Effect.sync(() => void connections.stop())
  yield* Effect.addFinalizer(() => stop)

  /** Responds with `app`. The scope closes after the last response. */
  const serve = Effect.fnUntraced(function* <E, R>(app: Effect.Effect<HttpServerResponse.HttpServerResponse, E, R>) {
    const requests = yield* Scope.fork(yield* Effect.scope, "parallel")
    const handler = yield* NodeHttpServer.makeHandler(app, { scope: requests }).pipe(
      // Its spans would contain paths and queries; ours do not (server.ts).
      Effect.provideService(HttpMiddleware.TracerDisabledWhen, () => true),
    )
    yield* Effect.addFinalizer(() => Effect.promise(connections.stop))
    yield* Effect.sync(() => {
      respond = handler
      for (const request of early.splice(0)) handler(...request)
    })
  })

  return { ...bound, serve, stop }
})
