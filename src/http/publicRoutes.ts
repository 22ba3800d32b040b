/** Routes of pages and callbacks without a key: a secret address or a signature gives access. */
import type { IncomingHttpHeaders } from "node:http"
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"

export interface PublicRequest {
  /** The matches of the path's groups. */
  readonly parts: ReadonlyArray<string>
  readonly search: URLSearchParams
  readonly headers: IncomingHttpHeaders
  /** The sent bytes; read on use. */
  readonly body: Effect.Effect<Buffer, Problem>
}

export interface PublicResponse {
  /** By default 200. */
  readonly status?: number
  readonly contentType: string
  readonly body: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** The file name when a browser saves it. */
  readonly fileName?: string
}

/** A request that was refused. */
export interface Refused {
  readonly refusal: Problem
  readonly requestId: string
  readonly headers: IncomingHttpHeaders
  readonly path: string
}

type Respond<R> = (request: PublicRequest) => Effect.Effect<PublicResponse, Problem | SqlError.SqlError, R>

export interface PublicRoute<R> {
  /** Its name in logs and traces, in the reference's form, such as `/invoices/:id.pdf`. */
  readonly route: string
  readonly path: RegExp
  readonly methods: { readonly GET?: Respond<R>; readonly POST?: Respond<R> }
  /** Whether the address's rate limit applies; signed callbacks have none. */
  readonly limited: boolean
  /** Makes the page in place of a refusal's envelope; undefined: the caller is a program and gets the envelope. */
  readonly refused: (refused: Refused) => PublicResponse | undefined
}

type Options = Partial<Pick<PublicRoute<never>, "limited" | "refused">>

export const publicRoute = <R>(
  route: string,
  path: RegExp,
  methods: PublicRoute<R>["methods"],
  { limited = true, refused = () => undefined }: Options = {},
): PublicRoute<R> => ({ route, path, methods, limited, refused })

/** The services that public routes need. */
export type PublicServicesOf<P> = P extends PublicRoute<infer R> ? R : never

interface Found<R> {
  /** undefined: the path has other methods only. */
  readonly respond: Respond<R> | undefined
  readonly parts: ReadonlyArray<string>
  /** The methods of the path. */
  readonly allow: ReadonlyArray<string>
}

/** Finds the public route of a path: the first with the method, else the first; undefined if there is none. */
export const findPublicRoute = <R>(
  routes: ReadonlyArray<PublicRoute<R>>,
  method: string,
  path: string,
): (Pick<PublicRoute<R>, "route" | "limited" | "refused"> & Found<R>) | undefined => {
  const fitting = routes.flatMap(({ route, path: pattern, methods, limited, refused }) => {
    const parts = pattern.exec(path)
    const respond = method === "POST" ? methods.POST : method === "GET" || method === "HEAD" ? methods.GET : undefined
    return parts === null
      ? []
      : [{ route, respond, parts: parts.slice(1), allow: Object.keys(methods), limited, refused }]
  })
  return fitting.find(({ respond }) => respond !== undefined) ?? fitting[0]
}
