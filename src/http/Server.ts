/** The request pipeline, in the order of decision A6. */

import type { IncomingMessage } from "node:http"
import { NodeHttpServerRequest } from "@effect/platform-node"
import type { PgClient } from "@effect/sql-pg"
import { Cause, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, SqlError } from "effect/sql"
import type { RateLimits, Transport } from "../config.ts"
import { Scopes } from "../db/Scopes.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { type AccountKey, Keys, type KnownKey } from "../key/Keys.ts"
import { noSuch, type Problem, problem } from "../problem.ts"
import { allow, crossOrigin, preflight } from "./access.ts"
import { readBytes, readJson } from "./body.ts"
import type { App, Endpoint, Expander, Handler, Json, Page, Request } from "./Endpoint.ts"
import { failure, json, listSuccess, success } from "./envelope.ts"
import { allowExpansions, expandAll, expansions } from "./expand.ts"
import { type Claim, claim, drop, noteResource, release, type Stored, store } from "./idempotency.ts"
import { observe } from "./observe.ts"
import { type Page as DocumentationPage, documentation } from "./pages.ts"
import type { PublicAnswer, PublicPage } from "./public.ts"
import { parseQuery } from "./query.ts"
import { makeRateLimit } from "./rateLimit.ts"
import { type Match, makeRoutes } from "./routes.ts"
import { addressOf, environment, isSecure } from "./transport.ts"
import { decodersOf } from "./validation.ts"

type Headers = Readonly<Record<string, string>>

/** Who counts what accounts use (spec 8, decisions K1, K5). */
export interface Metering {
  /** Counts a write in the running transaction, and says so. */
  readonly count: (key: AccountKey) => Effect.Effect<Headers, SqlError.SqlError, App>
  /** What a write that does not count says of the count. */
  readonly standing: (key: KnownKey | undefined) => Effect.Effect<Headers, never, App>
  readonly noteRead: (key: AccountKey) => void
}

export interface ServerOptions {
  readonly endpoints: ReadonlyArray<Endpoint>
  readonly publicPages: ReadonlyArray<PublicPage>
  /** By the name of the field that holds an ID. */
  readonly expanders: Readonly<Record<string, Expander>>
  readonly transport: Transport
  /** Requests a second. */
  readonly rateLimits: RateLimits
  readonly metering: Metering
  /** Origin in `doc_url`, without a trailing slash. */
  readonly origin: string
}

/** Only the path and the query of a request's URL count. */
const BASE = "http://localhost"

interface Answer {
  readonly status: number
  readonly body: string
  readonly headers?: Readonly<Record<string, string>>
}

type Failure = Problem | SqlError.SqlError

/** What answers without a key. */
interface Open {
  readonly answer: Effect.Effect<PublicAnswer, Failure, App>
  readonly limited: boolean
}

/** Asked by machines, as often as they like. */
const HEALTH = "/healthz"

/** What is known of a request so far: headers that its answer carries however it ends, and whose it is. */
interface About {
  headers: Headers
  key: KnownKey | undefined
  /** The path of its route, as that is declared. */
  route: string | undefined
}

/** Runs a handler that may write: the answer of a claimed request is stored, and a live write counted, with its work. */
const runWrite = (
  handler: Handler<unknown, unknown>,
  request: Request<unknown, unknown>,
  key: KnownKey,
  { metering }: ServerOptions,
  { status, held }: { readonly status: number; readonly held: Claim | undefined },
  render: (data: Json | Page<Json>) => Effect.Effect<Answer, Failure, App>,
) =>
  Effect.gen(function* () {
    const scopes = yield* Scopes
    const tenant: Tenant = { account_id: request.account_id, livemode: request.livemode }
    const metered = tenant.livemode && key.kind === "account"
    const writing = <A>(work: Effect.Effect<A, Failure, App>) =>
      scopes.writing(scopeOf(key, tenant), (open) =>
        open ? work : Effect.fail(problem("reset_in_progress", "The sandbox is being reset: try again in a moment.")),
      )
    // Last in its transaction, so that others who count for the account wait no longer than for the commit.
    const count = metered ? metering.count(key) : Effect.succeed({})
    /** What is answered, stored where the request is claimed. */
    const answer = (made: Effect.Effect<Json | Page<Json>, Failure, App>) =>
      Effect.gen(function* () {
        const answered = { ...(yield* render(yield* made)), status }
        if (held !== undefined) yield* store(tenant, held, answered)
        return answered
      })
    if (handler.kind === "write") {
      if (handler.before !== undefined) yield* handler.before(request)
      const counted = Effect.gen(function* () {
        const answered = yield* answer(handler.run(request))
        return { ...answered, headers: yield* count }
      })
      return yield* writing(counted)
    }
    if (handler.kind !== "staged") throw new Error(`Not a write: ${handler.kind}`)
    const reply = (id: string) => {
      const answering = answer(handler.reply(tenant, id))
      return held === undefined ? scopes.reading(scopeOf(key, tenant), answering) : writing(answering)
    }
    if (held?.resourceId != null) {
      yield* handler.resume(tenant, held.resourceId)
      return yield* reply(held.resourceId)
    }
    const { id, after, headers } = yield* writing(
      Effect.gen(function* () {
        const begun = yield* handler.begin(request)
        if (held !== undefined) yield* noteResource(tenant, held, begun.id)
        // What charges is counted before it does: a write that cannot be counted takes no money.
        return { ...begun, headers: yield* count }
      }),
    )
    yield* after
    return { ...(yield* reply(id)), headers }
  })

