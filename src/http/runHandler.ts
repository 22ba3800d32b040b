/** Runs an endpoint's handler as its tenant: chooses its transaction, stores its response for replays, counts its writes. */
import { Effect, Exit } from "effect"
import type { Json } from "../base/json.ts"
import type { Cause, Causes } from "../db/Causes.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { PIPELINED } from "../postgres/pipelining.ts"
import { type ActivityRow, activityOf, recordActivity } from "./activity.ts"
import { Batches, type StartAll } from "./batches.ts"
import type { AuthenticatedCaller } from "./callers.ts"
import { DryRun, type DryRunOptions } from "./DryRun.ts"
import type { Endpoint, Handler, Page, Request } from "./Endpoint.ts"
import { success, withMeta } from "./envelope.ts"
import { type Expanders, expandAll } from "./expand.ts"
import { type Failure, OUTCOME_UNKNOWN, orMade, refusalOf } from "./failures.ts"
import { insertRecords, type KeyedTry, type Stored } from "./idempotency.ts"
import { awaitWriters, type MayHaveGaps, mayHaveGaps, upTo, writersOf } from "./liveTail.ts"
import { Metering } from "./Metering.ts"
import { RequestLog } from "./RequestLog.ts"
import { renderPage } from "./renderPage.ts"
import { StoredResponses } from "./StoredResponses.ts"

type Headers = Readonly<Record<string, string>>

export interface Reply {
  readonly status: number
  readonly body: string
  readonly headers?: Headers
  /** Whether the work is committed but its response is not stored: a repeated request finishes it. */
  readonly isUnfinished?: boolean
}

export interface Run<R> {
  readonly endpoint: Endpoint<R>
  readonly request: Request<unknown, unknown>
  readonly asker: AuthenticatedCaller
  readonly requestId: string
  /** The caller's network address. */
  readonly address: string
  /** Undefined if it has no Idempotency-Key. */
  readonly keyed: KeyedTry | undefined
  /** The fields to expand. */
  readonly fields: ReadonlyArray<string>
  /** Undefined: a real request. */
  readonly dryRun: DryRunOptions | undefined
  readonly expanders: Expanders
}

/** A run of any endpoint. */
type AnyRun = Pick<Run<never>, "asker" | "request" | "dryRun">

type Returned = Json | Page<Json>

/** The tenant in the database. Administrators' requests are about the whole account, whose rows are with its live data. */
const tenantInDatabase = ({ asker, request: { account_id, livemode } }: AnyRun): Tenant =>
  asker.kind === "administrator" ? { account_id, livemode: true } : { account_id, livemode }

/** Renders the handler's result as a response. */
const render = Effect.fnUntraced(function* <R>(run: Run<R>, returned: Returned) {
  const { status, list } = run.endpoint.declaration
  const expand = (objects: ReadonlyArray<Json>) => expandAll(run.request, objects, run.fields, run.expanders)
  if (list === true) return { status, body: yield* renderPage(returned as Page<Json>, expand) } satisfies Reply
  return { status, body: success((yield* expand([returned as Json]))[0]!) } satisfies Reply
})

/**
 * Renders the handler's result, and for a request with a key also the response to store: with and without its expansions, since a repeated
 * request may expand less.
 */
const reply = Effect.fnUntraced(function* <R>(run: Run<R>, returned: Returned) {
  const response = yield* render(run, returned)
  if (run.keyed !== undefined) {
    const { fields } = run
    const plain = fields.length === 0 ? response : yield* render({ ...run, fields: [] }, returned)
    const expanded = fields.length === 0 ? null : { fields, body: response.body }
    const id = "id" in returned && typeof returned.id === "string" ? returned.id : null
    return { response, stored: [run.keyed, { ...plain, expanded, id }] as const }
  }
  return { response, stored: undefined }
})

/** Whether both expand the same fields, in any order. */
const isSame = (some: ReadonlyArray<string>, others: ReadonlyArray<string>): boolean =>
  some.length === others.length && some.every((field) => others.includes(field))

/**
 * Returns the stored response to a repeated request, byte for byte if it expands the same fields or none. Other expansions show the objects
 * as they are now, within the object as it was then.
 */
export const replay = Effect.fnUntraced(function* (
  tenant: Tenant,
  stored: Stored,
  fields: ReadonlyArray<string>,
  expanders: Expanders,
) {
  const { status, body, expanded } = stored
  if (fields.length === 0) return { status, body } satisfies Reply
  if (expanded !== null && isSame(expanded.fields, fields)) return { status, body: expanded.body } satisfies Reply
  const response = JSON.parse(stored.body) as { readonly data: Json | ReadonlyArray<Json> }
  const isList = Array.isArray(response.data)
  const database = yield* TenantDatabase
  const objects = yield* database.reading(
    tenant,
    expandAll(tenant, [response.data].flat() as Array<Json>, fields, expanders),
  )
  return { status, body: JSON.stringify({ ...response, data: isList ? objects : objects[0] }) }
})

