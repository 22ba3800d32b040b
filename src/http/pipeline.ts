/** The pipeline of an API call: the steps of decision A6, in its order. */
import { createHash } from "node:crypto"
import type { IncomingMessage } from "node:http"
import { Cause, Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Json } from "../base/json.ts"
import { noSuch, type Problem, problem } from "../base/problem.ts"
import type { Transport } from "../config/Config.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { ACCOUNT_MOVING, livesHere, type Tenant } from "../db/tenant.ts"
import { recordRequest } from "../process/loadHint.ts"
import type { ProcessLease } from "../process/ProcessLease.ts"
import { Keys, type KnownKey } from "../security/key/Keys.ts"
import { allow, crossOrigin, OPEN_TO_ALL, requireVertical } from "./access.ts"
import { readJson } from "./body.ts"
import type { Declaration, Endpoint } from "./Endpoint.ts"
import { pathFault } from "./escapes.ts"
import { allowExpansions, type Expanders, expansionFault } from "./expand.ts"
import type { Failure } from "./failures.ts"
import {
  beginTry,
  endTry,
  findOther,
  IN_PROGRESS,
  isKey,
  isTaken,
  type KeyedTry,
  releaseRecord,
  type Stored,
} from "./idempotency.ts"
import type { Limits } from "./limits.ts"
import { Metering } from "./Metering.ts"
import type { PublicRoute } from "./publicRoutes.ts"
import { parseQuery } from "./query.ts"
import { createRoutes, type Match } from "./routes.ts"
import { type AuthenticatedCaller, type Reply, replay, runHandler } from "./runHandler.ts"
import { addressOf, environment, hostOf, isSecure } from "./transport.ts"
import { validatorsOf } from "./validation.ts"

/** The state of a request: the headers of its response, its key and its route, as far as they are known. */
export interface Call {
  readonly node: IncomingMessage
  readonly requestId: string
  readonly url: URL
  headers: Readonly<Record<string, string>>
  /** Functions that release its limits after its response is written. */
  readonly ends: Array<() => void>
  key: KnownKey | undefined
  /** The declared path of its route. */
  route: string | undefined
  /** Makes the page that its route shows in place of a refusal's envelope. */
  refused: PublicRoute<never>["refused"]
}

export interface PipelineOptions<E> {
  readonly endpoints: ReadonlyArray<E>
  readonly expanders: Expanders
  readonly transport: Transport
}

type Place = ReturnType<typeof environment>

const addHeaders = (call: Call, headers: Readonly<Record<string, string>>): void => {
  call.headers = { ...call.headers, ...headers }
}

/** Refuses plain HTTP (decision A2). */
export const requireHttps = (node: IncomingMessage, transport: Transport): Effect.Effect<void, Problem> =>
  isSecure(node, transport) ? Effect.void : Effect.fail(problem("https_required", "Use https: plain HTTP is refused."))

/** Fails with `missing`, or with `account_moving` if the account moved to another cell during the request, so that this cell has none of its objects. */
const missingHere = Effect.fnUntraced(function* (account: string, missing: Failure) {
  const sql = yield* SqlClient.SqlClient
  const found = yield* sql`SELECT 1 FROM account a WHERE id = ${account} AND ${livesHere(sql, "a", "id")}`
  return yield* found.length > 0 ? missing : ACCOUNT_MOVING
})

/** Whether a refusal is about a missing or wrong key. */
const isAboutKey = ({ code }: Problem): boolean => code.startsWith("key_")

/** Finds the key of a request. A missing or wrong key counts as a public request of its address (decision J6). */
const findKey = Effect.fnUntraced(function* (call: Call, place: Place, address: string, limits: Limits) {
  const keys = yield* Keys
  const found = keys.authenticate(call.node.headers.authorization, place?.livemode)
  return yield* Effect.tapError(found, (error) =>
    error._tag === "Problem" && isAboutKey(error) ? limits.take(call, "public", address) : Effect.void,
  )
})

