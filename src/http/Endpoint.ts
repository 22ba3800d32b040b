/**
 * An endpoint is a declaration and a handler. The declaration drives routing, access, validation, the type of the response and the
 * OpenAPI document. Nouns declare their endpoints in `<noun>/api.ts` and bind handlers in `<noun>/http.ts`.
 */
import { Effect, type Exit, type Schema } from "effect"
import type { SqlError } from "effect/sql"
import type { ProblemCode } from "../base/catalogue.ts"
import type { Json } from "../base/json.ts"
import type { Problem } from "../base/problem.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Scope } from "../security/key/scopes.ts"
import type { Right } from "../security/role/rights.ts"

export interface Caller {
  /** The administrator's name, the ID of an account's key or of a member, or the address of a caller without a key. */
  readonly name: string
  /** Whether a member of the account asks, in the dashboard. */
  readonly isMember: boolean
}

export interface Request<Body, Query> extends Tenant {
  readonly caller: Caller
  /** The `:id` of the path. */
  readonly id: string
  /** All of the path's `:name` segments. */
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly query: Query
  /** The key of the idempotency record that stores its response; null if it has no Idempotency-Key. */
  readonly recordKey: string | null
}

export interface Page<T> {
  readonly data: ReadonlyArray<T>
  readonly hasMore: boolean
  readonly limit: number
  /** Whether it was read towards newer objects: the object next to the cursor comes last. */
  readonly backwards?: boolean
  /** What the page's `meta` shows besides. */
  readonly meta?: Json
  /** Only for a page that was read backwards by ID: its newest ID, from which a caller continues to follow the list, and the table. */
  readonly liveTail?: { readonly newest: string; readonly table: string }
  /** The cursor of the page after this object; by default its ID. */
  cursorOf?(last: T): string
}

type Result<A, R> = Effect.Effect<A, Problem | SqlError.SqlError, R>

/** The result of each of several requests, in their order. */
type Each<A, R> = Result<ReadonlyArray<Exit.Exit<A, Problem | SqlError.SqlError>>, R>

/**
 * Checks of a body that its schema cannot express. They run before any transaction, in the order of the body, together with the
 * schema's checks (decision A5). The checked parameter matches the schema; the others may not.
 */
export interface Checks<Body, R> {
  readonly check?: (name: string, body: Body, tenant: Tenant) => Result<void, R> | undefined
  /** Returns the refusal of a missing parameter that other parameters require. It runs if no present parameter is wrong. */
  readonly missing?: (body: Body) => Problem | undefined
}

/** The code of an endpoint. `A`: its result; `R`: the services that it needs. */
export type Handler<Body, Query, A, R> = Checks<Body, R> & Kinds<Body, Query, A, R>

/**
 * The three kinds of handlers of one tenant's requests. Writes that arrive together share a transaction if the handler has a `lockKey`, which
 * names the object whose lock each may have to wait for: requests for another object do not wait with it. Otherwise each has its own transaction.
 */
type Kinds<Body, Query, A, R> =
  | { readonly kind: "read"; readonly run: (request: Request<Body, Query>) => Result<A, R> }
  /** Runs in one transaction, which also stores the response for replays. `before` may refuse before the transaction. */
  | {
      readonly kind: "write"
      readonly before?: (request: Request<Body, Query>) => Result<void, R>
      readonly lockKey?: (request: Request<Body, Query>) => string
      readonly run: (tenant: Tenant, requests: ReadonlyArray<Request<Body, Query>>) => Each<A, R>
    }
  /**
   * Two phases: `begin` commits the decision and returns an ID; `after` runs outside the transaction; `reply` reads the result if `after`
   * does not return it. `finish` completes the second phase after a crash.
   */
  | {
      readonly kind: "two-phase"
      readonly lockKey?: (request: Request<Body, Query>) => string
      readonly begin: (tenant: Tenant, requests: ReadonlyArray<Request<Body, Query>>) => Each<Started<A, R>, R>
      readonly finish: (tenant: Tenant, id: string) => Result<void, R>
      readonly reply: (tenant: Tenant, id: string) => Result<A, R>
    }

/** The object that the first phase made, by ID, and the second phase, which runs after the commit. */
export interface Started<A, R> {
  readonly id: string
  /** Returns the object as the first phase commits it: the response if the second phase fails (decision N4). */
  readonly made: () => A
  readonly after: Result<A | undefined, R>
}

/** Makes a handler of many requests from a function of one. */
export const each =
  <Q, A, E, R>(handle: (request: Q) => Effect.Effect<A, E, R>) =>
  (_: Tenant, requests: ReadonlyArray<Q>): Effect.Effect<ReadonlyArray<Exit.Exit<A, E>>, never, R> =>
    Effect.forEach(requests, (request) => Effect.exit(handle(request)))

