/** The app that responds to every request: health, documents, public routes, and the API itself (pipeline.ts). */
import type { IncomingMessage, ServerResponse } from "node:http"
import * as NodeHttpServerRequest from "@effect/platform-node/NodeHttpServerRequest"
import { type Cause, Effect, Option, Tracer } from "effect"
import { Headers, HttpServerRequest, HttpServerResponse, HttpTraceContext } from "effect/http"
import { newId } from "../base/ids.ts"
import type { RateLimits, Transport } from "../config/Config.ts"
import { BY_PAGE } from "../db/Causes.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { DatabaseClock } from "../process/DatabaseClock.ts"
import { recordRequest } from "../process/loadHint.ts"
import { ArrivedAt } from "./ArrivedAt.ts"
import { preflight } from "./access.ts"
import { readBytes } from "./body.ts"
import { type Document, documentation } from "./documentation.ts"
import type { Endpoint } from "./Endpoint.ts"
import { failure, json } from "./envelope.ts"
import { addressFault } from "./escapes.ts"
import type { Expanders } from "./expand.ts"
import { type Failure, refusalOf } from "./failures.ts"
import { endsConnection, headFault } from "./framing.ts"
import { createLimits, type Limits } from "./limits.ts"
import { Metering } from "./Metering.ts"
import { MemberCalls, memberCalls } from "./memberCalls.ts"
import { observe } from "./observe.ts"
import type { Described } from "./openapi.ts"
import { isBrowser, missingPage } from "./page.ts"
import { type Call, createPipeline, isOpen, isWrite, requireHttps, routeMissing } from "./pipeline.ts"
import { createPublicRoutes, type PublicResponse, type PublicRoute } from "./publicRoutes.ts"
import { RequestLog } from "./RequestLog.ts"
import { createReadiness, type Readiness } from "./readiness.ts"
import { createRoutes } from "./routes.ts"
import { addressOf, environment, hostOf, isFromTrustedProxy, isSecure } from "./transport.ts"

/** The options of an app. `R`, `P`: the services that endpoints and public routes need. */
export interface ServerOptions<R, P> extends Described {
  readonly endpoints: ReadonlyArray<Endpoint<R>>
  readonly publicRoutes: ReadonlyArray<PublicRoute<P>>
  readonly expanders: Expanders
  readonly transport: Transport
  readonly rateLimits: RateLimits
  /** Limit of requests of one account and environment under way. */
  readonly inFlight: number
  /** Origin in `doc_url`, without a trailing slash. */
  readonly origin: string
  /** The key of the demo account, in development: the start page shows it. */
  readonly demoKey: string | undefined
}

/** A base for parsing: only the path and the query of a request's URL are used. */
const BASE = "http://localhost"

/**
 * Parses the target of a request: a path, or an absolute URL from a proxy. A target that starts with `/` is a path: `//sandbox/v1`
 * names no host. An invalid target becomes a path that does not exist.
 */
const urlOf = (target: string): URL =>
  (target.startsWith("/") ? URL.parse(`${BASE}${target}`) : URL.parse(target, BASE)) ??
  new URL(`${BASE}/${encodeURIComponent(target)}`)

/** Paths for machines, without a rate limit. */
const HEALTH = "/healthz"
const READINESS = "/readyz"

type Response = HttpServerResponse.HttpServerResponse

const readinessResponse = (readiness: Readiness, requestId: string): Response =>
  json(readiness.status === "ready" ? 200 : 503, JSON.stringify(readiness), requestId)

/** Serves health or a document. */
const serveDocument = Effect.fnUntraced(function* (
  document: Document,
  call: Call,
  transport: Transport,
  limits: Limits,
) {
  const { node, url, requestId } = call
  call.route = url.pathname
  if (url.pathname === HEALTH && !isWrite(node))
    return HttpServerResponse.setHeader(document(), "x-request-id", requestId)
  yield* requireHttps(node, transport)
  yield* limits.take(call, "public", addressOf(node, transport))
  if (isWrite(node)) return yield* routeMissing(call, ["GET"])
  yield* addressFault(url) ?? Effect.void
  return HttpServerResponse.setHeaders(document(), { ...call.headers, "x-request-id": requestId })
})

const publicResponse = (
  { status = 200, body, stream, contentType, fileName, isDownload = false, headers = {} }: PublicResponse,
  callHeaders: Call["headers"],
  requestId: string,
): Response => {
  const use = isDownload ? "attachment" : "inline"
  const named = fileName === undefined ? {} : { "content-disposition": `${use}; filename="${fileName}"` }
  const safe = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" }
  const all = { ...callHeaders, ...named, ...safe, ...headers, "x-request-id": requestId }
  const options = { status, contentType, headers: all }
  return stream !== undefined
    ? HttpServerResponse.stream(stream, options)
    : HttpServerResponse.uint8Array(body, options)
}