/** Finds the key, checks its environment and its account, and applies the account's limits. */
const authenticate = Effect.fnUntraced(function* (call: Call, place: Place, transport: Transport, limits: Limits) {
  const address = addressOf(call.node, transport)
  const { key, refusal } = yield* findKey(call, place, address, limits)
  call.key = key
  const livemode = key.kind === "account" ? key.livemode : (place?.livemode ?? false)
  const isPublic = key.kind === "account" && key.type === "publishable"
  const owner = isPublic ? `${key.id} ${address}` : key.kind === "account" ? `${key.account_id} ${livemode}` : key.id
  // Every response to a valid key has the headers; of two refusals, the earlier one in decision A6 counts.
  const rate = isPublic ? "publishable" : livemode ? "live" : "sandbox"
  const limited = yield* Effect.exit(limits.take(call, rate, owner))
  if (refusal !== undefined) return yield* refusal
  yield* limited
  yield* limits.enter(call, owner)
  return { key, livemode }
})

/** Refuses a path that does not exist, or that has other methods: the `Allow` header names these (decision A7). */
export const routeMissing = (call: Call, allow: ReadonlyArray<string>): Effect.Effect<never, Problem> => {
  if (allow.length > 0) addHeaders(call, { allow: allow.join(", ") })
  return Effect.fail(problem("route_missing", `There is no ${call.node.method} ${call.url.pathname}.`))
}

/** Finds the endpoint of the method and the path; refuses a path with wrong escapes. */
const findRoute = Effect.fnUntraced(function* <E extends Endpoint<unknown>>(
  call: Call,
  place: Place,
  routes: Readonly<Record<"live" | "sandbox", ReturnType<typeof createRoutes<E>>>>,
) {
  const { node, url } = call
  yield* pathFault(url.pathname) ?? Effect.void
  const match =
    place === undefined ? { allow: [] } : routes[place.livemode ? "live" : "sandbox"].find(node.method!, place.path)
  if (!("allow" in match)) {
    call.route = match.endpoint.declaration.path
    return match
  }
  return yield* routeMissing(call, match.allow)
})

/** Applies the limits of an address to a public request. */
const admit = Effect.fnUntraced(function* (call: Call, address: string, limits: Limits) {
  addHeaders(call, OPEN_TO_ALL)
  yield* limits.take(call, "public", address)
  yield* limits.enter(call, `public ${address}`)
})

/** Checks the key's type and scopes, and the origin of the calling page. */
const authorize = Effect.fnUntraced(function* (
  call: Call,
  declaration: Declaration,
  key: KnownKey,
  expanders: Expanders,
) {
  yield* allow(declaration, key)
  yield* allowExpansions(call.url.searchParams.getAll("expand[]"), key, expanders)
  addHeaders(call, yield* crossOrigin(declaration, key, call.node.headers.origin))
})

const UNCOUNTED = { "x-service-billable": "false" }

/** Whether a path needs no key (decision A6). */
export const isOpen = (place: Place): place is NonNullable<Place> => place?.path.startsWith("/public/") ?? false

/** The caller's name for handlers. */
const nameOf = (asker: AuthenticatedCaller): string => {
  if (asker.kind === "public") return asker.address
  return asker.kind === "administrator" ? asker.name : asker.id
}

/** The tenant of a call: the key's account, or the account that an administrator names in the path. */
const tenantOf = (key: KnownKey, params: Readonly<Record<string, string>>, livemode: boolean): Tenant =>
  key.kind === "account"
    ? { account_id: key.account_id, livemode: key.livemode }
    : { account_id: params.id ?? "", livemode }

