/**
 * What idempotency records are named by and encrypted with. It follows from the caller's Idempotency-Key, which is kept
 * nowhere, and from a secret of the service, which lies in the database sealed under ENCRYPTION_KEY. So a dump alone allows
 * no guess: neither of a key by its name, nor of a body by its fingerprint, nor of an answer.
 *
 * The secret stays when ENCRYPTION_KEY is rotated, and only its seal is renewed: every process that starts at all has
 * opened it, whichever of its keys is the newest. So all processes name a record alike at all times. While a rotation
 * restarts them one by one, two that get the same request at once still meet in one row, whose primary key lets one of
 * them claim it; and records from before a rotation are found after it, even where the old key is taken away within a
 * day. Names that followed from ENCRYPTION_KEY itself would differ between processes with different newest keys.
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

/** What a record belongs to beside its key: another request may not use it. */
export interface Claimed {
  readonly method: string
  readonly path: string
  readonly body: unknown
}

/** One Idempotency-Key of one tenant. */
export interface RecordKey {
  /** What its record is found by. */
  readonly name: string
  readonly fingerprint: (request: Claimed) => Uint8Array
  readonly seal: (response: string) => Uint8Array
  readonly open: (sealed: Uint8Array) => string
}

const textOf = ({ method, path, body }: Claimed): string => `${method} ${path}\n${canonical(body)}`

/** `derive`, done again only where what it derives from is another. */
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
      const mac = (of: Uint8Array, text: string) => createHmac("sha256", of).update(text).digest()
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
