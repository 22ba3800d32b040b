/** The request pipeline, in the order of decision A6. */

import type { IncomingMessage } from "node:http"
import { NodeHttpServerRequest } from "@effect/platform-node"
import type { PgClient } from "@effect/sql-pg"
import { Cause, Effect } from "effect"
import { HttpServerRequest, HttpServerResponse } from "effect/http"
import { SqlClient, SqlError } from "effect/sql"
import type { Transport } from "../config.ts"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { Keys, type KnownKey } from "../key/Keys.ts"
import { noSuch, type Problem, problem } from "../problem.ts"
import type { App, Declaration, Endpoint, Expander, Handler, Json, Request } from "./Endpoint.ts"
import { failure, json, listSuccess, success } from "./envelope.ts"
import { expandAll, expansions } from "./expand.ts"
import { type Claim, claim, drop, noteResource, release, type Stored, store } from "./idempotency.ts"
import { parseBody } from "./json.ts"
import { type Page as DocumentationPage, documentation } from "./pages.ts"
import { parseQuery } from "./query.ts"
import { type Match, makeRoutes } from "./routes.ts"
import { decoder } from "./validation.ts"

const LARGEST_BODY = 256 * 1024

export interface ServerOptions {
  readonly endpoints: ReadonlyArray<Endpoint>
  /** By the name of the field that holds an ID. */
  readonly expanders: Readonly<Record<string, Expander>>
  readonly transport: Transport
  /** Refuses a write where none is possible just now. */
  readonly refuseWrite: (tenant: Tenant) => Effect.Effect<void, Failure>
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

const decoders = new WeakMap<
  Declaration,
  {
    readonly body: (value: unknown) => Effect.Effect<unknown, Problem>
    readonly query: (value: unknown) => Effect.Effect<unknown, Problem>
  }
>()

/** Where nothing is taken, the first thing that is given is unknown (decision A4). */
const nothing = (value: unknown): Effect.Effect<unknown, Problem> => {
  const [name] = Object.keys(value as object)
  return name === undefined
    ? Effect.succeed({})
    : Effect.fail(problem("parameter_unknown", `There is no parameter ${name} here.`, name))
}

const decodersOf = (declaration: Declaration) => {
  let found = decoders.get(declaration)
  if (found === undefined) {
    const { body, query } = declaration
    found = {
      body: body === undefined ? nothing : decoder(body),
      query: query === undefined ? nothing : decoder(query),
    }
    decoders.set(declaration, found)
  }
  return found
}

/** Whether the request came over HTTPS, by ourselves or by a proxy that we trust (decision A2). */
const isSecure = (request: IncomingMessage, transport: Transport): boolean =>
  transport.allowInsecureHttp ||
  transport.tls !== undefined ||
  (transport.trustProxy &&
    String(request.headers["x-forwarded-proto"] ?? "")
      .split(",")[0]!
      .trim() === "https")

/** Which environment a path is in, and the rest of it (decision A1). */
const environment = (
  host: string,
  path: string,
  transport: Transport,
): { readonly livemode: boolean; readonly path: string } | undefined => {
  const name = host.replace(/:\d+$/, "").toLowerCase()
  const under = (prefix: string) =>
    path === prefix || path.startsWith(`${prefix}/`) ? path.slice(prefix.length) : undefined
  const v1 = under("/v1")
  if (v1 !== undefined && name === transport.sandboxHost) return { livemode: false, path: v1 }
  // Where live has a host of its own, `/v1` of any other is nowhere.
  if (v1 !== undefined)
    return transport.liveHost === undefined || name === transport.liveHost ? { livemode: true, path: v1 } : undefined
  const sandbox = under("/sandbox/v1")
  return sandbox === undefined ? undefined : { livemode: false, path: sandbox }
}

/** The body, as text; refused before it is read whole where it is too large. */
const readBody = (request: IncomingMessage): Effect.Effect<string, Problem> =>
  Effect.callback<string, Problem>((resume) => {
    const tooLarge = () => {
      request.pause()
      resume(Effect.fail(problem("request_too_large", "The body may hold at most 256 KiB.")))
    }
    if (Number(request.headers["content-length"] ?? 0) > LARGEST_BODY) return tooLarge()
    const chunks: Array<Buffer> = []
    let size = 0
    request.on("data", (chunk: Buffer) => {
      size += chunk.length
      if (size > LARGEST_BODY) return tooLarge()
      chunks.push(chunk)
    })
    request.on("end", () => {
      const bytes = Buffer.concat(chunks)
      const text = bytes.toString("utf8")
      resume(
        Buffer.from(text, "utf8").equals(bytes)
          ? Effect.succeed(text)
          : Effect.fail(problem("json_invalid", "The body is not valid UTF-8.")),
      )
    })
    request.on("error", () => resume(Effect.fail(problem("request_timeout", "The body did not arrive whole."))))
  })

const readJson = (request: IncomingMessage) =>
  Effect.gen(function* () {
    const type = request.headers["content-type"]
    const text = yield* readBody(request)
    if (text !== "" && !/^application\/json\s*(;|$)/i.test(type ?? "")) {
      return yield* problem("content_type_invalid", "A body needs the header Content-Type: application/json.")
    }
    return yield* parseBody(text)
  })

/** Whether the key may call the endpoint (spec 5, decisions G7, J2). */
const allow = (declaration: Declaration, key: KnownKey): Effect.Effect<void, Problem> => {
  if (key.type === "secret") return Effect.void
  const { access } = declaration
  if (key.type === "publishable" || access === "secret")
    return Effect.fail(problem("secret_key_required", "Only a secret key may call this."))
  if (access === "any") return Effect.void
  const scope = `${access}:${declaration.method === "GET" ? "read" : "write"}`
  return Effect.fail(problem("insufficient_scope", `This restricted key lacks the scope ${scope}.`))
}

/** Runs a handler that may write: the answer of a claimed request is stored with its work. */
const runWrite = (
  handler: Handler<unknown, unknown>,
  request: Request<unknown, unknown>,
  status: number,
  held: Claim | undefined,
  render: (data: Json) => Effect.Effect<Answer, Failure, App>,
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const tenant: Tenant = { account_id: request.account_id, livemode: request.livemode }
    const answer = (data: Json) =>
      Effect.gen(function* () {
        const answered = { ...(yield* render(data)), status }
        if (held !== undefined) yield* store(tenant, held, answered)
        return answered
      })
    if (handler.kind === "write") return yield* sql.withTransaction(Effect.flatMap(handler.run(request), answer))
    if (handler.kind !== "staged") throw new Error(`Not a write: ${handler.kind}`)
    if (held?.resourceId != null) {
      yield* handler.resume(tenant, held.resourceId)
      return yield* Effect.flatMap(handler.reply(tenant, held.resourceId), answer)
    }
    const { id, after } = yield* sql.withTransaction(
      Effect.gen(function* () {
        const begun = yield* handler.begin(request)
        if (held !== undefined) yield* noteResource(tenant, held, begun.id)
        return begun
      }),
    )
    yield* after
    return yield* Effect.flatMap(handler.reply(tenant, id), answer)
  })

