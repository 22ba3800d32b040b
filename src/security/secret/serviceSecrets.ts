/** Random values of the service itself, which all processes share: what links are signed with, and the like, as they are stored. */
import { randomBytes } from "node:crypto"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { SecretTable } from "./rotate.ts"
import { type Place, Vault } from "./Vault.ts"

const SECRET_BYTES = 32

/** What tells every process that secrets were replaced. */
export const SECRETS_CHANNEL = "service_secrets"

const placeOf = ({ name }: { readonly name: string }): Place => ["service_secret", name]

export const serviceSecrets: SecretTable<{ readonly name: string }> = {
  name: "service_secret",
  key: { name: "text" },
  clear: "value",
  placeOf,
}

/** The secret of this name; whoever asks first makes it. 32 bytes. */
export const serviceSecret = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const place = placeOf({ name })
  const fresh = vault.seal(place, Redacted.make(randomBytes(SECRET_BYTES)))
  yield* sql`INSERT INTO service_secret (name, sealed) VALUES (${name}, ${fresh}) ON CONFLICT DO NOTHING`
  const [row] = yield* sql<{ value: Uint8Array | null; sealed: Uint8Array | null }>`
    SELECT value, sealed FROM service_secret WHERE name = ${name}`
  return row!.sealed === null ? Redacted.make(row!.value!) : yield* vault.open(place, row!.sealed)
})