/** Names the page as the cause of what its transactions change. */
const byPage = (database: TenantDatabase["Service"]) =>
  TenantDatabase.of({
    ...database,
    writing: (tenant, work) =>
      database.writing(
        tenant,
        Effect.flatMap(unitOfWork, ({ causes }) => {
          causes.setForAll(BY_PAGE)
          return work
        }),
      ),
  })

/** Serves a page or a callback. A valid signed callback has no rate limit; one with an invalid signature counts for its address. */
const servePublic = Effect.fnUntraced(function* <R>(
  { respond, parts, allow, limited }: NonNullable<ReturnType<ReturnType<typeof createPublicRoutes<R>>>>,
  call: Call,
  transport: Transport,
  limits: Limits,
) {
  const { node, url, requestId } = call
  yield* requireHttps(node, transport)
  const address = addressOf(node, transport)
  if (limited || respond === undefined) yield* limits.take(call, "public", address)
  if (respond === undefined) return yield* routeMissing(call, allow)
  yield* addressFault(url) ?? Effect.void
  recordRequest()
  const body = readBytes(node, (bytes) => limits.buffer(call, address, bytes))
  const enter = (name: string) => limits.enter(call, name)
  const request = {
    parts,
    search: url.searchParams,
    headers: node.headers,
    body,
    upload: node,
    requestId,
    address,
    enter,
  }
  const database = yield* TenantDatabase
  const responding = limited
    ? Effect.provideService(respond(request), TenantDatabase, byPage(database))
    : respond(request)
  const response = yield* Effect.tapError(responding, (error) =>
    error._tag === "Problem" && error.code === "signature_invalid" ? limits.take(call, "public", address) : Effect.void,
  )
  return publicResponse(response, call.headers, requestId)
})

/** Makes the response to a failed request; logs an unexpected failure. */
const refuse = Effect.fnUntraced(function* (cause: Cause.Cause<Failure>, call: Call, origin: string) {
  const { node, url, requestId, route, key, headers, refused } = call
  const { refusal, unexpected } = refusalOf(cause, !isWrite(node))
  call.errorCode = refusal.code
  if (unexpected) {
    yield* Effect.annotateLogs(Effect.logError("request failed", cause), {
      request_id: requestId,
      caller_request_id: node.headers["x-request-id"],
      method: node.method,
      route,
    })
  }
  const metering = yield* Metering
  const usageHeaders = isWrite(node) && key !== undefined ? yield* metering.usageHeaders(key) : {}
  const shown = refused({ refusal, requestId, headers: node.headers, path: url.pathname })
  const response =
    shown === undefined
      ? failure(refusal, requestId, origin, { ...headers, ...usageHeaders })
      : publicResponse(shown, headers, requestId)
  // The rest of a refused body is not read, and neither are the bytes after a malformed head.
  return node.isPaused() || endsConnection(refusal)
    ? HttpServerResponse.setHeader(response, "connection", "close")
    : response
})

/** Releases a request's limits after its response is written, or its connection is closed. */
const releaseLimits = ({ ends }: Call, response: ServerResponse): void => {
  const release = () => {
    for (const end of ends.splice(0)) end()
  }
  if (response.closed) release()
  else response.once("close", release)
}

/**
 * Adds a span to each request if traces are collected. The span names the declared route, never the path or the query, which may
 * contain tokens and addresses. Only our own proxy may set the parent trace.
 */
const traced = <E, R>(call: Call, transport: Transport, responding: Effect.Effect<Response, E, R>) =>
  Effect.flatMap(Tracer.Tracer, (tracer) => {
    if (tracer === Tracer.nativeTracer) return responding
    const { node } = call
    const parent = isFromTrustedProxy(node, transport)
      ? HttpTraceContext.fromHeaders(Headers.fromInput(node.headers as Record<string, string>))
      : Option.none()
    const observed = Effect.tap(responding, ({ status }) =>
      Effect.annotateCurrentSpan({
        "http.request.method": node.method,
        "http.route": call.route ?? "none",
        "http.response.status_code": status,
      }),
    )
    return Effect.withSpan(observed, `http.server ${node.method}`, {
      kind: "server",
      ...(Option.isSome(parent) ? { parent: parent.value } : { root: true }),
    })
  })