const isStored = (found: Claim | Stored): found is Stored => "status" in found

/** Whose objects a call is about: the key's account, or the one that an administrator names in the path. */
const tenantOf = (key: KnownKey, { params }: Match, livemode: boolean): Tenant =>
  key.kind === "account"
    ? { account_id: key.account_id, livemode: key.livemode }
    : { account_id: params.id ?? "", livemode }

/** What an administrator does is about the account as a whole, which is kept with its live data. */
const scopeOf = (key: KnownKey, tenant: Tenant): Tenant =>
  key.kind === "administrator" ? { ...tenant, livemode: true } : tenant

/** Everything after the key is known: route, access, body, idempotency, parameters, the work itself. */
const answerCall = (
  options: ServerOptions,
  about: About & { readonly key: KnownKey },
  match: Match & { readonly livemode: boolean },
  node: IncomingMessage,
  url: URL,
) =>
  Effect.gen(function* () {
    const { endpoint, params } = match
    const { declaration, handler } = endpoint
    const { key } = about
    yield* allow(declaration, key)
    yield* allowExpansions(url.searchParams.getAll("expand[]"), key)
    about.headers = { ...about.headers, ...(yield* crossOrigin(declaration, key, node.headers.origin)) }
    const tenant = tenantOf(key, match, match.livemode)
    if (declaration.method === "GET" && key.kind === "account") options.metering.noteRead(key)
    const decode = decodersOf(declaration)
    const raw = declaration.method === "GET" ? {} : yield* readJson(node)
    const work = (held: Claim | undefined): Effect.Effect<Answer, Failure, App> =>
      Effect.gen(function* () {
        const { expand, values } = yield* parseQuery(url.searchParams, declaration)
        const query = yield* decode.query(values)
        const fields = yield* expansions(expand, declaration)
        const body = yield* decode.body(raw)
        // Postgres holds no NUL, so no object has such an ID.
        const strange = Object.values(params).find((id) => id.includes("\0"))
        if (strange !== undefined) return yield* noSuch("object", strange)
        const caller = { name: key.kind === "administrator" ? key.name : key.id }
        const request = { ...tenant, caller, id: params.id ?? "", params, body, query }
        const expanded = (data: ReadonlyArray<Json>) => expandAll(tenant, data, fields, options.expanders)
        const scopes = yield* Scopes
        const reading = <A>(work: Effect.Effect<A, Failure, App>) => scopes.reading(scopeOf(key, tenant), work)
        const { status, list } = declaration
        const renderPage = (page: Page<Json>) =>
          Effect.map(expanded(page.data), (data) => ({ status, body: listSuccess({ ...page, data }) }))
        const renderOne = (data: Json) => Effect.map(expanded([data]), ([shown]) => ({ status, body: success(shown!) }))
        const render = (data: Json | Page<Json>) =>
          list === true ? renderPage(data as Page<Json>) : renderOne(data as Json)
        if (handler.kind === "list") return yield* reading(Effect.flatMap(handler.run(request), render))
        if (handler.kind === "read") return yield* reading(Effect.flatMap(handler.run(request), render))
        return yield* runWrite(handler, request, key, options, { status: declaration.status, held }, render)
      })
    const name = declaration.method === "POST" ? node.headers["idempotency-key"] : undefined
    if (name === undefined) return yield* work(undefined)
    const held = yield* claim(tenant, String(name), { method: declaration.method, path: url.pathname, body: raw })
    if (isStored(held)) return { ...held, headers: { "idempotent-replayed": "true" } }
    return yield* work(held).pipe(
      Effect.tapCause(() => Effect.ignore(release(tenant, held))),
      Effect.ensuring(drop(held)),
    )
  })

