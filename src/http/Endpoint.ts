/**
 * What an endpoint is: one declaration drives routing, access, validation, the type of what is returned, and the OpenAPI
 * document. Nouns declare theirs in `<noun>/api.ts` and bind the verbs in `<noun>/http.ts`.
 */
import { Effect, type Exit, type Schema } from "effect"
import type { SqlError } from "effect/sql"
import type { Json } from "../base/json.ts"
import type { Problem, ProblemCode } from "../base/problem.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Scope } from "../security/key/scopes.ts"

export interface Caller {
  /** The administrator's name; of an account's key, its ID; of anybody else, the address. */
  readonly name: string
}

export interface Request<Body, Query> extends Tenant {
  readonly caller: Caller
  /** The `:id` of the path. */
  readonly id: string
  /** All of the path's `:name` segments. */
  readonly params: Readonly<Record<string, string>>
  readonly body: Body
  readonly query: Query
  /** The key of the idempotency record that its response is stored in; null: it came without an Idempotency-Key. */
  readonly recordKey: string | null
}

export interface Page<T> {
  readonly data: ReadonlyArray<T>
  readonly hasMore: boolean
  readonly limit: number
  /** Whether it was read from its end: what lies next to the cursor comes last. */
  readonly backwards?: boolean
  /** Of a page that was read from its end, by ID: its newest ID, from which whoever follows the list goes on, and the table. */
  readonly liveTail?: { readonly newest: string; readonly table: string }
  /** Where the page after this object starts; its ID where nothing else is said. */
  cursorOf?(last: T): string
}

type Result<A, R> = Effect.Effect<A, Problem | SqlError.SqlError, R>

/** The result of each of several requests, in their order. */
type Each<A, R> = Result<ReadonlyArray<Exit.Exit<A, Problem | SqlError.SqlError>>, R>

/**
 * What the schema has no word for, of one parameter of the body: asked in the order of the body together with what the schema
 * says (decision A5), before any transaction. The parameter itself is as the schema wants it; of the others that is not known.
 */
export interface Checks<Body, R> {
  readonly check?: (name: string, body: Body, tenant: Tenant) => Result<void, R> | undefined
  /** What is missing because of what else the body says, with its name: asked where nothing that is there is wrong. */
  readonly missing?: (body: Body) => Problem | undefined
}

/** `A` is what is returned, `R` the services that it takes. */
export type Handler<Body, Query, A, R> = Checks<Body, R> & Kinds<Body, Query, A, R>

/**
 * What a handler does with requests of one tenant. Requests that write and arrive together share a transaction where the handler names the
 * object that each may have to wait for (`lockKey`): those that need another object do not wait with it. Otherwise each has its own.
 */
type Kinds<Body, Query, A, R> =
  | { readonly kind: "read"; readonly run: (request: Request<Body, Query>) => Result<A, R> }
  /** Runs in one transaction, in which the response is stored for replays too. `before` refuses whatever the body says. */
  | {
      readonly kind: "write"
      readonly before?: (request: Request<Body, Query>) => Result<void, R>
      readonly lockKey?: (request: Request<Body, Query>) => string
      readonly run: (tenant: Tenant, requests: ReadonlyArray<Request<Body, Query>>) => Each<A, R>
    }
  /**
   * Two phases: `begin` commits what is decided and returns an ID; `after` runs outside the transaction; `reply` reads what is returned
   * where `after` does not return it. `finish` completes the second phase after a crash.
   */
  | {
      readonly kind: "two-phase"
      readonly lockKey?: (request: Request<Body, Query>) => string
      readonly begin: (tenant: Tenant, requests: ReadonlyArray<Request<Body, Query>>) => Each<Started<A, R>, R>
      readonly finish: (tenant: Tenant, id: string) => Result<void, R>
      readonly reply: (tenant: Tenant, id: string) => Result<A, R>
    }

/** What the first phase made, by ID, and the second phase, which runs once that is committed. */
export interface Started<A, R> {
  readonly id: string
  /** What is returned where the second phase fails: the object as the first one commits it (decision N4). */
  readonly made: () => A
  readonly after: Result<A | undefined, R>
}

