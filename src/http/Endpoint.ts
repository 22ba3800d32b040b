/**
 * What an endpoint is: one declaration drives routing, access, validation and the OpenAPI document. Nouns declare
 * theirs in `<noun>/api.ts` and bind the verbs in `<noun>/http.ts`.
 */
import type { PgClient } from "@effect/sql-pg"
import type { Effect, Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Scopes } from "../db/Scopes.ts"
import type { Tenant } from "../db/tenant.ts"
import type { Links } from "../invoice/Links.ts"
import type { Scope } from "../key/scopes.ts"
import type { Runner } from "../lifecycle/Runner.ts"
import type { Messengers } from "../messenger/layer.ts"
import type { Nudging } from "../nudge/Nudging.ts"
import type { Problem, ProblemCode } from "../problem.ts"
import type { PaymentRail } from "../rail/PaymentRail.ts"
import type { Wakeups } from "../timers/Wakeups.ts"
import type { Sender } from "../webhook/Sender.ts"
import type { Origin } from "./Origin.ts"

/** What handlers may use. */
export type App =
  | SqlClient.SqlClient
  | PgClient.PgClient
  | PaymentRail
  | Runner
  | Wakeups
  | Links
  | Scopes
  | Sender
  | Messengers
  | Nudging
  | Origin

export interface Caller {
  /** The administrator's name; of an account's key, its ID. */
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
}

export interface Page<T> {
  readonly data: ReadonlyArray<T>
  readonly hasMore: boolean
  readonly limit: number
  /** Where the next page starts; the last object's ID where nothing else is said. */
  readonly cursor?: string | null
}

export type Json = Readonly<Record<string, unknown>>
type Result<A> = Effect.Effect<A, Problem | SqlError.SqlError, App>

/** Objects that an ID field can be replaced with, by ID. */
export type Expander = (
  tenant: Tenant,
  ids: ReadonlyArray<string>,
) => Effect.Effect<ReadonlyMap<string, Json>, SqlError.SqlError, App>

export type Handler<Body, Query> =
  | { readonly kind: "read"; readonly run: (request: Request<Body, Query>) => Result<Json> }
  | { readonly kind: "list"; readonly run: (request: Request<Body, Query>) => Result<Page<Json>> }
  /**
   * Runs in one transaction, in which the answer is stored for replays too. What has to ask the network is asked `before`
   * it. Answers a page where the declaration says that it lists.
   */
  | {
      readonly kind: "write"
      readonly before?: (request: Request<Body, Query>) => Result<void>
      readonly run: (request: Request<Body, Query>) => Result<Json | Page<Json>>
    }
  /**
   * Work that has to leave the transaction in the middle: `begin` commits what is decided, names it and says what is left
   * to do; `reply` reads the answer. A try that a crash cut short in between is finished by `resume`.
   */
  | {
      readonly kind: "staged"
      readonly begin: (request: Request<Body, Query>) => Result<Begun>
      readonly resume: (tenant: Tenant, id: string) => Result<void>
      readonly reply: (tenant: Tenant, id: string) => Result<Json>
    }

/** What the first stage made, by ID, and what is to be done once it is committed. */
export interface Begun {
  readonly id: string
  readonly after: Result<void>
}

export interface Declaration<Body = unknown, Query = unknown> {
  readonly method: "GET" | "POST" | "PATCH" | "DELETE"
  /** Relative to the environment's root, such as `/customers/:id`. */
  readonly path: string
  readonly summary: string
  /**
   * Scope of restricted keys; "any": any secret or restricted key; "secret": a secret key only; "publishable": any key of
   * the account, from the key's origins by browsers; "administrator": one of ours, about the account in the path
   * (spec 5, decisions G7, J2, J3).
   */
  readonly access: Scope | "any" | "secret" | "publishable" | "administrator"
  readonly sandboxOnly?: boolean
  readonly body?: Schema.Codec<Body, unknown>
  /** A body that the documents show. */
  readonly example?: NoInfer<Body>
  readonly query?: Schema.Codec<Query, unknown>
  /** Takes `metadata[key]` as a filter. */
  readonly metadataFilter?: boolean
  readonly status: 200 | 201 | 202
  /** Name of the schema of what it answers with, in the OpenAPI document. */
  readonly answers: string
  readonly list?: boolean
  readonly expand?: ReadonlyArray<string>
  /** Codes beside those that every endpoint can answer with. */
  readonly codes?: ReadonlyArray<ProblemCode>
}

export const declare = <Body = Record<never, never>, Query = Record<never, never>>(
  declaration: Declaration<Body, Query>,
): Declaration<Body, Query> => declaration

export interface Endpoint {
  readonly declaration: Declaration
  readonly handler: Handler<unknown, unknown>
}

/** Binds a verb to its declaration. The pair agrees on its types here; the pipeline, which decodes, sees unknown. */
export const bind = <Body, Query>(declaration: Declaration<Body, Query>, handler: Handler<Body, Query>): Endpoint =>
  ({ declaration, handler }) as unknown as Endpoint
