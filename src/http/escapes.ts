/** Percent escapes in addresses: each stands for bytes of UTF-8, or the address is refused (decision A12). */
import { invalid, type Problem } from "../base/problem.ts"

const HOW =
  "has a percent escape that is none, or that is no UTF-8: write each character as %XX of its UTF-8 bytes, and % as %25."

/** A part of an address with its escapes read; undefined where one cannot be. */
export const unescaped = (part: string): string | undefined => {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

/** What is wrong with the escapes of a path. */
export const pathFault = (path: string): Problem | undefined =>
  unescaped(path) === undefined ? invalid("path", `The path ${HOW}`) : undefined

/** A parameter of a query, or what is wrong with its escapes. */
export type QueryParameter = { readonly name: string; readonly value: string } | { readonly fault: Problem }

const parameterOf = (part: string): QueryParameter => {
  const end = part.indexOf("=")
  const [name, value] = (end < 0 ? [part, ""] : [part.slice(0, end), part.slice(end + 1)]).map((one) =>
    unescaped(one.replaceAll("+", " ")),
  )
  if (name === undefined) return { fault: invalid("query", `The name of a parameter in the query ${HOW}`) }
  return value === undefined ? { fault: invalid(name, `${name} ${HOW}`) } : { name, value }
}

/** The parameters of a query, which begins with `?` or is empty, in its order. */
export const queryParameters = (search: string): ReadonlyArray<QueryParameter> =>
  search
    .slice(1)
    .split("&")
    .filter((part) => part !== "")
    .map(parameterOf)

/** The first fault of an address: in its path, or else in its query. */
export const addressFault = ({ pathname, search }: URL): Problem | undefined => {
  const fault = pathFault(pathname)
  if (fault !== undefined) return fault
  const faulty = queryParameters(search).find((parameter) => "fault" in parameter)
  return faulty !== undefined && "fault" in faulty ? faulty.fault : undefined
}
