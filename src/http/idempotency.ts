/**
 * Idempotency keys. The first request claims the key, and its response is stored in the transaction of its work. Every later request
 * with the same method, path and body gets that response. A claim whose process died or released it is taken over.
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
import { isInFlight, type Lease, markInFlight, release, takingOf } from "../process/lease.ts"
import { type Claimed, type RecordKey, RecordKeys } from "./RecordKeys.ts"

const MAX_KEY_LENGTH = 255

/** The lease of the process that works on a claimed request; the token identifies the claim. */
const claimLease: Lease = { name: "idempotency_record", key: "token" }

/**
 * After this time, a claim of another living process counts as dropped: the process may have lost its database while it claimed or
 * released the key. If it still works, it can no longer store a response.
 */
const DROPPED_AFTER = "60 seconds"

export interface Claim {
  readonly key: RecordKey
  /** Identifies this try: a try that was taken over can no longer store a response. */
  readonly token: { readonly id: string }
  /** The object that an earlier try made before its process died; this try finishes it. */
  readonly resourceId: string | null
}

export interface Stored {
  readonly status: number
  /** Without expansions. */
  readonly body: string
  /** With the requested expansions, if any. */
  readonly expanded: Expanded | null
}

export interface Expanded {
  readonly fields: ReadonlyArray<string>
  readonly body: string
}

/** A response to store, and the ID of its object, if it has one. */
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
 * A longer response is not stored: a replay names the object instead. Today's responses are shorter: they show one object, or 16
 * deliveries at most (operating.md has the sizes).
 */
const MAX_STORED_BYTES = 256 * 1024
const NOT_KEPT = ""

/** The length of a key in characters. Node reads each byte of a header as one Latin 1 character. */
const lengthOf = (key: string): number => [...Buffer.from(key, "latin1").toString("utf8")].length

/** Whether a header is a valid key. */
export const isKey = (key: string): boolean => key !== "" && lengthOf(key) <= MAX_KEY_LENGTH

/** Claims `key` for a request, or returns the stored response of an earlier try. */
export const claim = Effect.fnUntraced(function* (tenant: Tenant, key: string, request: Claimed) {
  if (!isKey(key)) {
    return yield* problem(
      "parameter_invalid",
      `Idempotency-Key must be a string of 1 to ${MAX_KEY_LENGTH} characters.`,
      "Idempotency-Key",
    )
  }
  const recordKey = (yield* RecordKeys).of(tenant, key)
  const token = { id: randomUUID() }
  // Before the row is written: otherwise another request could see the claim as dropped.
  yield* markInFlight(claimLease, [token])
  return yield* claimAs(tenant, recordKey, request, token).pipe(
    Effect.onExit((exit) =>
      Exit.isFailure(exit) || "status" in exit.value ? release(claimLease, [token]) : Effect.void,
    ),
  )
})

const IS_EXPIRED = "created_at < now() - interval '24 hours'"