/** Runs one transaction as the tenant. */
const writing = <R, A, R2>(run: Run<R>, work: Effect.Effect<A, Failure, R2>) =>
  Effect.flatMap(TenantDatabase, (database) => database.writing(tenantInDatabase(run), work))

const reading = <R, A, R2>(run: Run<R>, work: Effect.Effect<A, Failure, R2>) =>
  Effect.flatMap(TenantDatabase, (database) => database.reading(tenantInDatabase(run), work))

/** Counts live writes of one tenant; returns a function that makes the headers of each, in their order, after the commit. */
const count = Effect.fnUntraced(function* (runs: ReadonlyArray<AnyRun>) {
  const [first] = runs
  if (first === undefined || !first.request.livemode || first.asker.kind !== "account" || first.dryRun !== undefined)
    return (): ReadonlyArray<Headers> => runs.map(() => ({}))
  return yield* (yield* Metering).count(first.asker, runs.length)
})

/** Runs a read. A page after which older objects may still appear is read again after the current writers have committed. */
const runRead = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Read<R>) {
  const read = handler.run(run.request)
  const renderWhole = (returned: Returned) => Effect.map(render(run, returned), (reply): Reply | MayHaveGaps => reply)
  const first = yield* reading(
    run,
    Effect.flatMap(read, (returned) => {
      const liveTail = mayHaveGaps(returned)
      return liveTail === undefined ? renderWhole(returned) : Effect.succeed(liveTail)
    }),
  )
  if ("status" in first) return first
  yield* awaitWriters(reading(run, writersOf(first)))
  return yield* reading(
    run,
    Effect.flatMap(read, (returned) => render(run, upTo(returned as Page<Json>, first))),
  )
})

type Kind<R, K> = Extract<Handler<unknown, unknown, Returned, R>, { readonly kind: K }>
type Read<R> = Kind<R, "read">
/** A result with the function that its request calls after the commit: it returns the headers of the counted write. */
type Decided<A> = A & { readonly committed: () => Headers }

const hasId = (value: unknown): value is { readonly id: string } =>
  value instanceof Object && "id" in value && typeof value.id === "string"

const CAUSES = { account: "api", administrator: "system", member: "dashboard", public: "page" } as const

const causeOf = ({ asker, requestId }: Pick<Run<never>, "asker" | "requestId">): Cause => ({
  kind: CAUSES[asker.kind],
  request_id: requestId,
  key: asker.kind === "account" ? asker.id : null,
  member: asker.kind === "member" ? asker.id : null,
})

/** Notes who asks for the changes of a transaction: each request for those of its object, and all of them for others. */
const nameCauses = <R>(causes: Causes, runs: ReadonlyArray<Run<R>>): void => {
  const all = runs.map(causeOf)
  const [first] = all as [Cause]
  const isOneKey = all.every(({ key }) => key === first.key)
  causes.setForAll(all.length === 1 ? first : { ...first, request_id: null, key: isOneKey ? first.key : null })
  for (const [at, { request }] of runs.entries()) if (request.id !== "") causes.setFor(request.id, all[at]!)
}

/**
 * Decides requests of one tenant in the running transaction. `finish` does the rest for requests that succeed; if it fails, the whole batch
 * fails. Then these requests are counted and recorded.
 */
const decideAll = Effect.fnUntraced(function* <R, A, B, R2, R3>(
  runs: ReadonlyArray<Run<R>>,
  decide: Effect.Effect<ReadonlyArray<Exit.Exit<A, Failure>>, Failure, R2>,
  finish: (
    succeeded: ReadonlyArray<{ readonly run: Run<R>; readonly done: A }>,
  ) => Effect.Effect<ReadonlyArray<B>, Failure, R3>,
) {
  const unit = yield* unitOfWork
  const { causes } = unit
  nameCauses(causes, runs)
  const decided = yield* decide
  const succeeded = runs.flatMap((run, at) => {
    const exit = decided[at]!
    return Exit.isSuccess(exit) ? [{ run, done: exit.value }] : []
  })
  for (const { run, done } of succeeded) if (hasId(done)) causes.setFor(done.id, causeOf(run))
  const finished = yield* finish(succeeded)
  const rows = succeeded.map(({ run, done }) =>
    activityOf(run, tenantInDatabase(run), hasId(done) ? done.id : undefined),
  )
  const { addActivity } = yield* RequestLog
  // What keys did is written later, with the log of requests: no request waits for it.
  const ofKey = (row: ActivityRow | undefined) => row?.actor_kind === "key"
  recordActivity(
    unit,
    rows.filter((row) => row !== undefined && !ofKey(row)).map((row) => row!),
  )
  const headers = yield* count(succeeded.map(({ run }) => run))
  let next = 0
  return decided.map(
    Exit.map((): Decided<B> => {
      const at = next++
      return {
        ...finished[at]!,
        committed: () => {
          const row = rows[at]
          if (row !== undefined && ofKey(row)) addActivity(row)
          return headers()[at]!
        },
      }
    }),
  )
})

