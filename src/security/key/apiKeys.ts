/** Creates, rolls and revokes keys (decisions J1, J3, J5). A key is shown in full once: when it is created. */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Option, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { Cell } from "../../base/cell.ts"
import { newId } from "../../base/ids.ts"
import { noSuch, problem } from "../../base/problem.ts"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isRef, ofTenant, type Ref, type Tenant, tenantOf } from "../../db/tenant.ts"
import { generateAdministratorKey, generateKey, type KeyType } from "./key.ts"
import type { Scopes } from "./scopes.ts"

/** `rolled`: it still works, until its grace period ends. */
const KEY_STATUSES = ["active", "rolled", "expired", "revoked"] as const
export type KeyStatus = (typeof KEY_STATUSES)[number]

export interface KeyRow extends Ref {
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

/** What a key may do, besides its type: the scopes of a restricted key, the origins of a publishable one. */
export interface Allowed {
  readonly scopes?: Scopes
  readonly origins?: ReadonlyArray<string>
}

/** A key that was just made: the only time that it is known in full. */
export interface NewKey {
  readonly id: string
  readonly key: string
}

/** Working keys of an account and environment: a list of them is short, and a leak has few sources. */
export const MAX_KEYS = 100

export const statusOf = (row: Pick<KeyRow, "expires_at" | "revoked_at">, now: number): KeyStatus => {
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

/** Parses an origin as browsers send it: `https://shop.example`, without a path. Wildcards match no browser, so an asterisk is refused. */
export const readOrigin = (text: string): Option.Option<string> => {
  const origin = URL.canParse(text) ? new URL(text).origin : "null"
  return /^https?:\/\/[^*]+$/.test(origin) && origin === text.replace(/\/$/, "") ? Option.some(origin) : Option.none()
}

/** Inserts a key, and returns it in full. `attempt`: the form that made it, so that a form makes one key. */
export const createKey = Effect.fn("key.create")(function* (
  tenant: Tenant,
  type: KeyType,
  allowed: Allowed = {},
  attempt: string | null = null,
) {
  const sql = yield* SqlClient.SqlClient
  const cell = yield* Cell
  const { key, hash, prefix, last4 } = generateKey(type, tenant.livemode, cell)
  const id = newId("key")
  yield* sql`
    INSERT INTO api_key (account_id, livemode, id, type, hash, prefix, last4, cell, scopes, origins, created_at, attempt)
    VALUES (${tenant.account_id}, ${tenant.livemode}, ${id}, ${type}, ${hash}, ${prefix}, ${last4}, ${cell},
      ${JSON.stringify(allowed.scopes ?? {})}::text::jsonb, ${allowed.origins ?? []}::text[], ${new Date(currentTime())}, ${attempt})`
  const made: NewKey = { id, key: Redacted.value(key) }
  return made
})

/** Selects the keys that work. */
const works = (sql: SqlClient.SqlClient) =>
  sql`revoked_at IS NULL AND (expires_at IS NULL OR expires_at > ${PgTypes.timestamptz(currentTime())})`

const MADE = problem(
  "key_state_invalid",
  "This form has made its key already. A key is shown once: if you did not copy it, create another.",
)

/** Locks the account, so that its keys change by one transaction at a time, and checks that a key may be made. */
const admit = Effect.fnUntraced(function* (tenant: Tenant, attempt: string | null) {
  const sql = yield* SqlClient.SqlClient
  const [account] = yield* sql<{ live_access: string }>`
    SELECT live_access FROM account WHERE id = ${tenant.account_id} FOR NO KEY UPDATE`
  if (tenant.livemode && account!.live_access !== "approved")
    return yield* problem(
      "live_access_required",
      `Live access of ${tenant.account_id} is ${account!.live_access}: live keys need it approved.`,
    )
  const made = yield* sql`SELECT 1 FROM api_key WHERE ${ofTenant(sql, tenant)} AND attempt = ${attempt}`
  if (made.length > 0) return yield* MADE
})

/** Refuses one more key than an account may have. */
const refuseMore = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const [working] = yield* sql<{ count: number }>`
    SELECT count(*)::integer AS count FROM api_key WHERE ${ofTenant(sql, tenant)} AND ${works(sql)}`
  if (working!.count >= MAX_KEYS)
    return yield* problem("key_limit_reached", `There are ${MAX_KEYS} keys already: revoke one first.`)
})