/** What a failure that nobody can act on is called outside. */
const toProblem = (cause: Cause.Cause<Failure>): { readonly problem: Problem; readonly unexpected: boolean } => {
  const error = cause.reasons.find(Cause.isFailReason)?.error
  if (error?._tag === "Problem") return { problem: error, unexpected: false }
  const defect = cause.reasons.find(Cause.isDieReason)?.defect
  const sqlError = error ?? (SqlError.isSqlError(defect) ? defect : undefined)
  if (sqlError !== undefined && isUnreachable(sqlError)) {
    return {
      problem: problem("service_unavailable", "The service cannot reach its database just now."),
      unexpected: false,
    }
  }
  return { problem: problem("internal_error", "Something went wrong on our side."), unexpected: true }
}

/** SQLSTATEs of a server that is shutting down, starting up, recovering or full, and of broken connections. */
const AWAY = /^(57P0[123]|53300|08...)$/

/** Whether the database cannot be reached or used just now. */
const isUnreachable = ({ reason }: SqlError.SqlError): boolean => {
  const { code } = (reason.cause ?? {}) as { readonly code?: unknown }
  return reason._tag === "ConnectionError" || reason.isRetryable || (typeof code === "string" && AWAY.test(code))
}

const isWrite = ({ method }: IncomingMessage): boolean => method !== "GET" && method !== "HEAD"

