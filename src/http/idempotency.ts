/**
 * Idempotency-Key (spec 8): the first request claims the key, its answer is stored in the transaction of its work, and
 * every later one with the same method, path and body gets that answer. A claim whose process has died is taken over.
 */
import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes, randomUUID } from "node:crypto"
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { canonical } from "../canonical.ts"
import type { Tenant } from "../db/tenant.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import { problem } from "../problem.ts"

const LONGEST_KEY = 255

export interface Claim {
  /** As the caller sent it. */
  readonly key: string
  /** Of this try alone: a try that was taken over can store nothing any more. */
  readonly token: string
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

/** Answers may hold secrets, so they are kept encrypted, with what only the caller knows: the key of the request. */
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
    const { id: runner, claims } = yield* Runner
    const token = randomUUID()
    // Before the row says so: to another request the claim would look dropped in between.
    claims.add(token)
    return yield* claimAs(tenant, key, request, runner, token).pipe(
      Effect.onExit((exit) =>
        Effect.sync(() => {
          if (Exit.isFailure(exit) || "status" in exit.value) claims.delete(token)
        }),
      ),
    )
  })

const claimAs = (
  tenant: Tenant,
  key: string,
  request: { readonly method: string; readonly path: string; readonly body: unknown },
  runner: number,
  token: string,
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { claims } = yield* Runner
    const print = fingerprint(request.method, request.path, request.body)
    const name = nameOf(key)
    const mine = sql`account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${name}`
    // Its process is dead, or it is ours and we dropped it: judged by what is in hand when it is asked.
    const free = () =>
      sql`(${isDead(sql, "runner", runner)} OR runner = ${runner} AND NOT token = ANY(${[...claims]}::text[]))`
    const held = (resourceId: string | null): Claim => ({ key, token, resourceId })
    const inserted = yield* sql`
      INSERT INTO idempotency_record (account_id, livemode, key, fingerprint, runner, token)
      VALUES (${tenant.account_id}, ${tenant.livemode}, ${name}, ${print}, ${runner}, ${token})
      ON CONFLICT (account_id, livemode, key) DO UPDATE SET fingerprint = excluded.fingerprint, runner = excluded.runner,
        token = excluded.token, resource_id = NULL, response_status = NULL, response_body = NULL, created_at = now()
        WHERE idempotency_record.created_at < now() - interval '24 hours'
      RETURNING 1`
    if (inserted.length > 0) return held(null)
    const [found] = yield* sql<RecordRow>`
      SELECT fingerprint, resource_id, response_status, response_body, token, ${free()} AS free FROM idempotency_record WHERE ${mine}`
    // The first request was refused this instant and let go of the key.
    if (found === undefined) return yield* inProgress
    if (!Buffer.from(found.fingerprint).equals(Buffer.from(print))) {
      return yield* problem(
        "idempotency_key_reused",
        "This Idempotency-Key was used with another request: use a fresh key for this one.",
      )
    }
    if (found.response_status !== null)
      return {
        status: found.response_status,
        body: unseal(tenant, key, found.response_body!),
      } satisfies Stored
    if (!found.free) return yield* inProgress
    const taken = yield* sql`
      UPDATE idempotency_record SET runner = ${runner}, token = ${token}
      WHERE ${mine} AND response_status IS NULL AND token = ${found.token} RETURNING 1`
    return taken.length > 0 ? held(found.resource_id) : yield* inProgress
  })

const inProgress = problem(
  "idempotency_request_in_progress",
  "The first request with this Idempotency-Key is still being processed.",
)

/** Writes to the record of a claim that still holds; one that was taken over fails, and its transaction with it. */
const write = (
  tenant: Tenant,
  { key, token }: Claim,
  columns: { readonly [name: string]: string | number | Uint8Array },
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const written = yield* sql`
      UPDATE idempotency_record SET ${sql.update(columns)}
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${nameOf(key)} AND token = ${token} RETURNING 1`
    if (written.length === 0) return yield* inProgress
  })

/** Notes in the running transaction what the request has made so far. */
export const noteResource = (tenant: Tenant, claim: Claim, resourceId: string) =>
  write(tenant, claim, { resource_id: resourceId })

/** Stores the answer, in the transaction of the work where there is one. */
export const store = (tenant: Tenant, claim: Claim, { status, body }: Stored) =>
  write(tenant, claim, { response_status: status, response_body: seal(tenant, claim.key, body) })

/** Says that this process is through with a claim, however it went. */
export const drop = ({ token }: Claim) => Effect.map(Runner, ({ claims }) => void claims.delete(token))

/** Records are kept this many hours (spec 8); each sweep deletes at most a batch. */
const PURGE_BATCH = 5_000

/** Deletes records that are over a day old. */
export const purge = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    DELETE FROM idempotency_record WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM idempotency_record WHERE created_at < now() - interval '24 hours' ORDER BY created_at LIMIT ${PURGE_BATCH}))`
})

/**
 * Lets go of a key whose request failed before it made anything: the body may be mended and sent again (spec 8). Where
 * it had made something, the next try goes on with that.
 */
export const release = (tenant: Tenant, { key, token }: Claim) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      DELETE FROM idempotency_record
      WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND key = ${nameOf(key)} AND token = ${token}
        AND response_status IS NULL AND resource_id IS NULL`
  })