/**
 * Runs a request in a transaction: in a batch if the handler has a `lockKey`. A dry run is alone, and so is a member's action: a transaction
 * has one kind of cause.
 */
const inTransaction = <R, A, R2>(
  run: Run<R>,
  lockKey: ((request: Request<unknown, unknown>) => string) | undefined,
  work: StartAll<Run<R>, A, R2>,
) =>
  lockKey === undefined || run.dryRun !== undefined || run.asker.kind === "member"
    ? writing(
        run,
        Effect.flatMap(work(run.request, [run]), ([only]) => only!),
      )
    : Effect.flatMap(Batches, (batches) => batches.start(run.endpoint, run.request, lockKey(run.request), run, work))

const runWrite = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Kind<R, "write">) {
  if (handler.before !== undefined) yield* handler.before(run.request)
  const { committed, ...response } = yield* inTransaction(run, handler.lockKey, (tenant, runs: ReadonlyArray<Run<R>>) =>
    decideAll(
      runs,
      handler.run(
        tenant,
        runs.map(({ request }) => request),
      ),
      Effect.fnUntraced(function* (succeeded) {
        const replies = yield* Effect.forEach(succeeded, ({ run, done }) => reply(run, done), PIPELINED)
        insertRecords(
          yield* unitOfWork,
          tenant,
          replies.flatMap(({ stored }) => (stored === undefined ? [] : [stored])),
        )
        return replies.map(({ response }) => response)
      }),
    ),
  )
  return { ...response, headers: committed() } satisfies Reply
})

const begin = <R>(run: Run<R>, handler: Kind<R, "two-phase">) =>
  inTransaction(run, handler.lockKey, (tenant, runs: ReadonlyArray<Run<R>>) =>
    decideAll(
      runs,
      handler.begin(
        tenant,
        runs.map(({ request }) => request),
      ),
      Effect.fnUntraced(function* (succeeded) {
        // The records keep the objects of the first phase, so that another try finishes them.
        insertRecords(
          yield* unitOfWork,
          tenant,
          succeeded.flatMap(({ run: { keyed }, done: { id } }) =>
            keyed === undefined ? [] : [[keyed, { id }] as const],
          ),
        )
        return succeeded.map(({ done }) => done)
      }),
    ),
  )

/** Finishes the work that an earlier try has partly committed: a temporary failure does not mean that nothing was done. */
const finishStarted = <A, R>(work: Effect.Effect<A, Failure, R>) =>
  Effect.catchCause(work, (cause) => {
    const { refusal, unexpected } = refusalOf(cause)
    const isTemporary = refusal.status === 503 || refusal.code === "lock_timeout"
    return isTemporary && !unexpected ? Effect.fail(OUTCOME_UNKNOWN) : Effect.failCause(cause)
  })

const runTwoPhase = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Kind<R, "two-phase">) {
  const { request, keyed, fields } = run
  const respond = Effect.fnUntraced(function* (id: string, returned?: Returned) {
    const found = returned === undefined ? handler.reply(request, id) : Effect.succeed(returned)
    const replying = Effect.flatMap(found, (one) => reply(run, one))
    // An object in memory without expansions needs no query.
    const isInMemory = returned !== undefined && fields.length === 0
    const { response, stored } = yield* isInMemory ? replying : reading(run, replying)
    if (stored !== undefined) yield* (yield* StoredResponses).store(request, ...stored)
    return response satisfies Reply
  })
  if (keyed?.resourceId != null) {
    const id = keyed.resourceId
    return yield* finishStarted(Effect.andThen(handler.finish(request, id), respond(id)))
  }
  // A write that charges is counted before the charge: if it cannot be counted, no money is taken.
  const { id, made, after, committed } = yield* begin(run, handler)
  const headers = committed()
  let result: Returned | undefined
  const finished = Effect.gen(function* () {
    result = yield* after
    const response: Reply = yield* respond(id, result)
    return response
  })
  // The newest state in memory, without expansions.
  const unfinished = (): Reply => ({
    status: run.endpoint.declaration.status,
    body: success((result ?? made()) as Json),
    isUnfinished: true,
  })
  return { ...(yield* orMade(finished, unfinished)), headers }
})

const runReal = <R>(run: Run<R>) => {
  const { handler } = run.endpoint
  switch (handler.kind) {
    case "read":
      return runRead(run, handler)
    case "write":
      return runWrite(run, handler)
    case "two-phase":
      return runTwoPhase(run, handler)
  }
}

/** Runs the handler and undoes it; adds to the response what it would have created. */
const runDry = Effect.fnUntraced(function* <R>(run: Run<R>, options: DryRunOptions) {
  const { result, changes } = yield* (yield* DryRun).run(tenantInDatabase(run), options, runReal(run))
  return { ...result, body: withMeta(result.body, { dry_run: true, changes }) } satisfies Reply
})

/** Runs the handler; returns its response. */
export const runHandler = <R>(run: Run<R>) => (run.dryRun === undefined ? runReal(run) : runDry(run, run.dryRun))
