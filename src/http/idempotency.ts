/**
 * Idempotency-Key: the first request claims the key, its response is stored in the transaction of its work, and every later
 * one with the same method, path and body gets that response. A claim whose process has died is taken over.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from "node:crypto"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { ofTenant, type Tenant } from "../db/tenant.ts"
import { canonical } from "../json.ts"
import { problem } from "../problem.ts"
import { hold, type Lease, release, takingOf } from "../process/lease.ts"

const MAX_KEY_LENGTH = 255

/** The process that works on a claimed request; what it has in hand is known by its token. */
const claimLease: Lease = { name: "idempotency_record", key: "token" }

export interface Claim {
  /** As the caller sent it. */
  readonly key: string
  /** Of this try alone: a try that was taken over can store nothing any more. */
  readonly held: { readonly id: string }
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
  readonly response_body: Uint8Array | null
  readonly token: string
  readonly free: boolean
}

const fingerprint = (method: string, path: string, body: unknown): Uint8Array =>
  createHash("sha256")
    .update(`${method} ${path}\n${canonical(body)}`)
    .digest()

/** What a record is found by: the key itself is kept nowhere. */
const nameOf = (key: string): string => createHash("sha256").update(key).digest("base64url")

const CIPHER = "aes-256-gcm"
const KEY_BYTES = 32
const IV_BYTES = 12
const TAG_BYTES = 16

/** Responses may hold secrets, so they are kept encrypted, with what only the caller knows: the key of the request. */
const cipherKey = ({ account_id }: Tenant, key: string): Uint8Array =>
  new Uint8Array(hkdfSync("sha256", key, account_id, "idempotency", KEY_BYTES))

const seal = (tenant: Tenant, key: string, body: string): Uint8Array => {
  const iv = randomBytes(IV_BYTES)
  const cipher = createCipheriv(CIPHER, cipherKey(tenant, key), iv)
  const text = Buffer.concat([cipher.update(body, "utf8"), cipher.final()])
  return Buffer.concat([iv, cipher.getAuthTag(), text])
}

const unseal = (tenant: Tenant, key: string, sealed: Uint8Array): string => {
  const text = sealed.subarray(IV_BYTES + TAG_BYTES)
  const decipher = createDecipheriv(CIPHER, cipherKey(tenant, key), sealed.subarray(0, IV_BYTES))
  decipher.setAuthTag(sealed.subarray(IV_BYTES, IV_BYTES + TAG_BYTES))
  return Buffer.concat([decipher.update(text), decipher.final()]).toString("utf8")
}

