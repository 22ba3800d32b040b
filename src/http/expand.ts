/** `expand[]`: ID fields replaced by their objects, one query per field however long the list (decision B7). */
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

/** How the objects behind an ID field are found, and the scope by which they are read (none: any key may). */
interface Expander {
  readonly scope: Scope | undefined
  readonly find: (
    tenant: Tenant,
    ids: ReadonlyArray<string>,
  ) => Effect.Effect<ReadonlyMap<string, Json>, SqlError.SqlError, SqlClient.SqlClient>
}

/** By the name of the field that holds an ID. */
export type Expanders = Readonly<Record<string, Expander>>

/** Whether a key may read what is to be expanded: checked with its other scopes, before a replay is returned (decision B7). */
export const allowExpansions = Effect.fnUntraced(function* (
  asked: ReadonlyArray<string>,
  key: KnownKey,
  expanders: Expanders,
) {
  for (const field of asked) {
    const scope = Object.hasOwn(expanders, field) ? expanders[field]!.scope : undefined
    if (scope !== undefined && key.kind === "account") yield* requireScope(key, scope, "read")
  }
})

/** What is wrong with the fields to expand: those that the endpoint offers can be. */
export const expansionFault = (asked: ReadonlyArray<string>, declaration: Declaration): Problem | undefined => {
  const offered = declaration.expand ?? []
  if (asked.length > 0 && offered.length === 0) return invalid("expand[]", "There is nothing to expand here.")
  if (asked.length > MAX_FIELDS) return invalid("expand[]", `At most ${MAX_FIELDS} fields can be expanded.`)
  const strange = asked.find((field) => !offered.includes(field))
  return strange === undefined
    ? undefined
    : invalid("expand[]", `expand[] must be one of ${offered.join(", ")}, not ${JSON.stringify(strange)}.`)
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
