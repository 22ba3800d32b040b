/** Credentials of an account at a rail, encrypted at rest (decision P2). Accounts have them in live only. */
import { Effect, Redacted } from "effect"
import type { ConfigProblem } from "../../config/Config.ts"
import type { SecretTable } from "../../security/secret/rotate.ts"
import { type Place, Vault } from "../../security/secret/Vault.ts"
import type { Credentials, OutsideRail } from "../rail/Rail.ts"

/** An account at a rail. */
export interface RailAccount {
  readonly account_id: string
  readonly rail: OutsideRail
}

/** A reference to credentials. Replacements have a new ID. */
export interface CredentialRef extends RailAccount {
  readonly id: string
}

export interface SealedCredentials extends CredentialRef {
  readonly sealed: Uint8Array
}

const placeOf = ({ account_id, rail, id }: CredentialRef): Place => ["rail_credential", account_id, rail, id]

export const credentialSecrets: SecretTable<CredentialRef> = {
  name: "rail_credential",
  key: { account_id: "text", livemode: "boolean", id: "text", rail: "text" },
  placeOf,
}

export const sealCredentials = (
  ref: CredentialRef,
  credentials: Credentials,
): Effect.Effect<Uint8Array, never, Vault> =>
  Effect.map(Vault, (vault) => {
    const fields = Object.entries(credentials).map(([name, value]) => [name, Redacted.value(value)])
    return vault.seal(placeOf(ref), Redacted.make(JSON.stringify(Object.fromEntries(fields))))
  })

/** Decrypts credentials. Fails if no key of this process can decrypt them. */
export const openCredentials = (row: SealedCredentials): Effect.Effect<Credentials, ConfigProblem, Vault> =>
  Effect.map(
    Effect.flatMap(Vault, (vault) => vault.open(placeOf(row), row.sealed)),
    (opened) => {
      const fields = JSON.parse(Redacted.value(opened).toString()) as Readonly<Record<string, string>>
      return Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, Redacted.make(value)]))
    },
  )