/** The program that answers every request. */
export const makeApp = (options: ServerOptions) => {
  const { metering, rateLimits } = options
  const routes = { live: makeRoutes(options.endpoints, true), sandbox: makeRoutes(options.endpoints, false) }
  const pages = documentation(options.endpoints, options.origin)
  const limits = {
    live: makeRateLimit(rateLimits.live),
    sandbox: makeRateLimit(rateLimits.sandbox),
    public: makeRateLimit(rateLimits.public),
  }

  /** Takes the request's place in its account's rate (decision J6). */
  const limit = (about: About, kind: keyof typeof limits, name: string): Effect.Effect<void, Problem> => {
    const { allowed, headers } = limits[kind].take(name)
    about.headers = { ...about.headers, ...headers }
    return allowed
      ? Effect.void
      : Effect.fail(problem("rate_limited", `Too many requests: try again in ${headers["retry-after"]} s.`))
  }

  const call = (node: IncomingMessage, url: URL, about: About) =>
    Effect.gen(function* () {
      const keys = yield* Keys
      yield* requireHttps(node)
      const place = environment(node.headers.host ?? "", url.pathname, options.transport)
      const { key, refusal } = yield* keys.authenticate(node.headers.authorization, place?.livemode)
      about.key = key
      const livemode = key.kind === "account" ? key.livemode : (place?.livemode ?? false)
      const owner = key.kind === "account" ? key.account_id : key.id
      // The headers go with every answer to a known key; of two refusals the earlier in decision A6 counts.
      const limited = yield* Effect.exit(limit(about, livemode ? "live" : "sandbox", owner))
      if (refusal !== undefined) return yield* refusal
      yield* limited
      const match =
        place === undefined ? { allow: [] } : routes[place.livemode ? "live" : "sandbox"].find(node.method!, place.path)
      if ("allow" in match) {
        if (match.allow.length > 0) about.headers = { ...about.headers, allow: match.allow.join(", ") }
        return yield* problem("route_missing", `There is no ${node.method} ${url.pathname}.`)
      }
      const known = Object.assign(about, { key, route: match.endpoint.declaration.path })
      const answered: Answer = yield* answerCall(options, known, { ...match, livemode }, node, url)
      const counted = isWrite(node) && answered.headers?.["x-service-billable"] === undefined
      const standing = counted ? yield* metering.standing(key) : {}
      return { ...answered, headers: { ...about.headers, ...standing, ...answered.headers } }
    })

  const requireHttps = (node: IncomingMessage): Effect.Effect<void, Problem> =>
    isSecure(node, options.transport)
      ? Effect.void
      : Effect.fail(problem("https_required", "Use https: plain HTTP is refused."))

  const page = (found: DocumentationPage, node: IncomingMessage, url: URL, about: About, requestId: string) =>
    Effect.gen(function* () {
      about.route = url.pathname
      if (url.pathname === HEALTH) return HttpServerResponse.setHeader(found.response, "x-request-id", requestId)
      yield* requireHttps(node)
      yield* limit(about, "public", addressOf(node, options.transport))
      return HttpServerResponse.setHeaders(found.response, { ...about.headers, "x-request-id": requestId })
    })

  /** What answers at an address that needs no key, if it is one and takes the method. */
  const findPublic = (node: IncomingMessage, url: URL): Open | undefined => {
    for (const { path, methods, limited } of options.publicPages) {
      const parts = path.exec(url.pathname)
      const answer = isWrite(node) ? (node.method === "POST" ? methods.POST : undefined) : methods.GET
      if (parts !== null && answer !== undefined)
        return {
          answer: answer({
            parts: parts.slice(1),
            search: url.searchParams,
            headers: node.headers,
            body: readBytes(node),
          }),
          limited,
        }
    }
    return undefined
  }

  const publicAnswer = ({ answer, limited }: Open, node: IncomingMessage, about: About, requestId: string) =>
    Effect.gen(function* () {
      yield* requireHttps(node)
      if (limited) yield* limit(about, "public", addressOf(node, options.transport))
      const { body, contentType, fileName } = yield* answer
      const named = fileName === undefined ? {} : { "content-disposition": `inline; filename="${fileName}"` }
      const safe = { "cache-control": "private, no-store", "x-content-type-options": "nosniff" }
      const headers = { ...about.headers, ...named, ...safe, "x-request-id": requestId }
      return HttpServerResponse.uint8Array(body, { contentType, headers })
    })

  /** What a browser asks before a page of another origin may call. */
  const asksBefore = (node: IncomingMessage, url: URL): boolean => {
    const place = environment(node.headers.host ?? "", url.pathname, options.transport)
    if (node.method !== "OPTIONS" || node.headers.origin === undefined || place === undefined) return false
    const match = routes[place.livemode ? "live" : "sandbox"].find("GET", place.path)
    return "endpoint" in match && match.endpoint.declaration.access === "publishable"
  }

  return Effect.gen(function* () {
    const node = NodeHttpServerRequest.toIncomingMessage(yield* HttpServerRequest.HttpServerRequest) as IncomingMessage
    const requestId = newId("request")
    const url = URL.canParse(node.url ?? "/", BASE) ? new URL(node.url ?? "/", BASE) : new URL(BASE)
    const startedAt = performance.now()
    const about: About = { headers: {}, key: undefined, route: undefined }
    const found = isWrite(node) ? undefined : pages.get(url.pathname)
    if (!isWrite(node) && url.pathname === "/readyz") return yield* readiness(requestId)
    if (isSecure(node, options.transport) && asksBefore(node, url)) {
      const headers = { ...preflight(node.headers.origin!), "x-request-id": requestId }
      return HttpServerResponse.empty({ status: 204, headers })
    }
    const open = findPublic(node, url)
    const answered: Effect.Effect<HttpServerResponse.HttpServerResponse, Failure, App | Keys> =
      found !== undefined
        ? page(found, node, url, about, requestId)
        : open !== undefined
          ? publicAnswer(open, node, about, requestId)
          : Effect.map(call(node, url, about), ({ status, body, headers }) => json(status, body, requestId, headers))
    // A caller that hangs up does not leave half a request: what is begun is finished.
    const response = yield* (isWrite(node) ? Effect.uninterruptible(answered) : answered).pipe(
      Effect.catchCause((cause) =>
        Effect.gen(function* () {
          const { problem: told, unexpected } = toProblem(cause)
          if (unexpected) {
            const callerRequestId = node.headers["x-request-id"]
            const facts = {
              request_id: requestId,
              caller_request_id: callerRequestId,
              method: node.method,
              path: url.pathname,
            }
            yield* Effect.annotateLogs(Effect.logError("request failed", cause), facts)
          }
          const standing = isWrite(node) && about.key !== undefined ? yield* metering.standing(about.key) : {}
          const response = failure(told, requestId, options.origin, { ...about.headers, ...standing })
          // What is left of a refused body is not read.
          return told.code === "request_too_large"
            ? HttpServerResponse.setHeader(response, "connection", "close")
            : response
        }),
      ),
    )
    yield* observe(node, { requestId, startedAt, status: response.status, route: about.route, key: about.key })
    return response
  })
}

const readiness = (requestId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT 1 FROM schema_migration LIMIT 1`
    return json(200, JSON.stringify({ status: "ready" }), requestId)
  }).pipe(
    Effect.timeout("2 seconds"),
    Effect.catchCause(() => Effect.succeed(json(503, JSON.stringify({ status: "database unreachable" }), requestId))),
  )

export type ServerServices = App | Keys | PgClient.PgClient
