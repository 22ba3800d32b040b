/**
 * Derives the names and the encryption keys of idempotency records. Both are derived from the caller's Idempotency-Key, which is
 * not stored, and from a secret of the service, which is in the database, sealed under ENCRYPTION_KEY. So a database dump alone
 * allows no guess of a key by its name, of a body by its fingerprint, or of a response.
 *
 * A rotation of ENCRYPTION_KEY keeps the secret and seals it again: every process that starts can open it with one of its keys. So
 * all processes always give a record the same name. While a rotation restarts them one by one, two processes that get the same
 * request use one row, and its primary key lets only one insert it. Records from before a rotation are found after it, even if the
 * old key is removed within a day. Names that were derived from ENCRYPTION_KEY itself would differ between processes with
 * different newest keys.
 */
import { createHmac } from "node:crypto"
import { Context, Effect, Layer, Redacted } from "effect"
import type { SqlError } from "effect/sql"
import { canonical } from "../base/json.ts"
import type { ConfigProblem } from "../config/Config.ts"
import type { Tenant } from "../db/tenant.ts"
import { decrypt, deriveKey, encrypt } from "../security/secret/cipher.ts"
import { SharedSecrets } from "../security/secret/SharedSecrets.ts"

const SECRET = "idempotency_records"

/** The request that a record belongs to: another request may not use the same key. */
export interface KeyedRequest {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

/** One Idempotency-Key of one tenant. */
export interface RecordKey {
  /** The name by which its record is found. */
  readonly name: string
  readonly fingerprint: (request: KeyedRequest) => Uint8Array
  readonly seal: (response: string) => Uint8Array
  readonly open: (sealed: Uint8Array) => string
}

const textOf = ({ method, path, body }: KeyedRequest): string => `${method} ${path}\n${canonical(body)}`

/** Caches the last result of `derive`: it runs again only if its input is another object. */
const derivedOnce = <To>(derive: (from: Redacted.Redacted<Uint8Array>) => To) => {
  let last: { readonly from: Redacted.Redacted<Uint8Array>; readonly to: To } | undefined
  return (from: Redacted.Redacted<Uint8Array>): To => {
    if (last?.from !== from) last = { from, to: derive(from) }
    return last.to
  }
}

export class RecordKeys extends Context.Service<
  RecordKeys,
  { readonly of: (tenant: Tenant, key: string) => RecordKey }
>()("billing/http/RecordKeys") {
  static readonly layer: Layer.Layer<RecordKeys, SqlError.SqlError | ConfigProblem, SharedSecrets> = Layer.effect(
    RecordKeys,
    Effect.gen(function* () {
      const secret = yield* (yield* SharedSecrets).get(SECRET)
      const keys = derivedOnce((from) => {
        const [naming, printing, sealing] = ["name", "fingerprint", "response"].map((use) =>
          deriveKey(Redacted.value(from), use),
        )
        return { naming: naming!, printing: printing!, sealing: sealing! }
      })
      const mac = (macKey: Uint8Array, text: string) => createHmac("sha256", macKey).update(text).digest()
      return RecordKeys.of({
        of: ({ account_id, livemode }, key) => {
          const { naming, printing, sealing } = keys(secret())
          const name = mac(naming, JSON.stringify([account_id, livemode, key])).toString("base64url")
          const cipherKey = () => deriveKey(key, name, sealing)
          return {
            name,
            fingerprint: (request) => mac(printing, `${name}\n${textOf(request)}`),
            seal: (response) => encrypt(cipherKey(), response, name),
            open: (sealed) => decrypt(cipherKey(), sealed, name).toString(),
          }
        },
      })
    }),
  )
}
