/**
 * Idempotency keys. The transaction that does a request's work also inserts its record, with the response. So the primary key of the records
 * lets one request with a key do its work, and a request that failed leaves nothing. A request with two phases inserts the object that the
 * first one makes, and stores the response with the second; if its process dies in between, the next try takes the record over and finishes.
 */
import { randomUUID } from "node:crypto"
import { PgTypes } from "@effect/sql-pg"
import { Effect, Option } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import { problem } from "../base/problem.ts"
import { SECOND_MS } from "../base/time.ts"
import { rowsAsTable } from "../db/rows.ts"
import { ofTenant, staysHere, type Tenant } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"
import { constraintOf } from "../postgres/errors.ts"
import { isInFlight, type Lease, takingOf } from "../process/lease.ts"
import { ProcessLease } from "../process/ProcessLease.ts"
import { type KeyedRequest, type RecordKey, RecordKeys } from "./RecordKeys.ts"

const MAX_KEY_LENGTH = 255

/** The lease of the process that works on a request with a record; the token identifies the try. */
const tryLease: Lease = { name: "idempotency_record", key: "token" }

/** The keys whose requests this process works on. */
const KEYS_IN_USE = "idempotency_key"

/**
 * After this time, an unfinished request of another living process counts as dropped: the process may have lost its database before it could
 * release the record. If it still works, it can no longer store a response.
 */
const DROPPED_AFTER = "60 seconds"

/** The refusal of a request whose key another one uses now. */
export const IN_PROGRESS = problem(
  "idempotency_request_in_progress",
  "The first request with this Idempotency-Key is still being processed.",
)

/** The refusal of a key that was used with another request. */
const KEY_REUSED = problem(
  "idempotency_key_reused",
  "This Idempotency-Key was used with another request: use a fresh key for this one.",
)

interface KeyInUse {
  /** The name of the key's record. */
  readonly id: string
  readonly fingerprint: Uint8Array
}

