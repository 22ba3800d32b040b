/** Encrypts the secrets in the database again under the newest key of this process. */
import { Effect } from "effect"
import { methodSecrets } from "../billing/payment_method/paymentMethods.ts"
import { readMoving } from "../db/moving.ts"
import { webhookSecrets } from "../outbound/webhook/secrets.ts"
import { credentialSecrets } from "../rails/credential/credential.ts"
import { rotate, type SecretTable } from "../security/secret/rotate.ts"
import { serviceSecrets } from "../security/secret/serviceSecrets.ts"
import { Refused } from "./failures.ts"
import { vault } from "./Installation.ts"

/** Credentials of rails, and the tokens that charge payment methods. */
export const RAIL_SECRETS: ReadonlyArray<SecretTable<never>> = [credentialSecrets, methodSecrets]

export const ALL_SECRETS: ReadonlyArray<SecretTable<never>> = [serviceSecrets, webhookSecrets, ...RAIL_SECRETS]

/** Encrypts all secrets of tables again and returns how many; fails if no key decrypts some of them, or some must not be written now. */
export const rotateAll = Effect.fnUntraced(function* (tables: ReadonlyArray<SecretTable<never>>) {
  // Read before and after: secrets of an account that arrives in between were skipped.
  const before = yield* readMoving(["copying", "opened"])
  const results = yield* Effect.forEach(tables, (table) => rotate(table))
  const sum = (of: "rotated" | "unopened") => results.reduce((total, result) => total + result[of], 0)
  const rotated = sum("rotated")
  const unopened = sum("unopened")
  if (unopened > 0) {
    const examples = results.flatMap(({ named }) => named.map((place) => place.join(" ")))
    const message = `No ENCRYPTION_KEY of this process opens ${unopened} secrets, such as ${examples.join(", ")}; ${rotated} were encrypted again.`
    return yield* new Refused({ message })
  }
  const moving = [...new Set([...before, ...(yield* readMoving(["copying", "opened"]))])]
  if (moving.length > 0) {
    const message = `${rotated} secrets were encrypted again, but none of ${moving.join(", ")}, on its way between cells: keep the older keys, and run this again in both cells after the move.`
    return yield* new Refused({ message })
  }
  return rotated
}, Effect.provide(vault))
