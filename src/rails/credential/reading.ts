/** Checks an account's credentials at a rail, as people give them in a file or a form (decision P1). */
import { Redacted } from "effect"
import { type Credentials, OTHER_KEYS, type OutsideRail, RAIL_CREDENTIALS } from "../rail/Rail.ts"

const MAX_VALUE_BYTES = 500
/** How many characters of a refused name are shown. */
const MAX_SHOWN = 80

/** What is wrong with given credentials. The message never contains a value. */
export interface WrongCredentials {
  readonly name: string
  readonly message: string
}

/** Whether a value is printable text without spaces: it becomes a header of a request. */
const isValue = (value: unknown): value is string =>
  typeof value === "string" && value.length <= MAX_VALUE_BYTES && /^[\x21-\x7e]+$/.test(value)

/** The error for a key that belongs to the rail but is not the key for live charges. */
const objectionTo = (rail: OutsideRail, key: string, production: boolean): string | undefined => {
  const kinds = OTHER_KEYS[rail]
  if (key.startsWith(kinds.public)) return "secret_key is a public key: use the secret one."
  return production && key.startsWith(kinds.test)
    ? "secret_key is a test key, which moves no money: use the live one."
    : undefined
}

/** Reads the credentials of a rail, complete and without other fields. `production`: live charges must be real. */
export const credentialsOf = (
  fields: ReadonlyMap<string, unknown>,
  rail: OutsideRail,
  production: boolean,
): { readonly credentials: Credentials } | { readonly wrong: WrongCredentials } => {
  const names = RAIL_CREDENTIALS[rail]
  const takes = `${rail} takes ${names.join(" and ")}`
  const wrong = (name: string, message: string) => ({ wrong: { name, message } })
  const unknown = [...fields.keys()].find((name) => !names.includes(name))
  if (unknown !== undefined)
    return wrong(unknown, `there is no ${JSON.stringify(unknown.slice(0, MAX_SHOWN))}: ${takes}.`)
  const missing = names.find((name) => !fields.has(name))
  if (missing !== undefined) return wrong(missing, `${missing} is missing: ${takes}.`)
  const unusable = names.find((name) => !isValue(fields.get(name)))
  if (unusable !== undefined)
    return wrong(
      unusable,
      `${unusable} must be a text of 1 to ${MAX_VALUE_BYTES} printable ASCII characters without spaces.`,
    )
  const objection = objectionTo(rail, String(fields.get("secret_key")), production)
  if (objection !== undefined) return wrong("secret_key", objection)
  return { credentials: Object.fromEntries(names.map((name) => [name, Redacted.make(String(fields.get(name)))])) }
}
