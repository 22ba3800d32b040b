/** From a method and a path to an endpoint, within one environment. */
import type { Declaration } from "./Endpoint.ts"

/** What is routed to: anything that is declared as an endpoint. */
interface Declared {
  readonly declaration: Declaration
}

export interface Match<E> {
  readonly endpoint: E
  /** The `:name` segments of the path. */
  readonly params: Readonly<Record<string, string>>
}

export interface Routes<E> {
  /** The endpoint, or the methods that the path has instead (none: there is no such path). */
  readonly find: (method: string, path: string) => Match<E> | { readonly allow: ReadonlyArray<string> }
}

interface Route<E> {
  readonly segments: ReadonlyArray<string>
  readonly endpoint: E
}

const split = (path: string): ReadonlyArray<string> => path.split("/").slice(1)

const PARAMETER = /:(\w+)/g

/** The names of a declared path's parameters. */
export const pathParameters = (path: string): ReadonlyArray<string> =>
  [...path.matchAll(PARAMETER)].map(([, name]) => name!)

/** A declared path as documents write it: `/customers/{id}`. */
export const pathTemplate = (path: string): string => path.replaceAll(PARAMETER, "{$1}")

const decodeSegment = (segment: string): string => {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** The routes of the live or of the sandbox environment. Literal segments win over parameters. */
export const createRoutes = <E extends Declared>(endpoints: ReadonlyArray<E>, livemode: boolean): Routes<E> => {
  const byLength = new Map<number, Array<Route<E>>>()
  for (const endpoint of endpoints) {
    if (livemode && endpoint.declaration.sandboxOnly === true) continue
    const segments = split(endpoint.declaration.path)
    const routes = byLength.get(segments.length) ?? []
    routes.push({ segments, endpoint })
    byLength.set(segments.length, routes)
  }
  const parameters = ({ segments }: Route<E>): number => segments.filter((segment) => segment.startsWith(":")).length
  for (const routes of byLength.values()) routes.sort((a, b) => parameters(a) - parameters(b))
  return {
    find: (method, path) => {
      const segments = split(path)
      const fitting = (byLength.get(segments.length) ?? []).filter((route) =>
        route.segments.every((segment, index) =>
          segment.startsWith(":") ? segments[index] !== "" : segment === segments[index],
        ),
      )
      const wanted = method === "HEAD" ? "GET" : method
      const route = fitting.find(({ endpoint }) => endpoint.declaration.method === wanted)
      if (route === undefined)
        return { allow: [...new Set(fitting.map(({ endpoint }) => endpoint.declaration.method))] }
      const params = Object.fromEntries(
        route.segments.flatMap((segment, at) =>
          segment.startsWith(":") ? [[segment.slice(1), decodeSegment(segments[at]!)] as const] : [],
        ),
      )
      return { endpoint: route.endpoint, params }
    },
  }
}