/** Decodes the parameters of the query and of the body. */
const decode = Effect.fnUntraced(function* <R>(call: Call, match: Match<Endpoint<R>>, tenant: Tenant, raw: Json) {
  const { declaration, handler } = match.endpoint
  const judges = validatorsOf(declaration)
  const { expand: fields, values, dryRun, fault } = parseQuery(call.url.search, declaration)
  const judged = judges.query(values).decoded
  // A wrong parameter before the fault is refused first. A missing one is not, since it may follow the fault.
  const query = yield* fault === undefined
    ? judged
    : Effect.andThen(
        Effect.catchIf(
          judged,
          ({ code }) => code === "parameter_missing",
          () => Effect.void,
        ),
        fault,
      )
  const { right, before, decoded } = judges.body(raw)
  if (handler.check !== undefined) for (const name of right) yield* handler.check(name, raw, tenant) ?? Effect.void
  const missing = before.length > 0 ? handler.missing?.(raw) : undefined
  if (missing !== undefined && before.includes(missing.param!)) return yield* missing
  const body = yield* decoded
  // Postgres stores no NUL character, so no object has such an ID.
  const impossible = Object.values(match.params).find((id) => id.includes("\0"))
  if (impossible !== undefined) return yield* noSuch("object", impossible)
  return { query, fields, dryRun, body }
})

/** Makes the key of a record. Callers invent keys, so the keys of public callers are kept apart by address, as accounts' are by account. */
const keyOf = (name: string, asker: AuthenticatedCaller): string =>
  asker.kind === "public" && isKey(name) ? createHash("sha256").update(`${asker.address} ${name}`).digest("hex") : name

/** Makes one path for all addresses of an endpoint in its environment (decision A1). */
const pathOf = (place: Place): string =>
  place === undefined ? "" : `${place.livemode ? "" : "/sandbox"}/v1${place.path}`

/** How often a request is tried again whose key was taken by a request that has left no record. */
const TRIES = 3

const failsWith = (cause: Cause.Cause<Failure>, test: (error: Failure) => boolean): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && test(reason.error))

const KEY_OF_DRY_RUN = problem(
  "parameter_invalid",
  "A dry run changes nothing, so it takes no Idempotency-Key: leave the header out.",
  "Idempotency-Key",
)

/** Runs `work` once for each idempotency key; a replay gets the first response, as `again` renders it. */
const once = Effect.fnUntraced(function* <R, R2>(
  node: IncomingMessage,
  { changesNothing = false }: Declaration,
  path: string,
  tenant: Tenant,
  asker: AuthenticatedCaller,
  raw: Json,
  work: (keyed: KeyedTry | undefined) => Effect.Effect<Reply, Failure, R>,
  again: (stored: Stored) => Effect.Effect<Reply, Failure, R2>,
) {
  const name = node.method === "POST" && !changesNothing ? node.headers["idempotency-key"] : undefined
  if (name === undefined) return yield* work(undefined)
  const { asService } = yield* TenantDatabase
  const release = (mine: KeyedTry) =>
    asService(tenant, releaseRecord(tenant, mine)).pipe(
      // Even if this fails, this process ends the try: a retry takes the record over, in another process after a minute.
      Effect.catchCause((cause) => Effect.logWarning("an idempotency key was not released", cause)),
    )
  const attempt = (
    mine: KeyedTry,
    triesLeft: number,
  ): Effect.Effect<Reply, Failure, R | R2 | ProcessLease | SqlClient.SqlClient> =>
    work(mine).pipe(
      Effect.tap(({ isUnfinished = false }) => (isUnfinished ? release(mine) : Effect.void)),
      Effect.catchCause((cause) => {
        const keyIsTaken = failsWith(cause, isTaken)
        // A refusal may be due to another try: what it made is in the way of this one.
        const isRefused = failsWith(cause, ({ _tag }) => _tag === "Problem")
        if (!keyIsTaken && !isRefused) return Effect.andThen(release(mine), Effect.failCause(cause))
        return Effect.flatMap(asService(tenant, findOther(tenant, mine)), (other) => {
          if (other === undefined && keyIsTaken)
            return triesLeft > 0 ? attempt(mine, triesLeft - 1) : Effect.fail(IN_PROGRESS)
          if (other === undefined) return Effect.failCause(cause)
          if (!("status" in other)) return attempt(other, triesLeft)
          return Effect.map(again(other), (reply) => ({ ...reply, headers: { "idempotent-replayed": "true" } }))
        })
      }),
    )
  const request = { method: "POST", path, body: raw }
  return yield* Effect.acquireUseRelease(
    beginTry(tenant, keyOf(String(name), asker), request),
    (mine) => attempt(mine, TRIES),
    endTry,
  )
})