/** Adds a key to an account, in the running transaction. Refuses a live key without live access, and too many keys. */
export const addKey = Effect.fn("key.add")(function* (
  tenant: Tenant,
  type: KeyType,
  allowed: Allowed,
  attempt: string | null = null,
) {
  yield* admit(tenant, attempt)
  yield* refuseMore(tenant)
  return yield* createKey(tenant, type, allowed, attempt)
})

const COLUMNS =
  "account_id, livemode, id, type, prefix, last4, scopes, origins, created_at, last_used_at, expires_at, revoked_at"

/** Lists the keys of an account, oldest first. */
export const listKeys = Effect.fn("key.list")(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<KeyRow>`SELECT ${sql.literal(COLUMNS)} FROM api_key WHERE account_id = ${account} ORDER BY id`
})

/** Reads a page of a tenant's keys, newest first: those that work, or all. */
export const newestKeys = Effect.fn("key.newest")(function* (
  tenant: Tenant,
  {
    limit,
    after,
    onlyWorking,
  }: { readonly limit: number; readonly after: string | null; readonly onlyWorking: boolean },
) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<KeyRow>`
    SELECT ${sql.literal(COLUMNS)} FROM api_key
    WHERE ${sql.and([
      ofTenant(sql, tenant),
      ...(after === null ? [] : [sql`id < ${after}`]),
      ...(onlyWorking ? [works(sql)] : []),
    ])} ORDER BY id DESC LIMIT ${limit + 1}`
  return { rows: rows.slice(0, limit), hasMore: rows.length > limit }
})

/** Finds a tenant's key, or fails. `lock`: for a change of it. */
export const getKey = Effect.fnUntraced(function* (ref: Ref, lock: "FOR UPDATE" | "" = "") {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`
    SELECT ${sql.literal(COLUMNS)} FROM api_key WHERE ${isRef(sql, ref)} ${sql.literal(lock)}`
  return row ?? (yield* noSuch("key", ref.id))
})

/** Finds any account's key by its ID, for the operator. Undefined: there is none. */
export const findKey = Effect.fnUntraced(function* (id: string) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`SELECT ${sql.literal(COLUMNS)} FROM api_key WHERE id = ${id}`
  return row
})

/** How long a rolled key still works. */
export const GRACES_MS = { "0": 0, "1h": 3_600_000, "24h": 86_400_000, "7d": 604_800_000 } as const
export type Grace = keyof typeof GRACES_MS

/**
 * Creates a key that replaces another, in the running transaction. The old key works until the grace period ends; with "0" it stops
 * immediately.
 */
export const rollKey = Effect.fn("key.roll")(function* (ref: Ref, grace: Grace, attempt: string | null = null) {
  const sql = yield* SqlClient.SqlClient
  yield* admit(ref, attempt)
  // A leaked key can always be replaced at once.
  if (grace !== "0") yield* refuseMore(ref)
  const old = yield* getKey(ref, "FOR UPDATE")
  const status = statusOf(old, currentTime())
  if (status !== "active")
    return yield* problem("key_state_invalid", `The key ${ref.id} is ${status}: only an active key can be rolled.`)
  const ends = new Date(currentTime() + GRACES_MS[grace])
  const made = yield* createKey(tenantOf(old), old.type, { scopes: old.scopes, origins: old.origins }, attempt)
  yield* grace === "0"
    ? sql`UPDATE api_key SET revoked_at = ${ends} WHERE ${isRef(sql, ref)}`
    : sql`UPDATE api_key SET expires_at = ${ends} WHERE ${isRef(sql, ref)}`
  return { ...made, previous_expires_at: formatInstant(ends.getTime()) }
})

/** Stops a key immediately, in every process. */
export const revokeKey = Effect.fn("key.revoke")(function* (ref: Ref) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<KeyRow>`
    UPDATE api_key SET revoked_at = coalesce(revoked_at, ${new Date(currentTime())}) WHERE ${isRef(sql, ref)}
    RETURNING ${sql.literal(COLUMNS)}`
  if (row === undefined) return yield* noSuch("key", ref.id)
  return { id: row.id, status: statusOf(row, currentTime()) }
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
