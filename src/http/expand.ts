/** `expand[]`: ID fields replaced by their objects, one query per field however long the list (spec 4.1, decision B7). */
import { Effect } from "effect"
import type { Tenant } from "../db/tenant.ts"
import type { KnownKey } from "../key/Keys.ts"
import { invalid, type Problem, problem } from "../problem.ts"
import type { Declaration, Expander, Json } from "./Endpoint.ts"

const MOST_FIELDS = 4

/** The fields to expand, judged against what the endpoint offers. */
export const expansions = (
  asked: ReadonlyArray<string>,
  declaration: Declaration,
  key: KnownKey,
): Effect.Effect<ReadonlyArray<string>, Problem> =>
  Effect.gen(function* () {
    const offered = declaration.expand ?? []
    if (asked.length > 0 && offered.length === 0) return yield* invalid("expand[]", "There is nothing to expand here.")
    if (asked.length > MOST_FIELDS) return yield* invalid("expand[]", `At most ${MOST_FIELDS} fields can be expanded.`)
    const strange = asked.find((field) => !offered.includes(field))
    if (strange !== undefined)
      return yield* invalid(
        "expand[]",
        `expand[] must be one of ${offered.join(", ")}, not ${JSON.stringify(strange)}.`,
      )
    if (asked.length > 0 && key.type === "restricted")
      return yield* problem("insufficient_scope", "This restricted key lacks the scope to read what it expands.")
    return [...new Set(asked)]
  })

export const expandAll = (
  tenant: Tenant,
  objects: ReadonlyArray<Json>,
  fields: ReadonlyArray<string>,
  expanders: Readonly<Record<string, Expander>>,
) =>
  Effect.gen(function* () {
    let shown = objects
    for (const field of fields) {
      const ids = [...new Set(objects.map((object) => object[field]).filter((id) => typeof id === "string"))]
      const found = ids.length === 0 ? new Map<string, Json>() : yield* expanders[field]!(tenant, ids)
      shown = shown.map((object) => ({ ...object, [field]: found.get(object[field] as string) ?? object[field] }))
    }
    return shown
  })