export interface Declaration<
  Body = unknown,
  Query = unknown,
  Success extends Schema.Top = Schema.Top,
  List extends boolean = boolean,
> {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE"
  /** Relative to the environment's root, for example `/customers/:id`. */
  readonly path: string
  readonly summary: string
  /** Sentences about facts that the schemas cannot express: defaults, and which parameters belong together. */
  readonly notes?: string
  /**
   * Scope of restricted keys; "any": any secret or restricted key; "secret": a secret key only; "publishable": any key of
   * the account, by browsers only from the key's origins; "administrator": an administrator's key, about the account in the
   * path (decisions G7, J2, J3); "public": every caller, about the tenant of the path (decision L3).
   */
  readonly access: Scope | "any" | "secret" | "publishable" | "administrator" | "public"
  /** The right that a member needs in the dashboard, if it is not the usual one (access.ts). */
  readonly right?: Right
  /** The business type whose accounts have this endpoint; undefined: all have it (decision L1). */
  readonly vertical?: string
  readonly sandboxOnly?: boolean
  /** Whether a POST only reads: then the read level of its scope suffices. */
  readonly changesNothing?: boolean
  /** Whether it takes `dry_run` and `assume` (decision S1). */
  readonly dryRun?: boolean
  readonly body?: Schema.Codec<Body, unknown>
  /** An example of the body for the documents. */
  readonly example?: NoInfer<Body>
  readonly query?: Schema.Codec<Query, unknown>
  /** Whether it takes `metadata[key]` as a filter. */
  readonly metadataFilter?: boolean
  readonly status: 200 | 201 | 202
  /** The schema of the result, with a name and an example (response.ts). */
  readonly success: Success
  /** Whether the result is a page of such objects. */
  readonly list?: List
  /** The schema of a page's `meta`, if it is not that of all lists (src/http/openapiComponents.ts). */
  readonly meta?: "timeline_meta"
  readonly expand?: ReadonlyArray<string>
  /** Error codes in addition to those of every endpoint. */
  readonly codes?: ReadonlyArray<ProblemCode>
}

export const declare = <
  Success extends Schema.Top,
  Body = Record<never, never>,
  Query = Record<never, never>,
  const List extends boolean = false,
>(
  declaration: Declaration<Body, Query, Success, List>,
): Declaration<Body, Query, Success, List> => declaration

/** Whether `?cell=` may name the account's cell, because neither the key nor the path does (decision O2). */
export const takesCell = ({ access }: Pick<Declaration, "access">): boolean =>
  access === "administrator" || access === "public"

/** The result of the handler of a declared endpoint. */
type Returned<Success extends Schema.Top, List extends boolean> = List extends true
  ? Page<Success["Type"]>
  : Success["Type"]

/** Finds the tenant of a public path; fails with `resource_missing`. */
export type FindTenant<R> = (params: Readonly<Record<string, string>>, livemode: boolean) => Result<Tenant, R>

export interface Endpoint<R> {
  readonly declaration: Declaration
  readonly handler: Handler<unknown, unknown, Json | Page<Json>, R>
  /** Only for a public endpoint. */
  readonly whose?: FindTenant<R>
}

type AfterServices<A> = A extends { readonly after: Effect.Effect<unknown, unknown, infer R> } ? R : never

/** The services that a function's effect needs, and those that its second phase needs. */
type ServicesIn<F> = F extends (...args: never) => Effect.Effect<infer A, unknown, infer R>
  ? R | AfterServices<A> | (A extends ReadonlyArray<Exit.Exit<infer B, unknown>> ? AfterServices<B> : never)
  : never

/** The services that the functions of a handler need. */
type HandlerServices<H> = H extends unknown ? { readonly [K in keyof H]: ServicesIn<H[K]> }[keyof H] : never

/** The services that an endpoint needs. */
export type ServicesOf<E> = E extends Endpoint<infer R> ? R : never

/** Binds a handler to its declaration. Their types are checked here; the pipeline, which decodes, uses `unknown`. */
export const bind = <
  Body,
  Query,
  Success extends Schema.Top,
  List extends boolean,
  H extends Handler<Body, Query, Returned<Success, List>, unknown>,
>(
  declaration: Declaration<Body, Query, Success, List>,
  handler: H,
): Endpoint<HandlerServices<H>> => ({ declaration, handler }) as Endpoint<HandlerServices<H>>

/** Binds the handler of a public endpoint, with the function that finds its tenant. */
export const bindPublic = <
  Body,
  Query,
  Success extends Schema.Top,
  List extends boolean,
  H extends Handler<Body, Query, Returned<Success, List>, unknown>,
  R,
>(
  declaration: Declaration<Body, Query, Success, List>,
  whose: FindTenant<R>,
  handler: H,
): Endpoint<HandlerServices<H> | R> => ({ declaration, handler, whose }) as Endpoint<HandlerServices<H> | R>
