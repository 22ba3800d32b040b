/** Routes of pages and callbacks without a key: a secret address or a signature gives access. */
import type { IncomingHttpHeaders } from "node:http"
import type { Readable } from "node:stream"
import type { Effect, Stream } from "effect"
import type { SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"

export interface PublicRequest {
  /** The matches of the path's groups. */
  readonly parts: ReadonlyArray<string>
  readonly search: URLSearchParams
  readonly headers: IncomingHttpHeaders
  /** The sent bytes; read on use. */
  readonly body: Effect.Effect<Buffer, Problem>
  /** The same bytes as a stream, for uploads that are larger than a body may be. A page reads one of the two. */
  readonly upload: Readable
  readonly requestId: string
  /** The caller's network address. */
  readonly address: string
  /** Counts the request as under way for this name until its response is written; refuses it if there are too many. */
  readonly enter: (name: string) => Effect.Effect<void, Problem>
}

export interface PublicResponse {
  /** By default 200. */
  readonly status?: number
  readonly contentType: string
  readonly body: Uint8Array
  /** Sent in place of the body, for as long as it lasts. */
  readonly stream?: Stream.Stream<Uint8Array>
  readonly headers?: Readonly<Record<string, string>>
  /** The file name when a browser saves it. */
  readonly fileName?: string
  /** Whether a browser saves it instead of showing it. */
  readonly isDownload?: boolean
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

/** The first segment of a path, which is literal in all routes. */
const firstSegment = (path: string): string => path.split("/", 2)[1] ?? ""

/**
 * Makes the look-up of public routes. It finds the route of a path: the first with the method, else the first; undefined if there is none.
 */
export const createPublicRoutes = <R>(routes: ReadonlyArray<PublicRoute<R>>) => {
  const bySegment = Map.groupBy(routes, ({ route }) => firstSegment(route))
  return (
    method: string,
    path: string,
  ): (Pick<PublicRoute<R>, "route" | "limited" | "refused"> & Found<R>) | undefined => {
    const fitting = (bySegment.get(firstSegment(path)) ?? []).flatMap(
      ({ route, path: pattern, methods, limited, refused }) => {
        const parts = pattern.exec(path)
        const respond =
          method === "POST" ? methods.POST : method === "GET" || method === "HEAD" ? methods.GET : undefined
        return parts === null
          ? []
          : [{ route, respond, parts: parts.slice(1), allow: Object.keys(methods), limited, refused }]
      },
    )
    return fitting.find(({ respond }) => respond !== undefined) ?? fitting[0]
  }
}
