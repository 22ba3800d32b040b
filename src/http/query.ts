/** Parses query strings: plain parameters, `expand[]` and `metadata[key]`. A repeated or unknown parameter is refused. */
import { invalid, type Problem } from "../base/problem.ts"
import { type Declaration, takesCell } from "./Endpoint.ts"
import { queryParameters } from "./escapes.ts"
import { expansionFault } from "./expand.ts"

/** The parameters of a query before the first wrong one, and the fault of that one. */
export interface ParsedQuery {
  readonly expand: ReadonlyArray<string>
  readonly values: Readonly<Record<string, unknown>>
  readonly fault?: Problem
}

const METADATA = /^metadata\[(.+)\]$/s

export const parseQuery = (search: string, declaration: Declaration): ParsedQuery => {
  const expand: Array<string> = []
  const values: Record<string, unknown> = Object.create(null)
  const upTo = (fault?: Problem): ParsedQuery => ({
    expand: [...new Set(expand)],
    values: { ...values },
    ...(fault === undefined ? {} : { fault }),
  })
  for (const parameter of queryParameters(search)) {
    if ("fault" in parameter) return upTo(parameter.fault)
    const { name, value } = parameter
    if (`${name}${value}`.includes("\0"))
      return upTo(invalid(name.replaceAll("\0", ""), "A parameter contains a NUL character."))
    // For the proxy that routed the request here (decision O2).
    if (name === "cell" && takesCell(declaration)) continue
    if (name === "expand[]") {
      expand.push(value)
      const fault = expansionFault(expand, declaration)
      if (fault !== undefined) return upTo(fault)
      continue
    }
    const key = METADATA.exec(name)?.[1]
    if (key !== undefined && declaration.metadataFilter === true) {
      if (values.metadata !== undefined) return upTo(invalid(name, "A list can be filtered by one metadata key."))
      values.metadata = { [key]: value }
      continue
    }
    if (name === "metadata" && declaration.metadataFilter === true)
      return upTo(invalid(name, "A list is filtered by one key of metadata: write metadata[key]=value."))
    if (name in values) return upTo(invalid(name, `${name} is given twice.`))
    values[name] = value
  }
  return upTo()
}
