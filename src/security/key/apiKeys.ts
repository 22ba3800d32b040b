/** Creates, rolls and revokes keys (decisions J1, J3, J5). A key is shown in full once: when it is created. */
import { Data, Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../../base/cell.ts"
import { newId } from "../../base/ids.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import type { Tenant } from "../../db/tenant.ts"
import { generateAdministratorKey, generateKey, type KeyType } from "./key.ts"
import type { Scopes } from "./scopes.ts"

export interface KeyRow extends Tenant {
  readonly id: string
  readonly type: KeyType
  readonly prefix: string
  readonly last4: string
  readonly scopes: Scopes
  readonly origins: ReadonlyArray<string>
  readonly created_at: number
  readonly last_used_at: number | null
  readonly expires_at: number | null
  readonly revoked_at: number | null
}

const statusOf = (row: KeyRow, now: number): "active" | "rolled" | "expired" | "revoked" => {
  if (row.revoked_at !== null) return "revoked"
  if (row.expires_at === null) return "active"
  return row.expires_at > now ? "rolled" : "expired"
}

export const renderKey = (row: KeyRow) => ({
  id: row.id,
  type: row.type,
  mode: row.livemode ? "live" : "test",
  prefix: row.prefix,
  last4: row.last4,
  scopes: row.scopes,
  origins: row.origins,
  status: statusOf(row, currentTime()),
  created_at: formatInstant(row.created_at),
  last_used_at: formatInstantOrNull(row.last_used_at),
  expires_at: formatInstantOrNull(row.expires_at),
})

/** Creates a key and returns it in full, for the only time. */
export const createKey = Effect.fn("key.create")(function* (
  tenant: Tenant,
  type: KeyType,
  allowed: { readonly scopes?: Scopes; readonly origins?: ReadonlyArray<string> } = {},
) {
  const sql = yield* SqlClient.SqlClient
  const cell = yield* Cell
  const { key, hash, prefix, last4 } = generateKey(type, tenant.livemode, cell)
  const id = newId("key")
  yield* sql`
    INSERT INTO api_key (account_id, livemode, id, type, hash, prefix, last4, cell, scopes, origins, created_at)
    VALUES (${tenant.account_id}, ${tenant.livemode}, ${id}, ${type}, ${hash}, ${prefix}, ${last4}, ${cell},
      ${JSON.stringify(allowed.scopes ?? {})}::text::jsonb, ${allowed.origins ?? []}::text[], ${new Date(currentTime())})`
  return { id, key: Redacted.value(key) }
})

export const listKeys = Effect.fn("key.list")(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<KeyRow>`SELECT * FROM api_key WHERE account_id = ${account} ORDER BY id`
})

const lockKey = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`SELECT * FROM api_key WHERE id = ${id} FOR UPDATE`
  return row
})

/** How long a rolled key still works. */
export const GRACES_MS = { "0": 0, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 } as const
export type Grace = keyof typeof GRACES_MS

/** A key that is in the wrong state for a command: for example, an expired key cannot be rolled. */
export class KeyUnusable extends Data.TaggedError("KeyUnusable")<{ readonly message: string }> {}

/** Creates a key that replaces another. The old key works until the grace period ends; with "0" it stops immediately. Undefined: no such key. */
export const rollKey = Effect.fn("key.roll")(function* (id: string, grace: Grace) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const old = yield* lockKey(id)
      if (old === undefined) return undefined
      const status = statusOf(old, currentTime())
      if (status !== "active")
        return yield* new KeyUnusable({ message: `The key ${id} is ${status}: only an active key can be rolled.` })
      const [account] = yield* sql<{
        live_access: string
      }>`SELECT live_access FROM account WHERE id = ${old.account_id}`
      if (old.livemode && account!.live_access !== "approved")
        return yield* new KeyUnusable({
          message: `Live access is ${account!.live_access}: live keys are made only while it is approved.`,
        })
      const ends = new Date(currentTime() + GRACES_MS[grace])
      const made = yield* createKey(old, old.type, { scopes: old.scopes, origins: old.origins })
      yield* grace === "0"
        ? sql`UPDATE api_key SET revoked_at = ${ends} WHERE id = ${id}`
        : sql`UPDATE api_key SET expires_at = ${ends} WHERE id = ${id}`
      return { ...made, previous_expires_at: formatInstant(ends.getTime()) }
    }),
  )
})

/** Stops a key immediately, in every process. Undefined: no such key. */
export const revokeKey = Effect.fn("key.revoke")(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`
    UPDATE api_key SET revoked_at = coalesce(revoked_at, ${new Date(currentTime())}) WHERE id = ${id} RETURNING *`
  return row === undefined ? undefined : { id, status: statusOf(row, currentTime()) }
})

export interface AdministratorRow {
  readonly id: string
  readonly name: string
  readonly last4: string
  readonly last_used_at: number | null
  readonly revoked_at: number | null
}

export const renderAdministrator = ({ id, name, last4, last_used_at, revoked_at }: AdministratorRow) => ({
  id,
  name,
  last4,
  status: revoked_at === null ? "active" : "revoked",
  last_used_at: formatInstantOrNull(last_used_at),
})

/** Creates a key for one of the service's own administrators (decision J3). */
export const createAdministrator = Effect.fn("administrator.create")(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const { key, hash, last4 } = generateAdministratorKey(yield* Cell)
  const id = newId("key")
  yield* sql`INSERT INTO administrator_key ${sql.insert({ id, name, hash, last4, created_at: new Date(currentTime()) })}`
  return { id, key: Redacted.value(key) }
})

export const listAdministrators = Effect.fn("administrator.list")(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<AdministratorRow>`SELECT * FROM administrator_key ORDER BY id`
})

/** Stops an administrator's key immediately, in every process. Undefined: no such administrator. */
export const revokeAdministrator = Effect.fn("administrator.revoke")(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AdministratorRow>`
    UPDATE administrator_key SET revoked_at = coalesce(revoked_at, ${new Date(currentTime())}) WHERE id = ${id} RETURNING *`
  return row === undefined ? undefined : { id, status: renderAdministrator(row).status }
})
