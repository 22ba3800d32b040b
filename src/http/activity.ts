/**
 * The record of activity: who did what (decision R7). What members and administrators did is written in the transaction of the change; what keys
 * did, which is most of it, with the log of requests.
 */
import type { SqlClient } from "effect/sql"
import { kindOf, newId } from "../base/ids.ts"
import { currentTime } from "../base/wallClock.ts"
import { names, rowsAsTable } from "../db/rows.ts"
import { staysHere, type Tenant } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"
import type { AuthenticatedCaller } from "./callers.ts"
import type { Declaration } from "./Endpoint.ts"
import { nameOf } from "./response.ts"

export const ACTOR_KINDS = ["member", "key", "administrator", "command_line", "system"] as const

/** Who did something, and from which address. */
export interface Actor {
  readonly actor_kind: (typeof ACTOR_KINDS)[number]
  readonly actor_id: string | null
  /** A member's e-mail address, a key's last four characters, or an administrator's name. */
  readonly actor_name: string | null
  readonly address: string | null
  readonly request_id: string | null
}

const actorOnly = (actor_kind: Actor["actor_kind"]): Actor => ({
  actor_kind,
  actor_id: null,
  actor_name: null,
  address: null,
  request_id: null,
})

/** A command of the operator, and the service itself. */
export const COMMAND_LINE = actorOnly("command_line")
export const SYSTEM = actorOnly("system")

export interface ActivityRow extends Tenant, Actor {
  readonly id: string
  readonly at: number
  /** An object and a verb, such as `subscription.pause`. */
  readonly action: string
  readonly object_kind: string | null
  readonly object_id: string | null
}

const COLUMNS = {
  account_id: "text",
  livemode: "boolean",
  id: "text",
  at: "timestamptz",
  actor_kind: "text",
  actor_id: "text",
  actor_name: "text",
  action: "text",
  object_kind: "text",
  object_id: "text",
  address: "text",
  request_id: "text",
} as const

/** The statement that adds rows to the record. Rows of accounts that have left to another cell are not written. */
export const insertActivity = (sql: SqlClient.SqlClient, rows: ReadonlyArray<ActivityRow>) => sql`
  INSERT INTO activity (${names(COLUMNS)})
  SELECT * FROM ${rowsAsTable(rows, COLUMNS)} r WHERE ${staysHere(sql, "r")} ON CONFLICT DO NOTHING`

/** Adds rows to the record of activity, in the running transaction. */
export const recordActivity = (unit: UnitOfWork, rows: ReadonlyArray<ActivityRow>): void => {
  if (rows.length > 0) unit.add([["activity", insertActivity(unit.sql, rows)]])
}

/** Makes a row of the record. */
export const activity = (
  { account_id, livemode }: Tenant,
  actor: Actor,
  action: string,
  object: { readonly kind: string; readonly id: string } | null,
): ActivityRow => ({
  account_id,
  livemode,
  id: newId("activity"),
  at: currentTime(),
  ...actor,
  action,
  object_kind: object?.kind ?? null,
  object_id: object?.id ?? null,
})

const VERBS = { GET: "read", POST: "create", PATCH: "update", DELETE: "delete" } as const

/** The verb of a POST to an object, which is the last word of its path, such as `pause`; undefined: the path ends with what it makes. */
const ownVerb = ({ method, path }: Declaration): string | undefined =>
  method === "POST" ? /:\w+\/([a-z-]*[a-rt-z])$/.exec(path)?.[1]?.replaceAll("-", "_") : undefined

const actorOf = (asker: AuthenticatedCaller): Omit<Actor, "address" | "request_id"> | undefined => {
  switch (asker.kind) {
    case "account":
      return { actor_kind: "key", actor_id: asker.id, actor_name: asker.last4 }
    case "member":
      return { actor_kind: "member", actor_id: asker.id, actor_name: asker.email }
    case "administrator":
      return { actor_kind: "administrator", actor_id: asker.id, actor_name: asker.name }
    case "public":
      return undefined
  }
}

interface Acted {
  readonly asker: AuthenticatedCaller
  readonly request: { readonly id: string }
  readonly endpoint: { readonly declaration: Declaration }
  readonly address: string
  readonly requestId: string
  readonly dryRun: unknown
}

/** The row of a successful request; undefined for a buyer's request and for a dry run. `made`: the ID of the object that it returns. */
export const activityOf = (
  { asker, endpoint: { declaration }, request, address, requestId, dryRun }: Acted,
  tenant: Tenant,
  made: string | undefined,
): ActivityRow | undefined => {
  const actor = dryRun === undefined ? actorOf(asker) : undefined
  if (actor === undefined) return undefined
  const verb = ownVerb(declaration)
  const id = verb === undefined ? (made ?? request.id) : request.id
  const kind = kindOf(id) ?? nameOf(declaration.success)
  const action = `${kind}.${verb ?? VERBS[declaration.method]}`
  return activity(tenant, { ...actor, address, request_id: requestId }, action, id === "" ? null : { kind, id })
}
