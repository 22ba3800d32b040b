/** Runs an endpoint's handler as its tenant: in which transaction, what is stored for replays, what is counted. */
import { Effect, Exit } from "effect"
import { PIPELINED } from "../db/pipelining.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Json } from "../json.ts"
import type { KnownKey } from "../key/Keys.ts"
import type { Problem } from "../problem.ts"
import { Batches, type BeginAll } from "./batches.ts"
import type { Begun, Endpoint, Handler, Page, Request } from "./Endpoint.ts"
import { success } from "./envelope.ts"
import { type Expanders, expandAll } from "./expand.ts"
import type { Failure } from "./failures.ts"
import { type Unsettled, unsettled, untilCommitted, upTo, writersOf } from "./followed.ts"
import { type Claim, noteResource, type Stored, store } from "./idempotency.ts"
import { Metering } from "./Metering.ts"
import { renderPage } from "./renderPage.ts"

type Headers = Readonly<Record<string, string>>

export interface Reply {
  readonly status: number
  readonly body: string
  readonly headers?: Headers
}

/** Who asks: whose key it is; or anybody, from an address. */
export type Asker = KnownKey | { readonly kind: "anybody"; readonly address: string }

export interface Run<R> {
  readonly endpoint: Endpoint<R>
  readonly request: Request<unknown, unknown>
  readonly asker: Asker
  /** The claim of its idempotency key, where it has one. */
  readonly held: Claim | undefined
  /** The fields to expand. */
  readonly fields: ReadonlyArray<string>
  readonly expanders: Expanders
}

/** Of whichever endpoint. */
type AsTenant = Pick<Run<never>, "asker" | "request">

type Returned = Json | Page<Json>

/** What an administrator does is about the account as a whole, which is kept with its live data. */
const tenantInDatabase = ({ asker, request: { account_id, livemode } }: AsTenant): Tenant =>
  asker.kind === "administrator" ? { account_id, livemode: true } : { account_id, livemode }

/** What the handler returned, as the response has it. */
const render = Effect.fnUntraced(function* <R>(run: Run<R>, returned: Returned) {
  const { status, list } = run.endpoint.declaration
  const expand = (objects: ReadonlyArray<Json>) => expandAll(run.request, objects, run.fields, run.expanders)
  if (list === true) return { status, body: yield* renderPage(returned as Page<Json>, expand) } satisfies Reply
  return { status, body: success((yield* expand([returned as Json]))[0]!) } satisfies Reply
})

/**
 * Renders what was returned, and stores the response where the request is claimed: as it is, and with nothing expanded, since whoever
 * asks again may read less.
 */
const reply = Effect.fnUntraced(function* <R>(run: Run<R>, work: Effect.Effect<Returned, Failure, R>) {
  const returned = yield* work
  const response = yield* render(run, returned)
  if (run.held !== undefined) {
    const { fields } = run
    const plain = fields.length === 0 ? response : yield* render({ ...run, fields: [] }, returned)
    const expanded = fields.length === 0 ? null : { fields, body: response.body }
    const id = "id" in returned && typeof returned.id === "string" ? returned.id : null
    yield* store(run.request, run.held, { ...plain, expanded, id })
  }
  return response
})

/** Whether both ask to expand the same, in whatever order. */
const isSame = (some: ReadonlyArray<string>, others: ReadonlyArray<string>): boolean =>
  some.length === others.length && some.every((field) => others.includes(field))

/**
 * A stored response for a key that asks again, byte for byte: as it was, where it asks to expand the same, or nothing. What else it asks
 * to expand shows the objects as they are now, in the object as it was then.
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

/** Counts live writes of one tenant; for each the headers that say so, in their order. */
const count = Effect.fnUntraced(function* (runs: ReadonlyArray<AsTenant>) {
  const [first] = runs
  if (first === undefined || !first.request.livemode || first.asker.kind !== "account")
    return runs.map((): Headers => ({}))
  return yield* (yield* Metering).count(first.asker, runs.length)
})

/** What is read, as the response has it. A page whose newest objects may have older ones come in behind them is read once these are there. */
const runRead = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Read<R>) {
  const read = handler.run(run.request)
  const whole = (returned: Returned) => Effect.map(render(run, returned), (reply): Reply | Unsettled => reply)
  const first = yield* reading(
    run,
    Effect.flatMap(read, (returned) => {
      const found = unsettled(returned)
      return found === undefined ? whole(returned) : Effect.succeed(found)
    }),
  )
  if ("status" in first) return first
  yield* untilCommitted(reading(run, writersOf(first)))
  return yield* reading(
    run,
    Effect.flatMap(read, (returned) => render(run, upTo(returned as Page<Json>, first))),
  )
})