const isStored = (found: Claim | Stored): found is Stored => "status" in found

/** Everything after the key is known: route, access, body, idempotency, parameters, the work itself. */
const answerCall = (
  options: ServerOptions,
  key: KnownKey,
  { endpoint, params }: Match,
  node: IncomingMessage,
  url: URL,
) =>
  Effect.gen(function* () {
    const { declaration, handler } = endpoint
    yield* allow(declaration, key)
    if (declaration.method !== "GET") yield* options.refuseWrite(key)
    const tenant: Tenant = { account_id: key.account_id, livemode: key.livemode }
    const decode = decodersOf(declaration)
    const raw = declaration.method === "GET" ? {} : yield* readJson(node)
    const work = (held: Claim | undefined): Effect.Effect<Answer, Failure, App> =>
      Effect.gen(function* () {
        const { expand, values } = yield* parseQuery(url.searchParams, declaration)
        const query = yield* decode.query(values)
        const fields = yield* expansions(expand, declaration, key)
        const body = yield* decode.body(raw)
        // Postgres holds no NUL, so no object has such an ID.
        const strange = Object.values(params).find((id) => id.includes("\0"))
        if (strange !== undefined) return yield* noSuch("object", strange)
        const request = {
          ...tenant,
          caller: { ...tenant, keyType: key.type },
          id: params.id ?? "",
          params,
          body,
          query,
        }
        const expanded = (data: ReadonlyArray<Json>) => expandAll(tenant, data, fields, options.expanders)
        if (handler.kind === "list") {
          const page = yield* handler.run(request)
          return { status: 200, body: listSuccess({ ...page, data: yield* expanded(page.data) }) }
        }
        const render = (data: Json) =>
          Effect.map(expanded([data]), ([shown]) => ({ status: declaration.status, body: success(shown!) }))
        if (handler.kind === "read") return yield* Effect.flatMap(handler.run(request), render)
        return yield* runWrite(handler, request, declaration.status, held, render)
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

/** The program that answers every request. */
export const makeApp = (options: ServerOptions) => {
  const routes = { live: makeRoutes(options.endpoints, true), sandbox: makeRoutes(options.endpoints, false) }
  const pages = documentation(options.endpoints, options.origin)

  const call = (node: IncomingMessage, url: URL, requestId: string) =>
    Effect.gen(function* () {
      const keys = yield* Keys
      if (!isSecure(node, options.transport)) {
        return yield* problem("https_required", "Use https: plain HTTP is refused.")
      }
      const place = environment(node.headers.host ?? "", url.pathname, options.transport)
      const key = yield* keys.authenticate(node.headers.authorization, place?.livemode)
      const match =
        place === undefined ? { allow: [] } : routes[place.livemode ? "live" : "sandbox"].find(node.method!, place.path)
      if ("allow" in match) {
        const missing = problem("route_missing", `There is no ${node.method} ${url.pathname}.`)
        return failure(
          missing,
          requestId,
          options.origin,
          match.allow.length === 0 ? {} : { allow: match.allow.join(", ") },
        )
      }
      const answered = yield* answerCall(options, key, match, node, url)
      return json(answered.status, answered.body, requestId, answered.headers)
    })

  const page = (found: DocumentationPage, requestId: string) =>
    HttpServerResponse.setHeader(found.response, "x-request-id", requestId)

  return Effect.gen(function* () {
    const node = NodeHttpServerRequest.toIncomingMessage(yield* HttpServerRequest.HttpServerRequest) as IncomingMessage
    const requestId = newId("request")
    const url = URL.canParse(node.url ?? "/", BASE) ? new URL(node.url ?? "/", BASE) : new URL(BASE)
    if (node.method === "GET" || node.method === "HEAD") {
      const found = pages.get(url.pathname)
      if (found !== undefined) return page(found, requestId)
      if (url.pathname === "/readyz") return yield* readiness(requestId)
    }
    const write = node.method !== "GET" && node.method !== "HEAD"
    const answered = call(node, url, requestId)
    // A caller that hangs up does not leave half a request: what is begun is finished.
    return yield* (write ? Effect.uninterruptible(answered) : answered).pipe(
      Effect.catchCause((cause) =>
        Effect.gen(function* () {
          const { problem: told, unexpected } = toProblem(cause)
          if (unexpected) {
            const callerRequestId = node.headers["x-request-id"]
            const about = { requestId, callerRequestId, method: node.method, path: url.pathname }
            yield* Effect.logError("request failed", about, cause)
          }
          const response = failure(told, requestId, options.origin)
          // What is left of a refused body is not read.
          return told.code === "request_too_large"
            ? HttpServerResponse.setHeader(response, "connection", "close")
            : response
        }),
      ),
    )
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
