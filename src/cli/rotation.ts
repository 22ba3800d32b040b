/** Secrets in the database, written anew under the newest key of this process. */
import { Effect } from "effect"
import { methodSecrets } from "../billing/payment_method/paymentMethods.ts"
import { readMoving } from "../db/moving.ts"
import { webhookSecrets } from "../outbound/webhook/secrets.ts"
import { credentialSecrets } from "../rails/credential/credential.ts"
import { rotate, type SecretTable } from "../security/secret/rotate.ts"
import { serviceSecrets } from "../security/secret/serviceSecrets.ts"
import { Refused } from "./failures.ts"
import { vault } from "./Installation.ts"

/** What rails are called with, and what they charge payment methods by. */
export const RAIL_SECRETS: ReadonlyArray<SecretTable<never>> = [credentialSecrets, methodSecrets]

export const ALL_SECRETS: ReadonlyArray<SecretTable<never>> = [serviceSecrets, webhookSecrets, ...RAIL_SECRETS]

/** Writes all secrets of tables anew and returns how many; refuses where no key opens some, or some may not be written. */
export const rotateAll = Effect.fnUntraced(function* (tables: ReadonlyArray<SecretTable<never>>) {
  // One that arrives meanwhile was passed over all the same.
  const before = yield* readMoving(["copying", "opened"])
  const results = yield* Effect.forEach(tables, (table) => rotate(table))
  const sum = (of: "rotated" | "unopened") => results.reduce((total, result) => total + result[of], 0)
  const rotated = sum("rotated")
  const unopened = sum("unopened")
  if (unopened > 0) {
    const such = results.flatMap(({ named }) => named.map((place) => place.join(" ")))
    const message = `No ENCRYPTION_KEY of this process opens ${unopened} secrets, such as ${such.join(", ")}; ${rotated} were written anew.`
    return yield* new Refused({ message })
  }
  const moving = [...new Set([...before, ...(yield* readMoving(["copying", "opened"]))])]
  if (moving.length > 0) {
    const message = `${rotated} secrets were written anew, but none of ${moving.join(", ")}, on its way between cells: keep the older keys, and run this again in both cells once it has moved.`
    return yield* new Refused({ message })
  }
  return rotated
}, Effect.provide(vault))
