/** `expand[]`: ID fields replaced by their objects, one query per field however long the list (spec 4.1, decision B7). */
import { Effect } from "effect"
import type { Tenant } from "../db/tenant.ts"
import type { KnownKey } from "../key/Keys.ts"
import type { Scope } from "../key/scopes.ts"
import { invalid, type Problem } from "../problem.ts"
import { requireScope } from "./access.ts"
import type { Declaration, Expander, Json } from "./Endpoint.ts"

const MOST_FIELDS = 4

/** The scope by which the object behind a field is read; test clocks are in none. */
const SCOPE_OF: ReadonlyMap<string, Scope> = new Map([
  ["customer", "customers"],
  ["plan", "plans"],
  ["subscription", "subscriptions"],
  ["latest_charge", "charges"],
])

/** Whether a key may read what is to be expanded; judged with its other scopes, before a replay could answer (decision B7). */
export const allowExpansions = (asked: ReadonlyArray<string>, key: KnownKey): Effect.Effect<void, Problem> =>
  Effect.gen(function* () {
    for (const field of asked) {
      const scope = SCOPE_OF.get(field)
      if (scope !== undefined && key.kind === "account") yield* requireScope(key, scope, "read")
    }
  })

/** The fields to expand, judged against what the endpoint offers. */
export const expansions = (
  asked: ReadonlyArray<string>,
  declaration: Declaration,
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
