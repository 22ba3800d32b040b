/** Reads an account's credentials at a rail from a file or standard input (decision P1). */
import { createReadStream } from "node:fs"
import { Effect, Redacted } from "effect"
import { type Credentials, OTHER_KEYS, type OutsideRail, RAIL_CREDENTIALS } from "../rails/rail/Rail.ts"
import { BadUsage } from "./failures.ts"

const STANDARD_INPUT = "-"
/** Two keys and their names need a few hundred bytes. */
const MAX_BYTES = 4096
const MAX_VALUE_BYTES = 500
/** How many characters of a refused name are shown. */
const MAX_SHOWN = 80

/** Error messages never contain possible credentials, nor the option's value, which could be a key by mistake. */
const refused = (message: string) => new BadUsage({ message: `--credentials: ${message}` })

const tooLarge = refused(`the file has more than ${MAX_BYTES} bytes.`)

/** Reads a file or standard input. */
const read = (path: string): Effect.Effect<string, BadUsage> =>
  Effect.tryPromise({
    try: async () => {
      const chunks: Array<Buffer> = []
      let size = 0
      for await (const chunk of path === STANDARD_INPUT ? process.stdin : createReadStream(path)) {
        size += chunk.length
        if (size > MAX_BYTES) throw tooLarge
        chunks.push(chunk)
      }
      return Buffer.concat(chunks).toString("utf8")
    },
    catch: (error) =>
      error instanceof BadUsage
        ? error
        : refused(`the file cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown reason"}).`),
  })

const parse = (text: string): Effect.Effect<object, BadUsage> =>
  Effect.try({
    try: () => {
      const parsed: unknown = JSON.parse(text)
      if (typeof parsed !== "object" || parsed === null || Array.isArray(parsed)) throw new Error("no object")
      return parsed
    },
    // A parser's message could contain a part of the file.
    catch: () => refused("the file is not a JSON object."),
  })

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
export const readCredentials = Effect.fnUntraced(function* (path: string, rail: OutsideRail, production: boolean) {
  const fields = new Map<string, unknown>(Object.entries(yield* Effect.flatMap(read(path), parse)))
  const names = RAIL_CREDENTIALS[rail]
  const takes = `${rail} takes ${names.join(" and ")}`
  const unknown = [...fields.keys()].find((name) => !names.includes(name))
  if (unknown !== undefined)
    return yield* refused(`there is no ${JSON.stringify(unknown.slice(0, MAX_SHOWN))}: ${takes}.`)
  const missing = names.find((name) => !fields.has(name))
  if (missing !== undefined) return yield* refused(`${missing} is missing: ${takes}.`)
  const credentials = yield* Effect.forEach(names, (name) => {
    const value = fields.get(name)
    return isValue(value)
      ? Effect.succeed([name, Redacted.make(value)] as const)
      : Effect.fail(
          refused(`${name} must be a text of 1 to ${MAX_VALUE_BYTES} printable ASCII characters without spaces.`),
        )
  })
  const objection = objectionTo(rail, String(fields.get("secret_key")), production)
  if (objection !== undefined) return yield* refused(objection)
  return Object.fromEntries(credentials) satisfies Credentials
})