export const isWrite = ({ method }: IncomingMessage): boolean => method !== "GET" && method !== "HEAD"

/** Makes the program that responds to API calls. */
export const createPipeline = <R>(
  { endpoints, expanders, transport }: PipelineOptions<Endpoint<R>>,
  limits: Limits,
) => {
  const routes = { live: createRoutes(endpoints, true), sandbox: createRoutes(endpoints, false) }

  /** Finds the endpoint, the caller and the tenant of a request. */
  const enter = Effect.fnUntraced(function* (call: Call, place: Place) {
    if (isOpen(place)) {
      const asker: AuthenticatedCaller = { kind: "public", address: addressOf(call.node, transport) }
      yield* admit(call, asker.address, limits)
      const match = yield* findRoute(call, place, routes)
      // Every endpoint under /public finds its own tenant.
      return { match, asker, tenant: yield* match.endpoint.whose!(match.params, place.livemode) }
    }
    const { key, livemode } = yield* authenticate(call, place, transport, limits)
    const match = yield* findRoute(call, place, routes)
    yield* authorize(call, match.endpoint.declaration, key, expanders)
    return { match, asker: key, tenant: tenantOf(key, match.params, livemode) }
  })

  return Effect.fnUntraced(function* (call: Call) {
    const { node, url } = call
    const metering = yield* Metering
    const place = environment(hostOf(call), url.pathname, transport)
    // A refusal before the request is counted carries this header (decision K1).
    if (isWrite(node) && !isOpen(place)) addHeaders(call, UNCOUNTED)
    yield* requireHttps(node, transport)
    const { match, asker, tenant } = yield* enter(call, place)
    // Test clocks make room for requests of other accounts only. A live request names no account, so its own account's clocks make room too.
    recordRequest(tenant.livemode || asker.kind !== "account" ? undefined : asker.account_id)
    const { endpoint, params } = match
    yield* requireVertical(endpoint.declaration, tenant)
    if (!isWrite(node) && asker.kind === "account") metering.noteRead(asker)
    // Bodies of callers without a key have the same limit as the forms of pages.
    const hold = asker.kind === "public" ? (bytes: number) => limits.buffer(call, asker.address, bytes) : undefined
    const raw = isWrite(node) ? yield* readJson(node, hold) : {}
    const run = (keyed: KeyedTry | undefined) =>
      Effect.flatMap(decode(call, match, tenant, raw), ({ body, query, fields, dryRun }) => {
        const caller = { name: nameOf(asker) }
        const recordKey = keyed?.key.name ?? null
        const request = { ...tenant, caller, id: params.id ?? "", params, body, query, recordKey }
        return runHandler({ endpoint, request, asker, requestId: call.requestId, keyed, fields, dryRun, expanders })
      })
    const again = (stored: Stored) => {
      const requested = url.searchParams.getAll("expand[]")
      return Effect.andThen(
        expansionFault(requested, endpoint.declaration) ?? Effect.void,
        replay(tenant, stored, [...new Set(requested)], expanders),
      )
    }
    const hasKey = node.headers["idempotency-key"] !== undefined
    if (hasKey && parseQuery(url.search, endpoint.declaration).dryRun !== undefined) return yield* KEY_OF_DRY_RUN
    const reply: Reply = yield* once(node, endpoint.declaration, pathOf(place), tenant, asker, raw, run, again).pipe(
      Effect.catchIf(
        (error) => asker.kind === "account" && error._tag === "Problem" && error.code === "resource_missing",
        (missing) => missingHere(tenant.account_id, missing),
      ),
    )
    const counted = isWrite(node) && reply.headers?.["x-service-billable"] === undefined
    const usageHeaders = counted && asker.kind !== "public" ? yield* metering.usageHeaders(asker) : {}
    return { ...reply, headers: { ...call.headers, ...usageHeaders, ...reply.headers } }
  })
}