/** Claims a key that was not claimed within the last day. */
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
      WHERE idempotency_record.${sql.literal(IS_EXPIRED)}
    RETURNING 1`
  return inserted.length > 0
})

/** Returns the stored response of a record; undefined if it has none yet. */
const storedIn = Effect.fnUntraced(function* (found: RecordRow, { open }: Pick<RecordKey, "open">) {
  if (found.response_status === null) return undefined
  const body = open(found.response_body!)
  const { expanded_fields: fields, expanded_body: sealed } = found
  const expanded = fields === null || sealed === null ? null : { fields, body: open(sealed) }
  if (body !== NOT_KEPT) return { status: found.response_status, body, expanded } satisfies Stored
  return yield* problem(
    "idempotency_response_not_kept",
    `The first request with this Idempotency-Key succeeded, and its response was too large to keep: fetch ${found.resource_id ?? "the object that it made"} instead.`,
  )
})

const claimAs = Effect.fnUntraced(function* (
  tenant: Tenant,
  key: RecordKey,
  request: Claimed,
  token: { readonly id: string },
) {
  const sql = yield* SqlClient.SqlClient
  const print = key.fingerprint(request)
  const claimed = (resourceId: string | null): Claim => ({ key, token, resourceId })
  const { runner } = yield* takingOf(claimLease)
  if (yield* insertClaim(tenant, key, print, runner, token.id)) return claimed(null)
  // The claim is free if it has no process, if its process is dead, or if it is ours and no longer in flight now.
  const { isFree } = yield* takingOf(claimLease)
  const [found] = yield* sql<RecordRow>`
    SELECT fingerprint, resource_id, response_status, response_body, expanded_fields, expanded_body, token,
      ${isFree("r")} OR (r.runner <> ${runner} AND r.taken_at < now() - ${DROPPED_AFTER}::interval) AS free
    FROM idempotency_record r
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name}`
  // The first request was refused just now and released the key.
  if (found === undefined) return yield* inProgress
  if (!Buffer.from(found.fingerprint).equals(print)) {
    return yield* problem(
      "idempotency_key_reused",
      "This Idempotency-Key was used with another request: use a fresh key for this one.",
    )
  }
  const stored = yield* storedIn(found, key)
  if (stored !== undefined) return stored
  // The claim may have been released and claimed again since the check of the rows in flight.
  if (!found.free || (yield* isInFlight(claimLease, { id: found.token }))) return yield* inProgress
  const taken = yield* sql`
    UPDATE idempotency_record r SET runner = ${runner}, token = ${token.id}, taken_at = now()
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name} AND response_status IS NULL AND token = ${found.token} RETURNING 1`
  return taken.length > 0 ? claimed(found.resource_id) : yield* inProgress
})

const inProgress = problem(
  "idempotency_request_in_progress",
  "The first request with this Idempotency-Key is still being processed.",
)

/** Selects the record of a claim, unless the claim was taken over. */
const isOwned = (sql: SqlClient.SqlClient, tenant: Tenant, { key, token }: Claim) =>
  sql`${ofTenant(sql, tenant)} AND key = ${key.name} AND token = ${token.id}`

/** The name of a transaction's expectation about its idempotency records. */
const RECORDS = "idempotency_records"

const RECORD = { account_id: "text", livemode: "boolean", key: "text", token: "text", resource_id: "text" } as const

const RESPONSE = {
  ...RECORD,
  response_status: "integer",
  response_body: "bytea",
  expanded_fields: "text[]",
  expanded_body: "bytea",
} as const

const recordOf = ({ account_id, livemode }: Tenant, { key, token }: Claim, resource_id: string | null) => ({
  account_id,
  livemode,
  key: key.name,
  token: token.id,
  resource_id,
})

const IS_RECORD = "(r.account_id, r.livemode, r.key, r.token) = (n.account_id, n.livemode, n.key, n.token)"

/** A claim, and the object that its request made in the first phase. */
export type MadeObject = readonly [claim: Claim, resourceId: string]

/** Records the objects that requests made in their first phase. A claim makes one object at most; a claim that was taken over fails (`orInProgress`). */
export const noteResources = (unit: UnitOfWork, tenant: Tenant, noted: ReadonlyArray<MadeObject>): void => {
  if (noted.length === 0) return
  const { sql } = unit
  const rows = noted.map(([claim, id]) => recordOf(tenant, claim, id))
  const statement = sql`
    UPDATE idempotency_record r SET resource_id = n.resource_id FROM ${rowsAsTable(rows, RECORD)} n
    WHERE ${sql.literal(IS_RECORD)} AND r.resource_id IS NULL RETURNING 1`
  unit.expect({ name: RECORDS, statement, rows: rows.length })
}

/** Stores responses in the transaction of their work; a response whose claim was taken over fails (`orInProgress`). */
export const store = (
  unit: UnitOfWork,
  tenant: Tenant,
  stored: ReadonlyArray<readonly [claim: Claim, response: Storing]>,
): void => {
  if (stored.length === 0) return
  const { sql } = unit
  const isKept = (text: string) => Buffer.byteLength(text) <= MAX_STORED_BYTES
  const rows = stored.map(([claim, { status, body, expanded, id }]) => {
    const keepsBody = isKept(body)
    const keepsExpanded = keepsBody && expanded !== null && isKept(expanded.body)
    return {
      ...recordOf(tenant, claim, keepsBody ? null : id),
      response_status: status,
      response_body: claim.key.seal(keepsBody ? body : NOT_KEPT),
      expanded_fields: keepsExpanded ? expanded.fields : null,
      expanded_body: keepsExpanded ? claim.key.seal(expanded.body) : null,
    }
  })
  const statement = sql`
    UPDATE idempotency_record r SET response_status = n.response_status, response_body = n.response_body,
      expanded_fields = n.expanded_fields, expanded_body = n.expanded_body, resource_id = coalesce(n.resource_id, r.resource_id)
    FROM ${rowsAsTable(rows, RESPONSE)} n WHERE ${sql.literal(IS_RECORD)} RETURNING 1`
  unit.expect({ name: RECORDS, statement, rows: rows.length })
}

/** Maps the error of a claim that was taken over to a refusal: the transaction wrote nothing, and the other request continues. */
export const orInProgress = <E>(error: E): E | Problem =>
  SqlError.isSqlError(error) && isConflictOf(error, RECORDS) ? inProgress : error

/** Releases this process's lease of a claim after its request, with or without success. */
export const drop = ({ token }: Claim) => release(claimLease, [token])

/** How often records are purged. */
export const PURGE_EVERY_MS = 10 * SECOND_MS
/** Records that one transaction deletes: usually a megabyte, with the largest responses 512 MiB. */
const MAX_PURGED = 1_000

/** Deletes the oldest expired records from `from` on; returns the start of the next batch, if there may be one. */
const purgeBatch = Effect.fnUntraced(function* (from: number) {
  const sql = yield* SqlClient.SqlClient
  const [batch] = yield* sql<{ count: number; last: number | null }>`
    WITH gone AS (
      DELETE FROM idempotency_record WHERE ctid = ANY(ARRAY(
        SELECT ctid FROM idempotency_record r
        WHERE created_at >= ${PgTypes.timestamptz(from)} AND ${sql.literal(IS_EXPIRED)} AND ${staysHere(sql, "r")}
        ORDER BY created_at LIMIT ${MAX_PURGED} FOR UPDATE SKIP LOCKED))
      RETURNING created_at
    )
    SELECT count(*) AS count, max(created_at) AS last FROM gone`
  return batch!.count < MAX_PURGED ? Option.none() : Option.some(batch!.last!)
})

/**
 * Deletes all records that are over a day old, so that deletion keeps up with any rate of inserts. Processes that purge at the same
 * time delete different records. Each batch starts at the end of the last one, so that none scans deleted rows.
 */
export const purge = Effect.gen(function* () {
  let from = Option.some(0)
  while (Option.isSome(from)) from = yield* purgeBatch(from.value)
})

/**
 * Releases the key of a failed request. If the request made no object yet, the caller may correct the body and send it again. If it made one,
 * the next try continues with that object, in any process.
 */
export const unclaim = Effect.fnUntraced(function* (tenant: Tenant, claim: Claim) {
  const sql = yield* SqlClient.SqlClient
  const open = sql`${isOwned(sql, tenant, claim)} AND response_status IS NULL`
  yield* sql`
    WITH forgotten AS (DELETE FROM idempotency_record WHERE ${open} AND resource_id IS NULL)
    UPDATE idempotency_record SET runner = NULL WHERE ${open} AND resource_id IS NOT NULL`
})
