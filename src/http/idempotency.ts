/**
 * Idempotency-Key (spec 8): the first request claims the key, its answer is stored in the transaction of its work, and
 * every later one with the same method, path and body gets that answer. A claim whose process has died is taken over.
 */
import { createHash } from "node:crypto"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { canonical } from "../canonical.ts"
import type { Tenant } from "../db/tenant.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import { problem } from "../problem.ts"

const LONGEST_KEY = 255

export interface Claim {
  readonly key: string
  /** What an earlier try had made before its process died; finish that. */
  readonly resourceId: string | null
}

export interface Stored {
  readonly status: number
  readonly body: string
}

interface RecordRow {
  readonly fingerprint: Uint8Array
  readonly resource_id: string | null
  readonly response_status: number | null
  readonly response_body: string | null
  readonly dead: boolean
}

const fingerprint = (method: string, path: string, body: unknown): Uint8Array =>
  createHash("sha256")
    .update(`${method} ${path}\n${canonical(body)}`)
    .digest()

/** Claims `key` for a request, or answers what the request was answered before. */
export const claim = (
  tenant: Tenant,
  key: string,
  request: { readonly method: string; readonly path: string; readonly body: unknown },
) =>
  Effect.gen(function* () {
    if (key === "" || key.length > LONGEST_KEY) {
      return yield* problem(
        "parameter_invalid",
        `Idempotency-Key must be a string of 1 to ${LONGEST_KEY} characters.`,
        "Idempotency-Key",
      )
    }
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const print = fingerprint(request.method, request.path, request.body)
    const mine = sql`account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${key}`
    const inserted = yield* sql`
      INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner)
      VALUES (${tenant.account_id}, ${tenant.livemode}, ${key}, ${print}, ${runner})
      ON CONFLICT (account_id, livemode, key) DO UPDATE SET fingerprint = excluded.fingerprint, runner = excluded.runner,
        resource_id = NULL, response_status = NULL, response_body = NULL, created_at = now()
        WHERE idempotency_record.created_at < now() - interval '24 hours'
      RETURNING 1`
    if (inserted.length > 0) return { key, resourceId: null } satisfies Claim
    const [found] = yield* sql<RecordRow>`
      SELECT fingerprint, resource_id, response_status, response_body, ${isDead(sql, "runner")} AS dead FROM idempotency_record WHERE ${mine}`
    const inProgress = problem(
      "idempotency_request_in_progress",
      "The first request with this Idempotency-Key is still being processed.",
    )
    // The first request was refused this instant and let go of the key.
    if (found === undefined) return yield* inProgress
    if (!Buffer.from(found.fingerprint).equals(Buffer.from(print))) {
      return yield* problem(
        "idempotency_key_reused",
        "This Idempotency-Key was used with another request: use a fresh key for this one.",
      )
    }
    if (found.response_status !== null)
      return { status: found.response_status, body: found.response_body! } satisfies Stored
    if (!found.dead) return yield* inProgress
    const taken = yield* sql`
      UPDATE idempotency_record SET runner = ${runner} WHERE ${mine} AND response_status IS NULL AND ${isDead(sql, "runner")} RETURNING 1`
    return taken.length > 0 ? ({ key, resourceId: found.resource_id } satisfies Claim) : yield* inProgress
  })

/** Notes in the running transaction what the request has made so far. */
export const noteResource = (tenant: Tenant, { key }: Claim, resourceId: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE idempotency_record SET resource_id = ${resourceId}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${key}`
  })

/** Stores the answer, in the transaction of the work where there is one. */
export const store = (tenant: Tenant, { key }: Claim, { status, body }: Stored) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE idempotency_record SET response_status = ${status}, response_body = ${body}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${key}`
  })

/** No process has this number: a claim that carries it is anybody's to take over. */
const NOBODY = 0

/**
 * Lets go of a key whose request failed: the body may be mended and sent again (spec 8). Where the request had made
 * something before it failed, the next try goes on with that.
 */
export const release = (tenant: Tenant, { key }: Claim) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE idempotency_record SET runner = ${NOBODY}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${key} AND response_status IS NULL AND resource_id IS NOT NULL`
    yield* sql`
      DELETE FROM idempotency_record
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${key} AND response_status IS NULL AND resource_id IS NULL`
  })
