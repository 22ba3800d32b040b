/** Query strings: plain parameters, `expand[]` and `metadata[key]`; anything twice or unknown is refused. */
import { Effect } from "effect"
import { invalid } from "../problem.ts"
import { type Declaration, takesCell } from "./Endpoint.ts"

export interface ParsedQuery {
  readonly expand: ReadonlyArray<string>
  readonly values: Readonly<Record<string, unknown>>
}

const METADATA = /^metadata\[(.+)\]$/s

export const parseQuery = Effect.fnUntraced(function* (search: URLSearchParams, declaration: Declaration) {
  const expand: Array<string> = []
  const values: Record<string, unknown> = Object.create(null)
  for (const [name, value] of search) {
    if (`${name}${value}`.includes("\0"))
      return yield* invalid(name.replaceAll("\0", ""), "A parameter holds a NUL character.")
    // For the proxy that brought it here (decision O2).
    if (name === "cell" && takesCell(declaration)) continue
    if (name === "expand[]") {
      expand.push(value)
      continue
    }
    const key = METADATA.exec(name)?.[1]
    if (key !== undefined && declaration.metadataFilter === true) {
      if (values.metadata !== undefined) return yield* invalid(name, "A list can be filtered by one metadata key.")
      values.metadata = { [key]: value }
      continue
    }
    if (name in values) return yield* invalid(name, `${name} is given twice.`)
    values[name] = value
  }
  return { expand, values: { ...values } } satisfies ParsedQuery
})