type Kind<R, K> = Extract<Handler<unknown, unknown, Returned, R>, { readonly kind: K }>
type Read<R> = Kind<R, "read">
type Write<R> = Extract<Kind<R, "write">, { readonly run: unknown }>
type Writes<R> = Extract<Kind<R, "write">, { readonly runAll: unknown }>
type Stages<R> = Extract<Kind<R, "staged">, { readonly beginAll: unknown }>
type Counted<A> = A & { readonly headers: Headers }

const runWrite = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Write<R>) {
  if (handler.before !== undefined) yield* handler.before(run.request)
  const work = Effect.gen(function* () {
    const response = yield* reply(run, handler.run(run.request))
    // Last in its transaction, so that others who count for the account wait no longer than for the commit.
    const [headers] = yield* count([run])
    return { ...response, headers: headers! }
  })
  return yield* writing(run, work)
})

/**
 * What each of several requests comes to that were run together: `finish` does what is left of those that succeeded, on whose
 * success the whole batch rests; then they are counted.
 */
const finishAll = Effect.fnUntraced(function* <R, A, B, R2>(
  runs: ReadonlyArray<Run<R>>,
  decided: ReadonlyArray<Exit.Exit<A, Problem>>,
  finish: (run: Run<R>, done: A) => Effect.Effect<B, Failure, R2>,
) {
  const succeeded = runs.flatMap((run, at) => {
    const exit = decided[at]!
    return Exit.isSuccess(exit) ? [{ run, done: exit.value }] : []
  })
  const finished = yield* Effect.forEach(succeeded, ({ run, done }) => finish(run, done), PIPELINED)
  const headers = yield* count(succeeded.map(({ run }) => run))
  let place = 0
  return decided.map(Exit.map((): Counted<B> => ({ ...finished[place]!, headers: headers[place++]! })))
})

const writeAll =
  <R>({ runAll }: Writes<R>) =>
  (tenant: Tenant, runs: ReadonlyArray<Run<R>>) =>
    Effect.flatMap(
      runAll(
        tenant,
        runs.map(({ request }) => request),
      ),
      (decided) => finishAll(runs, decided, (run, returned) => reply(run, Effect.succeed(returned))),
    )

/** Notes what a request has begun, so that another try finishes it. */
const note = <R, A extends Begun<Returned, R>>({ request, held }: Run<R>, begun: A) =>
  Effect.as(held === undefined ? Effect.void : noteResource(request, held, begun.id), begun)

const beginAll =
  <R>({ beginAll }: Stages<R>) =>
  (tenant: Tenant, runs: ReadonlyArray<Run<R>>) =>
    Effect.flatMap(
      beginAll(
        tenant,
        runs.map(({ request }) => request),
      ),
      (decided) =>
        // What charges is counted before it does: a write that cannot be counted takes no money.
        finishAll(runs, decided, note<R, Begun<Returned, R>>),
    )

/** Begins a run with those of its endpoint that come with it. */
const withOthers = <R, A, R2>(run: Run<R>, needed: string, work: BeginAll<Run<R>, A, R2>) =>
  Effect.flatMap(Batches, (batches) => batches.begin(run.endpoint, run.request, needed, run, work))

const begin = <R>(run: Run<R>, handler: Kind<R, "staged">) => {
  if ("beginAll" in handler) return withOthers(run, handler.needed(run.request), beginAll(handler))
  const work = Effect.gen(function* () {
    const begun = yield* note(run, yield* handler.begin(run.request))
    const [headers] = yield* count([run])
    return { ...begun, headers: headers! }
  })
  return writing(run, work)
}

const runStaged = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Kind<R, "staged">) {
  const { request, held, fields } = run
  const respond = (id: string, returned?: Returned) => {
    const work = reply(run, returned === undefined ? handler.reply(request, id) : Effect.succeed(returned))
    if (held !== undefined) return writing(run, work)
    // What is known already, and shows nothing else, takes no look at the database.
    return returned !== undefined && fields.length === 0 ? work : reading(run, work)
  }
  if (held?.resourceId != null) {
    yield* handler.finish(request, held.resourceId)
    return yield* respond(held.resourceId)
  }
  const { id, after, headers } = yield* begin(run, handler)
  return { ...(yield* respond(id, yield* after)), headers }
})

/** Runs the handler; returns its response. */
export const runHandler = <R>(run: Run<R>) => {
  const { handler } = run.endpoint
  switch (handler.kind) {
    case "read":
      return runRead(run, handler)
    case "write":
      return "runAll" in handler
        ? withOthers(run, handler.needed(run.request), writeAll(handler))
        : runWrite(run, handler)
    case "staged":
      return runStaged(run, handler)
  }
}
