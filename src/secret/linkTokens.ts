/**
 * Tokens of links that whoever has them may follow: 256 bits that nobody can guess. A token is never stored: it follows from
 * the ID of what it leads to and a secret of the service, and is found by its hash.
 */
import { createHash, createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import { serviceSecret } from "./serviceSecrets.ts"

/** What is kept of a token. */
export const hashToken = (token: string): string => createHash("sha256").update(token).digest("hex")

/** What makes the tokens of links of one kind, whose secret has this name. */
export const linkTokens = (secretName: string) =>
  Effect.map(
    serviceSecret(secretName),
    (secret) =>
      (id: string): string =>
        createHmac("sha256", Redacted.value(secret)).update(id).digest("base64url"),
  )
