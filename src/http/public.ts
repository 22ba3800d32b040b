/** Pages that need no key: who may see them, their address or a signature in it says. */
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Problem } from "../problem.ts"
import type { App } from "./Endpoint.ts"

export interface PublicAnswer {
  readonly contentType: string
  readonly body: Uint8Array
  /** What a browser calls it when it is saved. */
  readonly fileName?: string
}

export interface PublicPage {
  readonly path: RegExp
  readonly answer: (
    parts: ReadonlyArray<string>,
    search: URLSearchParams,
  ) => Effect.Effect<PublicAnswer, Problem | SqlError.SqlError, App>
}

export const publicPage = (path: RegExp, answer: PublicPage["answer"]): PublicPage => ({ path, answer })