interface Claimed {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

/** Claims `key` for a request, or returns the response that the request got before. */
export const claim = Effect.fnUntraced(function* (tenant: Tenant, key: string, request: Claimed) {
  if (key === "" || key.length > MAX_KEY_LENGTH) {
    return yield* problem(
      "parameter_invalid",
      `Idempotency-Key must be a string of 1 to ${MAX_KEY_LENGTH} characters.`,
      "Idempotency-Key",
    )
  }
  const held = { id: randomUUID() }
  // Before the row says so: to another request the claim would look dropped in between.
  yield* hold(claimLease, [held])
  return yield* claimAs(tenant, key, request, held).pipe(
    Effect.onExit((exit) =>
      Exit.isFailure(exit) || "status" in exit.value ? release(claimLease, [held]) : Effect.void,
    ),
  )
})

/** Claims a key that nobody has claimed within the last day. */
const insertClaim = Effect.fnUntraced(function* (
  tenant: Tenant,
  name: string,
  print: Uint8Array,
  runner: number,
  token: string,
) {
  const sql = yield* SqlClient.SqlClient
  const inserted = yield* sql`
    INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner, token)
    VALUES (${tenant.account_id}, ${tenant.livemode}, ${name}, ${print}, ${runner}, ${token})
    ON CONFLICT (account_id, livemode, key) DO UPDATE SET fingerprint = excluded.fingerprint, runner = excluded.runner,
      token = excluded.token, resource_id = NULL, response_status = NULL, response_body = NULL, created_at = now()
      WHERE idempotency_record.created_at < now() - interval '24 hours'
    RETURNING 1`
  return inserted.length > 0
})

const claimAs = Effect.fnUntraced(function* (
  tenant: Tenant,
  key: string,
  request: Claimed,
  held: { readonly id: string },
) {
  const sql = yield* SqlClient.SqlClient
  const print = fingerprint(request.method, request.path, request.body)
  const name = nameOf(key)
  const claimed = (resourceId: string | null): Claim => ({ key, held, resourceId })
  const { runner } = yield* takingOf(claimLease)
  if (yield* insertClaim(tenant, name, print, runner, held.id)) return claimed(null)
  const mine = sql`${ofTenant(sql, tenant, "r")} AND r.key = ${name}`
  // Its process is dead, or it is ours and we dropped it: by what is in hand at this moment.
  const { isDropped } = yield* takingOf(claimLease)
  const [found] = yield* sql<RecordRow>`
    SELECT fingerprint, resource_id, response_status, response_body, token, ${isDropped("r")} AS free FROM idempotency_record r WHERE ${mine}`
  // The first request was refused this instant and let go of the key.
  if (found === undefined) return yield* inProgress
  if (!Buffer.from(found.fingerprint).equals(Buffer.from(print))) {
    return yield* problem(
      "idempotency_key_reused",
      "This Idempotency-Key was used with another request: use a fresh key for this one.",
    )
  }
  if (found.response_status !== null)
    return { status: found.response_status, body: unseal(tenant, key, found.response_body!) } satisfies Stored
  if (!found.free) return yield* inProgress
  const taken = yield* sql`
    UPDATE idempotency_record r SET runner = ${runner}, token = ${held.id}
    WHERE ${mine} AND response_status IS NULL AND token = ${found.token} RETURNING 1`
  return taken.length > 0 ? claimed(found.resource_id) : yield* inProgress
})

const inProgress = problem(
  "idempotency_request_in_progress",
  "The first request with this Idempotency-Key is still being processed.",
)

/** The record of a claim, as long as it holds. */
const isHeld = (sql: SqlClient.SqlClient, tenant: Tenant, { key, held }: Claim) =>
  sql`${ofTenant(sql, tenant)} AND key = ${nameOf(key)} AND token = ${held.id}`

/** Writes to the record of a claim that still holds; one that was taken over fails, and its transaction with it. */
const write = Effect.fnUntraced(function* (
  tenant: Tenant,
  claim: Claim,
  columns: { readonly [name: string]: string | number | Uint8Array },
) {
  const sql = yield* SqlClient.SqlClient
  const written = yield* sql`
    UPDATE idempotency_record SET ${sql.update(columns)} WHERE ${isHeld(sql, tenant, claim)} RETURNING 1`
  if (written.length === 0) return yield* inProgress
})

/** Notes in the running transaction what the request has made so far. */
export const noteResource = (tenant: Tenant, claim: Claim, resourceId: string) =>
  write(tenant, claim, { resource_id: resourceId })

/** Stores the response, in the transaction of the work where there is one. */
export const store = (tenant: Tenant, claim: Claim, { status, body }: Stored) =>
  write(tenant, claim, { response_status: status, response_body: seal(tenant, claim.key, body) })

/** Says that this process is through with a claim, however it went. */
export const drop = ({ held }: Claim) => release(claimLease, [held])

/** Records deleted in one go. */
const MAX_PURGED = 5_000

/** Deletes records that are over a day old. */
export const purge = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM idempotency_record WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM idempotency_record WHERE created_at < now() - interval '24 hours' ORDER BY created_at LIMIT ${MAX_PURGED}))`
})

/**
 * Lets go of a key whose request failed before it made anything: the body may be fixed and sent again. Where it had made
 * something, the next try goes on with that.
 */
export const unclaim = Effect.fnUntraced(function* (tenant: Tenant, claim: Claim) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM idempotency_record
    WHERE ${isHeld(sql, tenant, claim)} AND response_status IS NULL AND resource_id IS NULL`
})