/** Makes the app that responds to every request. */
export const createApp = Effect.fnUntraced(function* <R, P>(options: ServerOptions<R, P>) {
  const { transport, origin, endpoints, publicRoutes } = options
  const limits = createLimits(options.rateLimits, options.inFlight)
  const respond = createPipeline(options, limits)
  const documents = documentation(options, origin, options.demoKey)
  const sandboxRoutes = createRoutes(endpoints, false)
  const findPublicRoute = createPublicRoutes(publicRoutes)
  const members = yield* memberCalls(endpoints, options.expanders)
  const readiness = yield* createReadiness
  const clock = yield* DatabaseClock
  const requestLog = yield* RequestLog

  /** Returns the access of the endpoint that a browser's preflight request is about; undefined if the request is not one. */
  const preflightAccess = (call: Call) => {
    const { node, url } = call
    const place = environment(hostOf(call), url.pathname, transport)
    if (node.method !== "OPTIONS" || node.headers.origin === undefined || place === undefined) return undefined
    // Pages of other origins may call the same endpoints in both environments.
    const match = sandboxRoutes.find(node.headers["access-control-request-method"] ?? "GET", place.path)
    const access = "endpoint" in match ? match.endpoint.declaration.access : undefined
    return access === "publishable" || access === "public" ? access : undefined
  }

  /** Whether a request has no key, at a path that needs one or does not exist. */
  const lacksKey = (call: Call): boolean =>
    call.node.headers.authorization === undefined && !isOpen(environment(hostOf(call), call.url.pathname, transport))

  /** Refuses with `route_missing`, even if the path exists for callers with a key (decision A13). */
  const showNothing = Effect.fnUntraced(function* (call: Call) {
    yield* requireHttps(call.node, transport)
    yield* limits.take(call, "public", addressOf(call.node, transport))
    return yield* routeMissing(call, [])
  })

  /** Responds to a request by the first of these that matches it. */
  const dispatch = Effect.fnUntraced(function* (call: Call) {
    const { node, url, requestId } = call
    if (url.pathname === READINESS) {
      call.route = READINESS
      return isWrite(node) ? yield* routeMissing(call, ["GET"]) : readinessResponse(yield* readiness, requestId)
    }
    const access = isSecure(node, transport) ? preflightAccess(call) : undefined
    if (access !== undefined) {
      const headers = { ...preflight(access, node.headers.origin!), "x-request-id": requestId }
      return HttpServerResponse.empty({ status: 204, headers })
    }
    const document = documents.get(url.pathname)
    if (document !== undefined) return yield* serveDocument(document, call, transport, limits)
    const found = findPublicRoute(node.method ?? "", url.pathname)
    if (found !== undefined) [call.route, call.refused] = [found.route, found.refused]
    else if (isBrowser(node.headers)) {
      call.refused = missingPage
      if (lacksKey(call)) return yield* showNothing(call)
    }
    // This is the first step: a refusal because of the clock means that nothing was done (decision D10).
    yield* clock.agrees
    if (found !== undefined)
      return yield* Effect.provideService(servePublic(found, call, transport, limits), MemberCalls, members)
    const { status, body, headers } = yield* respond(call)
    return json(status, body, requestId, headers)
  })

  return Effect.gen(function* () {
    const received = yield* HttpServerRequest.HttpServerRequest
    const node = NodeHttpServerRequest.toIncomingMessage(received) as IncomingMessage
    const requestId = newId("request")
    const url = urlOf(node.url ?? "/")
    const startedAt = performance.now()
    const call: Call = {
      node,
      url,
      requestId,
      headers: {},
      ends: [],
      key: undefined,
      route: undefined,
      refused: () => undefined,
      errorCode: undefined,
    }
    const fault = headFault(node)
    const dispatching = fault === undefined ? dispatch(call) : Effect.fail(fault)
    const dispatched = Effect.provideService(dispatching, ArrivedAt, startedAt)
    // A write that has started is finished even if the caller closes the connection.
    const responding = (isWrite(node) ? Effect.uninterruptible(dispatched) : dispatched).pipe(
      Effect.catchCause((cause) => refuse(cause, call, origin)),
      Effect.onExit(() => {
        releaseLimits(call, NodeHttpServerRequest.toServerResponse(received) as ServerResponse)
        return Effect.void
      }),
    )
    const observing = Effect.tap(responding, ({ status, headers }) => {
      const { route, key, errorCode } = call
      if (key?.kind === "account")
        requestLog.add(key, {
          id: requestId,
          method: node.method ?? "",
          path: url.pathname,
          status,
          error_code: errorCode ?? null,
          is_replay: headers["idempotent-replayed"] !== undefined,
          duration_us: Math.round((performance.now() - startedAt) * 1000),
        })
      return observe(node, { requestId, startedAt, status, route, key })
    })
    return yield* traced(call, transport, observing)
  })
})
