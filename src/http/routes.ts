/** Finds the endpoint of a method and a path, within one environment. */
import type { Declaration } from "./Endpoint.ts"
import { unescaped } from "./escapes.ts"

/** A route's target: anything with an endpoint's declaration. */
interface Declared {
  readonly declaration: Declaration
}

export interface Match<E> {
  readonly endpoint: E
  /** The `:name` segments of the path, with valid escapes decoded (decision A12 refuses others). */
  readonly params: Readonly<Record<string, string>>
}

export interface Routes<E> {
  /** Returns the endpoint, or the other methods of the path (empty: there is no such path). */
  readonly find: (method: string, path: string) => Match<E> | { readonly allow: ReadonlyArray<string> }
}

interface Route<E> {
  readonly segments: ReadonlyArray<string>
  readonly endpoint: E
}

/** The segments of a path after its first slash. */
const split = (path: string): ReadonlyArray<string> => path.slice(1).split("/")

/** The key of the routes that can match a path: its length and its first segment, which is literal in all routes. */
const shapeOf = (segments: ReadonlyArray<string>): string => `${segments.length} ${segments[0]}`

const PARAMETER = /:(\w+)/g

/** The names of a declared path's parameters. */
export const pathParameters = (path: string): ReadonlyArray<string> =>
  [...path.matchAll(PARAMETER)].map(([, name]) => name!)

/** Writes a declared path as the documents do: `/customers/{id}`. */
export const pathTemplate = (path: string): string => path.replaceAll(PARAMETER, "{$1}")

/** Makes the routes of the live or the sandbox environment. Literal segments win over parameters. */
export const createRoutes = <E extends Declared>(endpoints: ReadonlyArray<E>, livemode: boolean): Routes<E> => {
  const byShape = new Map<string, Array<Route<E>>>()
  for (const endpoint of endpoints) {
    if (livemode && endpoint.declaration.sandboxOnly === true) continue
    const segments = split(endpoint.declaration.path)
    const routes = byShape.get(shapeOf(segments)) ?? []
    routes.push({ segments, endpoint })
    byShape.set(shapeOf(segments), routes)
  }
  const parameters = ({ segments }: Route<E>): number => segments.filter((segment) => segment.startsWith(":")).length
  for (const routes of byShape.values()) routes.sort((a, b) => parameters(a) - parameters(b))
  return {
    find: (method, path) => {
      const segments = split(path)
      const fitting = (byShape.get(shapeOf(segments)) ?? []).filter((route) =>
        route.segments.every((segment, index) =>
          segment.startsWith(":") ? segments[index] !== "" : segment === segments[index],
        ),
      )
      const wanted = method === "HEAD" ? "GET" : method
      const route = fitting.find(({ endpoint }) => endpoint.declaration.method === wanted)
      if (route === undefined)
        return { allow: [...new Set(fitting.map(({ endpoint }) => endpoint.declaration.method))] }
      const params: Record<string, string> = {}
      for (const [at, segment] of route.segments.entries())
        if (segment.startsWith(":")) params[segment.slice(1)] = unescaped(segments[at]!) ?? segments[at]!
      return { endpoint: route.endpoint, params }
    },
  }
}
