/** Executes a call of an endpoint: decodes its parameters, runs it once for each Idempotency-Key, and renders its response. */
import { createHash } from "node:crypto"
import { Cause, Effect } from "effect"
import type { SqlClient } from "effect/sql"
import type { Json } from "../base/json.ts"
import { noSuch, problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import type { ProcessLease } from "../process/ProcessLease.ts"
import type { AuthenticatedCaller } from "./callers.ts"
import type { Endpoint } from "./Endpoint.ts"
import { type Expanders, expansionFault } from "./expand.ts"
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
import { parseQuery } from "./query.ts"
import type { Match } from "./routes.ts"
import { type Reply, replay, runHandler } from "./runHandler.ts"
import { validatorsOf } from "./validation.ts"

/** A call of an endpoint. */
export interface EndpointCall<R> {
  readonly match: Match<Endpoint<R>>
  readonly asker: AuthenticatedCaller
  readonly tenant: Tenant
  /** The caller's network address. */
  readonly address: string
  readonly requestId: string
  /** One path for all addresses of the endpoint in its environment (decision A1). */
  readonly path: string
  /** The query with its question mark, as sent. */
  readonly search: string
  /** The body; an empty object for a read. */
  readonly raw: Json
  /** The header Idempotency-Key, if it was sent. */
  readonly idempotencyKey: string | undefined
}

/** The caller's name for handlers. */
const nameOf = (asker: AuthenticatedCaller): string => {
  if (asker.kind === "public") return asker.address
  return asker.kind === "administrator" ? asker.name : asker.id
}

/** Decodes the parameters of the query and of the body. */
const decode = Effect.fnUntraced(function* <R>({ match, tenant, search, raw }: EndpointCall<R>) {
  const { declaration, handler } = match.endpoint
  const judges = validatorsOf(declaration)
  const { expand: fields, values, dryRun, fault } = parseQuery(search, declaration)
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
const once = Effect.fnUntraced(function* <R, R2, R3>(
  { match, tenant, asker, path, raw, idempotencyKey }: EndpointCall<R3>,
  work: (keyed: KeyedTry | undefined) => Effect.Effect<Reply, Failure, R>,
  again: (stored: Stored) => Effect.Effect<Reply, Failure, R2>,
) {
  const { method, changesNothing = false } = match.endpoint.declaration
  const name = method === "POST" && !changesNothing ? idempotencyKey : undefined
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
    beginTry(tenant, keyOf(name, asker), request),
    (mine) => attempt(mine, TRIES),
    endTry,
  )
})

/** Executes a call; returns its response. */
export const execute = Effect.fnUntraced(function* <R>(call: EndpointCall<R>, expanders: Expanders) {
  const { match, asker, tenant, requestId, address, search, idempotencyKey } = call
  const { endpoint, params } = match
  const run = (keyed: KeyedTry | undefined) =>
    Effect.flatMap(decode(call), ({ body, query, fields, dryRun }) => {
      const caller = { name: nameOf(asker), isMember: asker.kind === "member" }
      const recordKey = keyed?.key.name ?? null
      const request = { ...tenant, caller, id: params.id ?? "", params, body, query, recordKey }
      return runHandler({ endpoint, request, asker, requestId, address, keyed, fields, dryRun, expanders })
    })
  const again = (stored: Stored) => {
    const requested = new URLSearchParams(search).getAll("expand[]")
    return Effect.andThen(
      expansionFault(requested, endpoint.declaration) ?? Effect.void,
      replay(tenant, stored, [...new Set(requested)], expanders),
    )
  }
  if (idempotencyKey !== undefined && parseQuery(search, endpoint.declaration).dryRun !== undefined)
    return yield* KEY_OF_DRY_RUN
  return yield* once(call, run, again)
})
