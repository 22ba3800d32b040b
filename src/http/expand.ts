/** Replaces ID fields by their objects for `expand[]`, with one query per field for any length of list (decision B7). */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Json } from "../base/json.ts"
import { invalid, type Problem } from "../base/problem.ts"
import type { Tenant } from "../db/tenant.ts"
import type { KnownKey } from "../security/key/Keys.ts"
import type { Scope } from "../security/key/scopes.ts"
import { requireScope } from "./access.ts"
import type { Declaration } from "./Endpoint.ts"

const MAX_FIELDS = 4

/** Finds the objects of an ID field. `scope`: the scope that a key needs to read them; undefined: any key may. */
interface Expander {
  readonly scope: Scope | undefined
  readonly find: (
    tenant: Tenant,
    ids: ReadonlyArray<string>,
  ) => Effect.Effect<ReadonlyMap<string, Json>, SqlError.SqlError, SqlClient.SqlClient>
}

/** By the name of the ID field. */
export type Expanders = Readonly<Record<string, Expander>>

/** Checks that a key may read the requested expansions, with its other scopes and before a replay is returned (decision B7). */
export const allowExpansions = Effect.fnUntraced(function* (
  requested: ReadonlyArray<string>,
  key: KnownKey,
  expanders: Expanders,
) {
  for (const field of requested) {
    const scope = Object.hasOwn(expanders, field) ? expanders[field]!.scope : undefined
    if (scope !== undefined && key.kind === "account") yield* requireScope(key, scope, "read")
  }
})

/** Returns the refusal of fields that the endpoint cannot expand; undefined if all are offered. */
export const expansionFault = (requested: ReadonlyArray<string>, declaration: Declaration): Problem | undefined => {
  const offered = declaration.expand ?? []
  if (requested.length > 0 && offered.length === 0) return invalid("expand[]", "There is nothing to expand here.")
  if (requested.length > MAX_FIELDS) return invalid("expand[]", `At most ${MAX_FIELDS} fields can be expanded.`)
  const unsupported = requested.find((field) => !offered.includes(field))
  return unsupported === undefined
    ? undefined
    : invalid("expand[]", `expand[] must be one of ${offered.join(", ")}, not ${JSON.stringify(unsupported)}.`)
}

export const expandAll = Effect.fnUntraced(function* (
  tenant: Tenant,
  objects: ReadonlyArray<Json>,
  fields: ReadonlyArray<string>,
  expanders: Expanders,
) {
  let shown = objects
  for (const field of fields) {
    const ids = [...new Set(objects.map((object) => object[field]).filter((id) => typeof id === "string"))]
    const found = ids.length === 0 ? new Map<string, Json>() : yield* expanders[field]!.find(tenant, ids)
    shown = shown.map((object) => ({ ...object, [field]: found.get(object[field] as string) ?? object[field] }))
  }
  return shown
})