/** One try of a request with an Idempotency-Key. */
export interface KeyedTry {
  readonly key: RecordKey
  /** The key among those in use in this process, with the fingerprint of its request. */
  readonly inUse: KeyInUse
  /** The process of this try. */
  readonly runner: number
  /** Identifies this try: a try whose record was taken over can no longer store a response. */
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
export interface ResponseToStore extends Stored {
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
  readonly expired: boolean
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

const isSame = (some: Uint8Array, other: Uint8Array): boolean => Buffer.from(some).equals(other)

/** Begins a try of a request; fails if this process works on another one with the same key. The caller ends it (`endTry`). */
export const beginTry = Effect.fnUntraced(function* (tenant: Tenant, key: string, request: KeyedRequest) {
  if (!isKey(key)) {
    return yield* problem(
      "parameter_invalid",
      `Idempotency-Key must be a string of 1 to ${MAX_KEY_LENGTH} characters.`,
      "Idempotency-Key",
    )
  }
  const recordKey = (yield* RecordKeys).of(tenant, key)
  const { id: runner, inFlight } = yield* ProcessLease
  const [inUse, token] = [{ id: recordKey.name, fingerprint: recordKey.fingerprint(request) }, { id: randomUUID() }]
  // All of these are keys in use.
  const other = inFlight(KEYS_IN_USE).find(inUse) as KeyInUse | undefined
  if (other !== undefined) return yield* isSame(other.fingerprint, inUse.fingerprint) ? IN_PROGRESS : KEY_REUSED
  inFlight(KEYS_IN_USE).hold([inUse])
  // Before the record is written: otherwise another request could see it as dropped.
  inFlight(tryLease.name).hold([token])
  return { key: recordKey, inUse, runner, token, resourceId: null } satisfies KeyedTry
})

/** Ends a try in this process, with or without success. */
export const endTry = ({ inUse, token }: KeyedTry) =>
  Effect.map(ProcessLease, ({ inFlight }) => {
    inFlight(KEYS_IN_USE).release([inUse])
    inFlight(tryLease.name).release([token])
  })

const IS_EXPIRED = "created_at < now() - interval '24 hours'"

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

/**
 * Looks for the record of another try of the same request, after this try wrote nothing.
 *
 * - If the other try has finished, returns its stored response.
 * - If the other try made an object and died, takes the record over. Returns this try with that object, for this try to finish.
 * - If there is no other try, returns undefined. An expired record is deleted, and a record of this try is released.
 */
export const findOther = Effect.fnUntraced(function* (tenant: Tenant, mine: KeyedTry) {
  const sql = yield* SqlClient.SqlClient
  const { key, inUse, runner, token } = mine
  // A record is free if it has no process, if its process is dead, or if it is ours and no longer in flight now.
  const { isFree } = yield* takingOf(tryLease)
  const [found] = yield* sql<RecordRow>`
    SELECT fingerprint, resource_id, response_status, response_body, expanded_fields, expanded_body, token, ${sql.literal(IS_EXPIRED)} AS expired,
      ${isFree("r")} OR (r.runner <> ${runner} AND r.taken_at < now() - ${DROPPED_AFTER}::interval) AS free
    FROM idempotency_record r
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name}`
  if (found === undefined) return undefined
  if (found.token === token.id) {
    yield* releaseRecord(tenant, mine)
    return undefined
  }
  if (found.expired) {
    yield* sql`
      DELETE FROM idempotency_record
      WHERE ${ofTenant(sql, tenant)} AND key = ${key.name} AND ${sql.literal(IS_EXPIRED)}`
    return undefined
  }
  if (!isSame(found.fingerprint, inUse.fingerprint)) return yield* KEY_REUSED
  const stored = yield* storedIn(found, key)
  if (stored !== undefined) return stored
  // The record may have been released and taken again since the check of the rows in flight.
  if (!found.free || (yield* isInFlight(tryLease, { id: found.token }))) return yield* IN_PROGRESS
  const taken = yield* sql`
    UPDATE idempotency_record r SET runner = ${runner}, token = ${token.id}, taken_at = now()
    WHERE ${ofTenant(sql, tenant, "r")} AND r.key = ${key.name} AND response_status IS NULL AND token = ${found.token} RETURNING 1`
  return taken.length > 0 ? ({ ...mine, resourceId: found.resource_id } satisfies KeyedTry) : yield* IN_PROGRESS
})

const RESPONSE = {
  account_id: "text",
  livemode: "boolean",
  key: "text",
  token: "text",
  resource_id: "text",
  response_status: "integer",
  response_body: "bytea",
  expanded_fields: "text[]",
  expanded_body: "bytea",
} as const

const RECORD = { ...RESPONSE, fingerprint: "bytea", runner: "integer" } as const

/** A try, and what its record keeps: the response, or the object that the first phase made. */
export type NewRecord = readonly [mine: KeyedTry, kept: ResponseToStore | { readonly id: string }]

const isKept = (text: string) => Buffer.byteLength(text) <= MAX_STORED_BYTES

const rowOf = ({ account_id, livemode }: Tenant, [{ key, token, inUse, runner }, kept]: NewRecord) => {
  const row = { account_id, livemode, key: key.name, fingerprint: inUse.fingerprint, runner, token: token.id }
  if (!("status" in kept))
    return {
      ...row,
      resource_id: kept.id,
      response_status: null,
      response_body: null,
      expanded_fields: null,
      expanded_body: null,
    }
  const { status, body, expanded, id } = kept
  const keepsBody = isKept(body)
  const keepsExpanded = keepsBody && expanded !== null && isKept(expanded.body)
  return {
    ...row,
    resource_id: keepsBody ? null : id,
    response_status: status,
    response_body: key.seal(keepsBody ? body : NOT_KEPT),
    expanded_fields: keepsExpanded ? expanded.fields : null,
    expanded_body: keepsExpanded ? key.seal(expanded.body) : null,
  }
}

/** Inserts the records of requests in the transaction of their work. It fails if there is one with the same key (`isTaken`). */
export const insertRecords = (unit: UnitOfWork, tenant: Tenant, all: ReadonlyArray<NewRecord>): void => {
  if (all.length === 0) return
  const { sql } = unit
  const rows = all.map((one) => rowOf(tenant, one))
  // In the order of their keys, so that two processes with several of the same keys do not wait for each other.
  rows.sort((some, other) => (some.key < other.key ? -1 : 1))
  const columns = sql.literal(Object.keys(RECORD).join(", "))
  unit.add([
    [
      "idempotency_records",
      sql`INSERT INTO idempotency_record (${columns}) SELECT ${columns} FROM ${rowsAsTable(rows, RECORD)} n RETURNING 1`,
    ],
  ])
}

/** The response of a second phase, and the try that stores it. */
export interface FinishedTry extends Tenant {
  readonly mine: KeyedTry
  readonly response: ResponseToStore
}

/** Stores responses of second phases in one statement; returns the tokens of the tries whose records were not taken over. */
export const storeResponses = Effect.fnUntraced(function* (finished: ReadonlyArray<FinishedTry>) {
  const sql = yield* SqlClient.SqlClient
  const rows = finished.map((one) => {
    const { fingerprint: _, runner: __, ...row } = rowOf(one, [one.mine, one.response])
    return row
  })
  const stored = yield* sql<{ token: string }>`
    UPDATE idempotency_record r SET response_status = n.response_status, response_body = n.response_body,
      expanded_fields = n.expanded_fields, expanded_body = n.expanded_body, resource_id = coalesce(n.resource_id, r.resource_id)
    FROM ${rowsAsTable(rows, RESPONSE)} n
    WHERE (r.account_id, r.livemode, r.key, r.token) = (n.account_id, n.livemode, n.key, n.token) RETURNING r.token`
  return new Set(stored.map(({ token }) => token))
})

/** Whether a transaction wrote nothing because another request has a record with the same key. */
export const isTaken = (error: unknown): boolean =>
  SqlError.isSqlError(error) && constraintOf(error) === "idempotency_record_pkey"

/** Releases the record of a try that made an object and could not finish: the next try finishes it, in any process. */
export const releaseRecord = Effect.fnUntraced(function* (tenant: Tenant, { key, token }: KeyedTry) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE idempotency_record SET runner = NULL
    WHERE ${ofTenant(sql, tenant)} AND key = ${key.name} AND token = ${token.id} AND response_status IS NULL`
})

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
