/** Pages and callbacks that need no key: who may call them, their address or a signature says. */
import type { IncomingHttpHeaders } from "node:http"
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Problem } from "../problem.ts"
import type { App } from "./Endpoint.ts"

export interface PublicRequest {
  /** What the path's groups matched. */
  readonly parts: ReadonlyArray<string>
  readonly search: URLSearchParams
  readonly headers: IncomingHttpHeaders
  /** As it was sent; read when it is asked for. */
  readonly body: Effect.Effect<Buffer, Problem>
}

export interface PublicAnswer {
  readonly contentType: string
  readonly body: Uint8Array
  /** What a browser calls it when it is saved. */
  readonly fileName?: string
}

type Answering = (request: PublicRequest) => Effect.Effect<PublicAnswer, Problem | SqlError.SqlError, App>

export interface PublicPage {
  readonly path: RegExp
  readonly methods: { readonly GET?: Answering; readonly POST?: Answering }
  /** Whether everybody may ask, and so not too often; what is signed comes as often as its sender has something to say. */
  readonly limited: boolean
}

export const publicPage = (path: RegExp, methods: PublicPage["methods"], limited = true): PublicPage => ({
  path,
  methods,
  limited,
})
