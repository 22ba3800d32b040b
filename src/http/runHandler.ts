/** Runs an endpoint's handler as its tenant: in which transaction, what is stored for replays, what is counted. */
import { Effect } from "effect"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Json } from "../json.ts"
import type { KnownKey } from "../key/Keys.ts"
import type { Endpoint, Handler, Page, Request } from "./Endpoint.ts"
import { success } from "./envelope.ts"
import { type Expanders, expandAll } from "./expand.ts"
import type { Failure } from "./failures.ts"
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

type Returned = Json | Page<Json>

/** What an administrator does is about the account as a whole, which is kept with its live data. */
const tenantInDatabase = ({ asker, request: { account_id, livemode } }: Run<never>): Tenant =>
  asker.kind === "administrator" ? { account_id, livemode: true } : { account_id, livemode }

/** What the handler returned, as the response has it. */
const render = Effect.fnUntraced(function* <R>(run: Run<R>, returned: Returned) {
  const { status, list } = run.endpoint.declaration
  const expand = (objects: ReadonlyArray<Json>) => expandAll(run.request, objects, run.fields, run.expanders)
  if (list === true) return { status, body: yield* renderPage(returned as Page<Json>, expand) } satisfies Reply
  return { status, body: success((yield* expand([returned as Json]))[0]!) } satisfies Reply
})

/**
 * Renders what was returned, and stores the response where the request is claimed: with nothing expanded, since whoever asks
 * again may read less.
 */
const reply = Effect.fnUntraced(function* <R>(run: Run<R>, work: Effect.Effect<Returned, Failure, R>) {
  const returned = yield* work
  const response = yield* render(run, returned)
  if (run.held !== undefined) {
    const plain = run.fields.length === 0 ? response : yield* render({ ...run, fields: [] }, returned)
    const id = "id" in returned && typeof returned.id === "string" ? returned.id : null
    yield* store(run.request, run.held, { ...plain, id })
  }
  return response
})

/**
 * A stored response for a key that asks again: the object as it was then, byte for byte. What this request asks to expand
 * (the first one's `expand[]` does not count) shows the objects as they are now.
 */
export const replay = Effect.fnUntraced(function* (
  tenant: Tenant,
  stored: Stored,
  fields: ReadonlyArray<string>,
  expanders: Expanders,
) {
  if (fields.length === 0) return stored satisfies Reply
  const response = JSON.parse(stored.body) as { readonly data: Json | ReadonlyArray<Json> }
  const isList = Array.isArray(response.data)
  const database = yield* TenantDatabase
  const objects = yield* database.reading(
    tenant,
    expandAll(tenant, [response.data].flat() as Array<Json>, fields, expanders),
  )
  return { ...stored, body: JSON.stringify({ ...response, data: isList ? objects : objects[0] }) }
})

/** Runs one transaction as the tenant. */
const writing = <R, A, R2>(run: Run<R>, work: Effect.Effect<A, Failure, R2>) =>
  Effect.flatMap(TenantDatabase, (database) => database.writing(tenantInDatabase(run as Run<never>), work))

const reading = <R, A, R2>(run: Run<R>, work: Effect.Effect<A, Failure, R2>) =>
  Effect.flatMap(TenantDatabase, (database) => database.reading(tenantInDatabase(run as Run<never>), work))

/** Counts a live write. */
const count = <R>({ request, asker }: Run<R>) =>
  Effect.flatMap(Metering, (metering) =>
    request.livemode && asker.kind === "account" ? metering.count(asker) : Effect.succeed<Headers>({}),
  )

type Kind<R, K> = Extract<Handler<unknown, unknown, Returned, R>, { readonly kind: K }>

const runWrite = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Kind<R, "write">) {
  if (handler.before !== undefined) yield* handler.before(run.request)
  const work = Effect.gen(function* () {
    const response = yield* reply(run, handler.run(run.request))
    // Last in its transaction, so that others who count for the account wait no longer than for the commit.
    return { ...response, headers: yield* count(run) }
  })
  return yield* writing(run, work)
})

const runStaged = Effect.fnUntraced(function* <R>(run: Run<R>, handler: Kind<R, "staged">) {
  const { request, held } = run
  const respond = (id: string) => {
    const work = reply(run, handler.reply(request, id))
    return held === undefined ? reading(run, work) : writing(run, work)
  }
  if (held?.resourceId != null) {
    yield* handler.finish(request, held.resourceId)
    return yield* respond(held.resourceId)
  }
  const begin = Effect.gen(function* () {
    const begun = yield* handler.begin(request)
    if (held !== undefined) yield* noteResource(request, held, begun.id)
    // What charges is counted before it does: a write that cannot be counted takes no money.
    return { ...begun, headers: yield* count(run) }
  })
  const { id, after, headers } = yield* writing(run, begin)
  yield* after
  return { ...(yield* respond(id)), headers }
})

/** Runs the handler; returns its response. */
export const runHandler = <R>(run: Run<R>) => {
  const { handler } = run.endpoint
  switch (handler.kind) {
    case "read":
      return reading(
        run,
        Effect.flatMap(handler.run(run.request), (returned) => render(run, returned)),
      )
    case "write":
      return runWrite(run, handler)
    case "staged":
      return runStaged(run, handler)
  }
}