/** A verb of one request as one of many. */
export const each =
  <Q, A, E, R>(verb: (request: Q) => Effect.Effect<A, E, R>) =>
  (_: Tenant, requests: ReadonlyArray<Q>): Effect.Effect<ReadonlyArray<Exit.Exit<A, E>>, never, R> =>
    Effect.forEach(requests, (request) => Effect.exit(verb(request)))

export interface Declaration<
  Body = unknown,
  Query = unknown,
  Success extends Schema.Top = Schema.Top,
  List extends boolean = boolean,
> {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE"
  /** Relative to the environment's root, such as `/customers/:id`. */
  readonly path: string
  readonly summary: string
  /** What is left out means, and which parameters go with which, in sentences: what their schemas have no word for. */
  readonly notes?: string
  /**
   * Scope of restricted keys; "any": any secret or restricted key; "secret": a secret key only; "publishable": any key of
   * the account, from the key's origins by browsers; "administrator": one of ours, about the account in the path
   * (decisions G7, J2, J3); "public": anybody, about whomever the path leads to (decision L3).
   */
  readonly access: Scope | "any" | "secret" | "publishable" | "administrator" | "public"
  /** The business type whose accounts alone have it (decision L1). */
  readonly vertical?: string
  readonly sandboxOnly?: boolean
  readonly body?: Schema.Codec<Body, unknown>
  /** A body that the documents show. */
  readonly example?: NoInfer<Body>
  readonly query?: Schema.Codec<Query, unknown>
  /** Takes `metadata[key]` as a filter. */
  readonly metadataFilter?: boolean
  readonly status: 200 | 201 | 202
  /** What is returned: its schema has a name and an example (response.ts). */
  readonly success: Success
  /** Whether a page of it is returned. */
  readonly list?: List
  readonly expand?: ReadonlyArray<string>
  /** Codes beside those that every endpoint can fail with. */
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

/** Whether `?cell=` may say where the account lives: neither the caller's key nor the path does (decision O2). */
export const takesCell = ({ access }: Pick<Declaration, "access">): boolean =>
  access === "administrator" || access === "public"

/** What the handler of a declared endpoint returns. */
type Returned<Success extends Schema.Top, List extends boolean> = List extends true
  ? Page<Success["Type"]>
  : Success["Type"]

/** Whose objects a public path leads to; fails with `resource_missing`. */
export type Whose<R> = (params: Readonly<Record<string, string>>, livemode: boolean) => Result<Tenant, R>

export interface Endpoint<R> {
  readonly declaration: Declaration
  readonly handler: Handler<unknown, unknown, Json | Page<Json>, R>
  /** Of a public one. */
  readonly whose?: Whose<R>
}

type AfterServices<A> = A extends { readonly after: Effect.Effect<unknown, unknown, infer R> } ? R : never

/** The services that what a function returns takes, and so does what it leaves to do. */
type ServicesIn<F> = F extends (...args: never) => Effect.Effect<infer A, unknown, infer R>
  ? R | AfterServices<A> | (A extends ReadonlyArray<Exit.Exit<infer B, unknown>> ? AfterServices<B> : never)
  : never

/** The services that any of a handler's functions takes. */
type HandlerServices<H> = H extends unknown ? { readonly [K in keyof H]: ServicesIn<H[K]> }[keyof H] : never

/** The services that an endpoint takes. */
export type ServicesOf<E> = E extends Endpoint<infer R> ? R : never

/** Binds a verb to its declaration. The pair agrees on its types here; the pipeline, which decodes, sees unknown. */
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

/** Binds a verb that anybody may ask for, with what says whose objects it is about. */
export const bindPublic = <
  Body,
  Query,
  Success extends Schema.Top,
  List extends boolean,
  H extends Handler<Body, Query, Returned<Success, List>, unknown>,
  R,
>(
  declaration: Declaration<Body, Query, Success, List>,
  whose: Whose<R>,
  handler: H,
): Endpoint<HandlerServices<H> | R> => ({ declaration, handler, whose }) as Endpoint<HandlerServices<H> | R>
