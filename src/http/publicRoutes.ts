/** Pages and callbacks that need no key: who may call them, their address or a signature says. */
import type { IncomingHttpHeaders } from "node:http"
import type { Effect } from "effect"
import type { SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"

export interface PublicRequest {
  /** What the path's groups matched. */
  readonly parts: ReadonlyArray<string>
  readonly search: URLSearchParams
  readonly headers: IncomingHttpHeaders
  /** As it was sent; read when it is asked for. */
  readonly body: Effect.Effect<Buffer, Problem>
}

export interface PublicResponse {
  /** 200 where nothing else is said. */
  readonly status?: number
  readonly contentType: string
  readonly body: Uint8Array
  readonly headers?: Readonly<Record<string, string>>
  /** What a browser calls it when it is saved. */
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
  /** As the reference would write it, such as `/invoices/:id.pdf`: what logs and traces call it. */
  readonly route: string
  readonly path: RegExp
  readonly methods: { readonly GET?: Respond<R>; readonly POST?: Respond<R> }
  /** Whether everybody may ask, and so not too often; what is signed comes as often as its sender has something to say. */
  readonly limited: boolean
  /** What is shown in the place of a refusal's envelope; undefined: whoever asks is a program, and gets that. */
  readonly refused: (refused: Refused) => PublicResponse | undefined
}

type Options = Partial<Pick<PublicRoute<never>, "limited" | "refused">>

export const publicRoute = <R>(
  route: string,
  path: RegExp,
  methods: PublicRoute<R>["methods"],
  { limited = true, refused = () => undefined }: Options = {},
): PublicRoute<R> => ({ route, path, methods, limited, refused })

/** The services that public routes take. */
export type PublicServicesOf<P> = P extends PublicRoute<infer R> ? R : never

interface Found<R> {
  /** undefined: the address has other methods. */
  readonly respond: Respond<R> | undefined
  readonly parts: ReadonlyArray<string>
  /** The methods that the address has. */
  readonly allow: ReadonlyArray<string>
}

/** What takes a request at an address that needs no key, if it is one: the first that has the method, else the first. */
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
