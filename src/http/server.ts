/** The program that responds to every request: health, documents, public routes, and the API itself (pipeline.ts). */
import type { IncomingMessage } from "node:http"
import { NodeHttpServerRequest } from "@effect/platform-node"
import { type Cause, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import type { RateLimits, Transport } from "../config/Config.ts"
import { newId } from "../ids.ts"
import { preflight } from "./access.ts"
import { readBytes } from "./body.ts"
import { type Document, documentation } from "./documentation.ts"
import type { Endpoint } from "./Endpoint.ts"
import { failure, json } from "./envelope.ts"
import type { Expanders } from "./expand.ts"
import { type Failure, refusalOf } from "./failures.ts"
import { Metering } from "./Metering.ts"
import { observe } from "./observe.ts"
import { type Call, createLimits, createPipeline, isWrite, type Limit, requireHttps } from "./pipeline.ts"
import { findPublicRoute, type PublicRoute } from "./publicRoutes.ts"
import { isReady } from "./readiness.ts"
import { createRoutes } from "./routes.ts"
import { addressOf, environment, isSecure } from "./transport.ts"

/** `R` and `P` are the services that endpoints and public routes take. */
export interface ServerOptions<R, P> {
  readonly endpoints: ReadonlyArray<Endpoint<R>>
  readonly publicRoutes: ReadonlyArray<PublicRoute<P>>
  readonly expanders: Expanders
  readonly transport: Transport
  /** Requests a second. */
  readonly rateLimits: RateLimits
  /** Origin in `doc_url`, without a trailing slash. */
  readonly origin: string
}

/** Only the path and the query of a request's URL count. */
const BASE = "http://localhost"

/** Asked by machines, as often as they like. */
const HEALTH = "/healthz"
const READINESS = "/readyz"

type Response = HttpServerResponse.HttpServerResponse

/** Whether the database can be reached and is migrated. */
const readiness = (requestId: string) =>
  isReady.pipe(
    Effect.map(() => json(200, JSON.stringify({ status: "ready" }), requestId)),
    Effect.catchCause((cause) =>
      Effect.as(
        Effect.logWarning("not ready", cause),
        json(503, JSON.stringify({ status: "database unreachable" }), requestId),
      ),
    ),
  )

/** Health, or something to read. */
const serveDocument = Effect.fnUntraced(function* (
  { response }: Document,
  call: Call,
  transport: Transport,
  limit: Limit,
  requestId: string,
) {
  const { node, url } = call
  call.route = url.pathname
  if (url.pathname === HEALTH) return HttpServerResponse.setHeader(response, "x-request-id", requestId)
  yield* requireHttps(node, transport)
  yield* limit(call, "public", addressOf(node, transport))
  return HttpServerResponse.setHeaders(response, { ...call.headers, "x-request-id": requestId })
})

const servePublic = Effect.fnUntraced(function* <R>(
  { respond, parts, limited }: NonNullable<ReturnType<typeof findPublicRoute<R>>>,
  call: Call,
  transport: Transport,
  limit: Limit,
  requestId: string,
) {
  const { node, url } = call
  yield* requireHttps(node, transport)
  if (limited) yield* limit(call, "public", addressOf(node, transport))
  const request = { parts, search: url.searchParams, headers: node.headers, body: readBytes(node) }
  const { body, contentType, fileName } = yield* respond(request)
  const named = fileName === undefined ? {} : { "content-disposition": `inline; filename="${fileName}"` }
  const safe = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" }
  const headers = { ...call.headers, ...named, ...safe, "x-request-id": requestId }
  return HttpServerResponse.uint8Array(body, { contentType, headers })
})

/** The response to a request that failed; what nobody could act on is logged. */
const refuse = Effect.fnUntraced(function* (
  cause: Cause.Cause<Failure>,
  { node, url, key, headers }: Call,
  origin: string,
  requestId: string,
) {
  const { refusal, unexpected } = refusalOf(cause)
  if (unexpected) {
    yield* Effect.annotateLogs(Effect.logError("request failed", cause), {
      request_id: requestId,
      caller_request_id: node.headers["x-request-id"],
      method: node.method,
      path: url.pathname,
    })
  }
  const metering = yield* Metering
  const standing = isWrite(node) && key !== undefined ? yield* metering.standing(key) : {}
  const response = failure(refusal, requestId, origin, { ...headers, ...standing })
  // What is left of a refused body is not read.
  return refusal.code === "request_too_large" ? HttpServerResponse.setHeader(response, "connection", "close") : response
})

/** The program that responds to every request. */
export const createApp = <R, P>(options: ServerOptions<R, P>) => {
  const { transport, origin, endpoints, publicRoutes } = options
  const limit = createLimits(options.rateLimits)
  const respond = createPipeline(options, limit)
  const documents = documentation(endpoints, origin)
  const sandboxRoutes = createRoutes(endpoints, false)

  /** What a browser asks before a page of another origin may call. */
  const asksBefore = (node: IncomingMessage, url: URL): boolean => {
    const place = environment(node.headers.host ?? "", url.pathname, transport)
    if (node.method !== "OPTIONS" || node.headers.origin === undefined || place === undefined) return false
    // What publishable keys may call is the same in both environments.
    const match = sandboxRoutes.find("GET", place.path)
    return "endpoint" in match && match.endpoint.declaration.access === "publishable"
  }

  /** What responds to a request: the first of these that it is for. */
  const dispatch = Effect.fnUntraced(function* (call: Call, requestId: string) {
    const { node, url } = call
    const document = isWrite(node) ? undefined : documents.get(url.pathname)
    if (document !== undefined) return yield* serveDocument(document, call, transport, limit, requestId)
    const route = findPublicRoute(publicRoutes, node.method ?? "", url.pathname)
    if (route !== undefined) return yield* servePublic(route, call, transport, limit, requestId)
    const { status, body, headers } = yield* respond(call)
    return json(status, body, requestId, headers)
  })

  return Effect.gen(function* () {
    const node = NodeHttpServerRequest.toIncomingMessage(yield* HttpServerRequest.HttpServerRequest) as IncomingMessage
    const requestId = newId("request")
    const url = URL.canParse(node.url ?? "/", BASE) ? new URL(node.url ?? "/", BASE) : new URL(BASE)
    const startedAt = performance.now()
    const call: Call = { node, url, headers: {}, key: undefined, route: undefined }
    if (!isWrite(node) && url.pathname === READINESS) return yield* readiness(requestId)
    if (isSecure(node, transport) && asksBefore(node, url)) {
      const headers = { ...preflight(node.headers.origin!), "x-request-id": requestId }
      return HttpServerResponse.empty({ status: 204, headers })
    }
    const dispatched = dispatch(call, requestId)
    // A caller that hangs up does not leave half a request: what is begun is finished.
    const response: Response = yield* (isWrite(node) ? Effect.uninterruptible(dispatched) : dispatched).pipe(
      Effect.catchCause((cause) => refuse(cause, call, origin, requestId)),
    )
    yield* observe(node, { requestId, startedAt, status: response.status, route: call.route, key: call.key })
    return response
  })
}
