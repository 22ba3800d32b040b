/**
 * Idempotency-Key: the first request claims the key, its response is stored in the transaction of its work, and every later
 * one with the same method, path and body gets that response. A claim whose process has died, or has let go of it, is taken over.
 */
import { randomUUID } from "node:crypto"
import { PgTypes } from "@effect/sql-pg"
import { Effect, Exit, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { SECOND_MS } from "../base/time.ts"
import { rowsAsTable } from "../db/rows.ts"
import { ofTenant, staysHere, type Tenant } from "../db/tenant.ts"
import { isConflictOf, type UnitOfWork } from "../db/UnitOfWork.ts"
import { hold, isInHand, type Lease, release, takingOf } from "../process/lease.ts"
import { type Claimed, type RecordKey, RecordKeys } from "./RecordKeys.ts"

const MAX_KEY_LENGTH = 255

/** The process that works on a claimed request; what it has in hand is known by its token. */
const claimLease: Lease = { name: "idempotency_record", key: "token" }

/**
 * After so long a claim of another process counts as dropped, though the process lives: it may have lost its database as it claimed the key
 * or let go of it. Should it still be working it can store nothing any more.
 */
const DROPPED_AFTER = "60 seconds"

export interface Claim {
  readonly key: RecordKey
  /** Of this try alone: a try that was taken over can store nothing any more. */
  readonly held: { readonly id: string }
  /** What an earlier try had made before its process died; finish that. */
  readonly resourceId: string | null
}

export interface Stored {
  readonly status: number
  /** With nothing expanded. */
  readonly body: string
  /** With what the request asked to expand, if it did. */
  readonly expanded: Expanded | null
}

export interface Expanded {
  readonly fields: ReadonlyArray<string>
  readonly body: string
}

/** A response that is to be stored, and the object in it, if it is one. */
export interface Storing extends Stored {
  readonly id: string | null
}

interface RecordRow {
  readonly fingerprint: Uint8Array
  readonly resource_id: string | null
  readonly response_status: number | null
  readonly response_body: Uint8Array | null
  readonly expanded_fields: ReadonlyArray<string> | null
  readonly expanded_body: Uint8Array | null
  readonly token: string
  readonly free: boolean
}

/**
 * A response that is longer is not kept: whoever asks again is sent to the object instead. Responses are shorter, being of
 * one object, or of 16 deliveries at most (operating.md has the sizes); this holds should that ever change.
 */
const MAX_STORED_BYTES = 256 * 1024
const NOT_KEPT = ""

/** How long a key is, in characters: it came as bytes, each of them one in Latin 1. */
const lengthOf = (key: string): number => [...Buffer.from(key, "latin1").toString("utf8")].length

/** Whether a header can be a key. */
export const isKey = (key: string): boolean => key !== "" && lengthOf(key) <= MAX_KEY_LENGTH

/** Claims `key` for a request, or returns the response that the request got before. */
export const claim = Effect.fnUntraced(function* (tenant: Tenant, key: string, request: Claimed) {
  if (!isKey(key)) {
    return yield* problem(
      "parameter_invalid",
      `Idempotency-Key must be a string of 1 to ${MAX_KEY_LENGTH} characters.`,
      "Idempotency-Key",
    )
  }
  const recordKey = (yield* RecordKeys).of(tenant, key)
  const held = { id: randomUUID() }
  // Before the row says so: to another request the claim would look dropped in between.
  yield* hold(claimLease, [held])
  return yield* claimAs(tenant, recordKey, request, held).pipe(
    Effect.onExit((exit) =>
      Exit.isFailure(exit) || "status" in exit.value ? release(claimLease, [held]) : Effect.void,
    ),
  )
})

const IS_OVER = "created_at < now() - interval '24 hours'"

/** Claims a key that nobody has claimed within the last day. */
const insertClaim = Effect.fnUntraced(function* (
  tenant: Tenant,
  key: RecordKey,
  print: Uint8Array,
  runner: number,
  token: string,
) {
  const sql = yield* SqlClient.SqlClient
  const inserted = yield* sql`
    INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner, token)
    VALUES (${tenant.account_id}, ${tenant.livemode}, ${key.name}, ${print}, ${runner}, ${token})
    ON CONFLICT (account_id, livemode, key) DO UPDATE SET fingerprint = excluded.fingerprint, runner = excluded.runner,
      token = excluded.token, resource_id = NULL, response_status = NULL, response_body = NULL, expanded_fields = NULL, expanded_body = NULL, created_at = now(), taken_at = now()
      WHERE idempotency_record.${sql.literal(IS_OVER)}
    RETURNING 1`
  return inserted.length > 0
})

/** The response that a record has; undefined where it has none yet. */
const storedIn = Effect.fnUntraced(function* (found: RecordRow, { open }: Pick<RecordKey, "open">) {
  if (found.response_status === null) return undefined
  const body = open(found.response_body!)
  const { expanded_fields: fields, expanded_body: sealed } = found
  const expanded = fields === null || sealed === null ? null : { fields, body: open(sealed) }
  if (body !== NOT_KEPT) return { status: found.response_status, body, expanded } satisfies Stored
  return yield* problem(
    "idempotency_response_not_kept",
    `The first request with this Idempotency-Key succeeded, and its response was too large to keep: fetch ${found.resource_id ?? "what it made"} instead.`,
  )
})

const claimAs = Effect.fnUntraced(function* (
  tenant: Tenant,
  key: RecordKey,
  request: Claimed,
  held: { readonly id: string },
) {
  const sql = yield* SqlClient.SqlClient
  const print = key.fingerprint(request)
  const claimed = (resourceId: string | null): Claim => ({ key, held, resourceId })
  const { runner } = yield* takingOf(claimLease)
  if (yield* insertClaim(tenant, key, print, runner, held.id)) return claimed(null)
  // Nobody has it, its process is dead, or it is ours and we dropped it: by what is in hand at this moment.
  const { isFree } = yield* takingOf(claimLease)
  const [found] = yield* sql<RecordRow>`
    SELECT fingerprint, resource_id, response_status, response_body, expanded_fields, expanded_body, token,
      ${isFree("r")} OR (r.runner <> ${runner} AND r.taken_at < now() - ${DROPPED_AFTER}::interval) AS free
    FROM idempotency_record r
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name}`
  // The first request was refused this instant and let go of the key.
  if (found === undefined) return yield* inProgress
  if (!Buffer.from(found.fingerprint).equals(print)) {
    return yield* problem(
      "idempotency_key_reused",
      "This Idempotency-Key was used with another request: use a fresh key for this one.",
    )
  }
  const stored = yield* storedIn(found, key)
  if (stored !== undefined) return stored
  // Since what is in hand was said, it may have been let go of and claimed anew.
  if (!found.free || (yield* isInHand(claimLease, { id: found.token }))) return yield* inProgress
  const taken = yield* sql`
    UPDATE idempotency_record r SET runner = ${runner}, token = ${held.id}, taken_at = now()
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name} AND response_status IS NULL AND token = ${found.token} RETURNING 1`
  return taken.length > 0 ? claimed(found.resource_id) : yield* inProgress
})

const inProgress = problem(
  "idempotency_request_in_progress",
  "The first request with this Idempotency-Key is still being processed.",
)

/** The record of a claim, as long as it holds. */
const isHeld = (sql: SqlClient.SqlClient, tenant: Tenant, { key, held }: Claim) =>
  sql`${ofTenant(sql, tenant)} AND key = ${key.name} AND token = ${held.id}`

/** The name of what a transaction expects of the records that it writes. */
const RECORDS = "idempotency_records"

const RECORD = { account_id: "text", livemode: "boolean", key: "text", token: "text", resource_id: "text" } as const

const RESPONSE = {
  ...RECORD,
  response_status: "integer",
  response_body: "bytea",
  expanded_fields: "text[]",
  expanded_body: "bytea",
} as const

const recordOf = ({ account_id, livemode }: Tenant, { key, held }: Claim, resource_id: string | null) => ({
  account_id,
  livemode,
  key: key.name,
  token: held.id,
  resource_id,
})

const IS_RECORD = "(r.account_id, r.livemode, r.key, r.token) = (n.account_id, n.livemode, n.key, n.token)"

/** What requests have made so far. */
export type Noted = readonly [claim: Claim, resourceId: string]

/** Notes what requests have made so far. A claim that has made something makes nothing else: one that was taken over fails (`orInProgress`). */
export const noteResources = (unit: UnitOfWork, tenant: Tenant, noted: ReadonlyArray<Noted>): void => {
  if (noted.length === 0) return
  const { sql } = unit
  const rows = noted.map(([claim, id]) => recordOf(tenant, claim, id))
  const statement = sql`
    UPDATE idempotency_record r SET resource_id = n.resource_id FROM ${rowsAsTable(rows, RECORD)} n
    WHERE ${sql.literal(IS_RECORD)} AND r.resource_id IS NULL RETURNING 1`
  unit.expect({ name: RECORDS, statement, rows: rows.length })
}

/** Stores responses in the transaction of their work; one whose claim was taken over fails (`orInProgress`). */
export const store = (
  unit: UnitOfWork,
  tenant: Tenant,
  stored: ReadonlyArray<readonly [claim: Claim, response: Storing]>,
): void => {
  if (stored.length === 0) return
  const { sql } = unit
  const isKept = (text: string) => Buffer.byteLength(text) <= MAX_STORED_BYTES
  const rows = stored.map(([claim, { status, body, expanded, id }]) => {
    const whole = isKept(body)
    const keeps = whole && expanded !== null && isKept(expanded.body)
    return {
      ...recordOf(tenant, claim, whole ? null : id),
      response_status: status,
      response_body: claim.key.seal(whole ? body : NOT_KEPT),
      expanded_fields: keeps ? expanded.fields : null,
      expanded_body: keeps ? claim.key.seal(expanded.body) : null,
    }
  })
  const statement = sql`
    UPDATE idempotency_record r SET response_status = n.response_status, response_body = n.response_body,
      expanded_fields = n.expanded_fields, expanded_body = n.expanded_body, resource_id = coalesce(n.resource_id, r.resource_id)
    FROM ${rowsAsTable(rows, RESPONSE)} n WHERE ${sql.literal(IS_RECORD)} RETURNING 1`
  unit.expect({ name: RECORDS, statement, rows: rows.length })
}

/** A transaction that found a claim taken over has done nothing: the request that took it over goes on. */
export const orInProgress = <E>(error: E): E | Problem =>
  SqlError.isSqlError(error) && isConflictOf(error, RECORDS) ? inProgress : error

/** Says that this process is through with a claim, however it went. */
export const drop = ({ held }: Claim) => release(claimLease, [held])

/** How often records are purged. */
export const PURGE_EVERY_MS = 10 * SECOND_MS
/** Records deleted in one transaction: of the largest responses 512 MiB, usually a megabyte. */
const MAX_PURGED = 1_000

/** Deletes the oldest records that are over, from `from` on; returns where the next ones begin, if there may be some. */
const purgeBatch = Effect.fnUntraced(function* (from: number) {
  const sql = yield* SqlClient.SqlClient
  const [batch] = yield* sql<{ count: number; last: number | null }>`
    WITH gone AS (
      DELETE FROM idempotency_record WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM idempotency_record r
        WHERE created_at >= ${PgTypes.timestamptz(from)} AND ${sql.literal(IS_OVER)} AND ${staysHere(sql, "r")}
        ORDER BY created_at LIMIT ${MAX_PURGED} FOR UPDATE SKIP LOCKED))
      RETURNING created_at
    )
    SELECT count(*) AS count, max(created_at) AS last FROM gone`
  return batch!.count < MAX_PURGED ? Option.none() : Option.some(batch!.last!)
})

/**
 * Deletes all records that are over a day old: however fast they come, they go as fast. Processes that purge at once take
 * different ones. Each batch begins where the one before it ended, so that none walks over what is deleted already.
 */
export const purge = Effect.gen(function* () {
  let from = Option.some(0)
  while (Option.isSome(from)) from = yield* purgeBatch(from.value)
})

/**
 * Lets go of a key whose request failed. Where that had made nothing yet, the body may be fixed and sent again; where it had made something, the
 * next try goes on with that, in whichever process.
 */
export const unclaim = Effect.fnUntraced(function* (tenant: Tenant, claim: Claim) {
  const sql = yield* SqlClient.SqlClient
  const open = sql`${isHeld(sql, tenant, claim)} AND response_status IS NULL`
  yield* sql`
    WITH forgotten AS (DELETE FROM idempotency_record WHERE ${open} AND resource_id IS NULL)
    UPDATE idempotency_record SET runner = NULL WHERE ${open} AND resource_id IS NOT NULL`
})
