/** Decodes percent escapes in addresses: they must be bytes of UTF-8, or the address is refused (decision A12). */
import { invalid, type Problem } from "../base/problem.ts"

const HOW =
  "has a percent escape that is not valid or not UTF-8: write each character as %XX of its UTF-8 bytes, and % as %25."

/** Decodes the escapes of a part of an address; undefined if one is wrong. */
export const unescaped = (part: string): string | undefined => {
  try {
    return decodeURIComponent(part)
  } catch {
    return undefined
  }
}

/** Returns the refusal of a path with wrong escapes. */
export const pathFault = (path: string): Problem | undefined =>
  unescaped(path) === undefined ? invalid("path", `The path ${HOW}`) : undefined

/** A parameter of a query, or the refusal of its wrong escapes. */
export type QueryParameter = { readonly name: string; readonly value: string } | { readonly fault: Problem }

const parameterOf = (part: string): QueryParameter => {
  const end = part.indexOf("=")
  const [name, value] = (end < 0 ? [part, ""] : [part.slice(0, end), part.slice(end + 1)]).map((one) =>
    unescaped(one.replaceAll("+", " ")),
  )
  if (name === undefined) return { fault: invalid("query", `The name of a parameter in the query ${HOW}`) }
  return value === undefined ? { fault: invalid(name, `${name} ${HOW}`) } : { name, value }
}

/** Splits a query, which is empty or starts with `?`, into its parameters, in their order. */
export const queryParameters = (search: string): ReadonlyArray<QueryParameter> =>
  search
    .slice(1)
    .split("&")
    .filter((part) => part !== "")
    .map(parameterOf)

/** Returns the first fault of an address: in its path, else in its query. */
export const addressFault = ({ pathname, search }: URL): Problem | undefined => {
  const fault = pathFault(pathname)
  if (fault !== undefined) return fault
  const faulty = queryParameters(search).find((parameter) => "fault" in parameter)
  return faulty !== undefined && "fault" in faulty ? faulty.fault : undefined
}
