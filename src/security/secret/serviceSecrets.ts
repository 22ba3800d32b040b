/** Stored random values that all processes of the service share, such as the secrets that sign links. */
import { randomBytes } from "node:crypto"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { SecretTable } from "./rotate.ts"
import { type Place, Vault } from "./Vault.ts"

const SECRET_BYTES = 32

/** The channel of the notification that secrets were replaced. */
export const SECRETS_CHANNEL = "service_secrets"

const placeOf = ({ name }: { readonly name: string }): Place => ["service_secret", name]

export const serviceSecrets: SecretTable<{ readonly name: string }> = {
  name: "service_secret",
  key: { name: "text" },
  placeOf,
}

/** Reads the secret of this name, 32 bytes; the first call creates it. */
export const serviceSecret = Effect.fnUntraced(function* (name: string) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  const place = placeOf({ name })
  const fresh = vault.seal(place, Redacted.make(randomBytes(SECRET_BYTES)))
  yield* sql`INSERT INTO service_secret (name, sealed) VALUES (${name}, ${fresh}) ON CONFLICT DO NOTHING`
  const [row] = yield* sql<{ sealed: Uint8Array }>`SELECT sealed FROM service_secret WHERE name = ${name}`
  return yield* vault.open(place, row!.sealed)
})
