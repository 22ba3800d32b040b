/** The pipeline of an API call: the steps of decision A6, in its order. */
import type { IncomingMessage } from "node:http"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import type { Transport } from "../config/Config.ts"
import { ACCOUNT_MOVING, livesHere, type Tenant } from "../db/tenant.ts"
import { recordRequest } from "../process/loadHint.ts"
import { Keys, type KnownKey } from "../security/key/Keys.ts"
import { allow, crossOrigin, OPEN_TO_ALL, requireVertical } from "./access.ts"
import { readJson } from "./body.ts"
import type { PublicCaller } from "./callers.ts"
import type { Declaration, Endpoint } from "./Endpoint.ts"
import { pathFault } from "./escapes.ts"
import { execute } from "./execution.ts"
import { allowExpansions, type Expanders } from "./expand.ts"
import type { Failure } from "./failures.ts"
import type { Limits } from "./limits.ts"
import { Metering } from "./Metering.ts"
import type { PublicRoute } from "./publicRoutes.ts"
import { createRoutes } from "./routes.ts"
import type { Reply } from "./runHandler.ts"
import { addressOf, environment, hostOf, isSecure } from "./transport.ts"

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
  /** The code of its refusal. */
  errorCode: string | undefined
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

/** The tenant of a call: the key's account, or the account that an administrator names in the path. */
const tenantOf = (key: KnownKey, params: Readonly<Record<string, string>>, livemode: boolean): Tenant =>
  key.kind === "account"
    ? { account_id: key.account_id, livemode: key.livemode }
    : { account_id: params.id ?? "", livemode }

/** Makes one path for all addresses of an endpoint in its environment (decision A1). */
const pathOf = (place: Place): string =>
  place === undefined ? "" : `${place.livemode ? "" : "/sandbox"}/v1${place.path}`

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
      const address = addressOf(call.node, transport)
      yield* admit(call, address, limits)
      const match = yield* findRoute(call, place, routes)
      const asker: KnownKey | PublicCaller = { kind: "public", address }
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
    yield* requireVertical(match.endpoint.declaration, tenant)
    if (!isWrite(node) && asker.kind === "account") metering.noteRead(asker)
    // Bodies of callers without a key have the same limit as the forms of pages.
    const hold = asker.kind === "public" ? (bytes: number) => limits.buffer(call, asker.address, bytes) : undefined
    const raw = isWrite(node) ? yield* readJson(node, hold) : {}
    const sentKey = node.headers["idempotency-key"]
    const reply: Reply = yield* execute(
      {
        match,
        asker,
        tenant,
        address: addressOf(node, transport),
        requestId: call.requestId,
        path: pathOf(place),
        search: url.search,
        raw,
        idempotencyKey: sentKey === undefined ? undefined : String(sentKey),
      },
      expanders,
    ).pipe(
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
