/** The file or the standard input in which an account's credentials at a rail are given (decision P1). */
import { createReadStream } from "node:fs"
import { Effect, Redacted } from "effect"
import { type Credentials, OTHER_KEYS, type OutsideRail, RAIL_CREDENTIALS } from "../rails/rail/Rail.ts"
import { BadUsage } from "./failures.ts"

const STANDARD_INPUT = "-"
/** Two keys and their names have a few hundred. */
const MAX_BYTES = 4096
const MAX_VALUE_BYTES = 500
/** Of a name that is refused. */
const MAX_SHOWN = 80

/** What is said of credentials never holds what they may be, nor the option's value, in case that is a key by mistake. */
const refused = (message: string) => new BadUsage({ message: `--credentials: ${message}` })

const tooLarge = refused(`what it names holds more than ${MAX_BYTES} bytes.`)

/** What a file or the standard input holds. */
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
        : refused(`what it names cannot be read (${(error as NodeJS.ErrnoException).code ?? "unknown reason"}).`),
  })

const parse = (text: string): Effect.Effect<object, BadUsage> =>
  Effect.try({
    try: () => {
      const given: unknown = JSON.parse(text)
      if (typeof given !== "object" || given === null || Array.isArray(given)) throw new Error("no object")
      return given
    },
    // What is wrong with it would be said in its own words.
    catch: () => refused("what it names is no JSON object."),
  })

/** Printable, without spaces: it becomes a header of a request. */
const isValue = (value: unknown): value is string =>
  typeof value === "string" && value.length <= MAX_VALUE_BYTES && /^[\x21-\x7e]+$/.test(value)

/** What is wrong with a key that is one of the rail's, and not the one that live charges are made with. */
const objectionTo = (rail: OutsideRail, key: string, production: boolean): string | undefined => {
  const kinds = OTHER_KEYS[rail]
  if (key.startsWith(kinds.public)) return "secret_key is a public key: give the secret one."
  return production && key.startsWith(kinds.test)
    ? "secret_key is a test key, with which no money moves: give the live one."
    : undefined
}

/** The credentials of a rail, all of them and nothing else. `production`: where charges of live are to be real. */
export const readCredentials = Effect.fnUntraced(function* (path: string, rail: OutsideRail, production: boolean) {
  const given = new Map<string, unknown>(Object.entries(yield* Effect.flatMap(read(path), parse)))
  const names = RAIL_CREDENTIALS[rail]
  const takes = `${rail} takes ${names.join(" and ")}`
  const unknown = [...given.keys()].find((name) => !names.includes(name))
  if (unknown !== undefined)
    return yield* refused(`there is no ${JSON.stringify(unknown.slice(0, MAX_SHOWN))}: ${takes}.`)
  const missing = names.find((name) => !given.has(name))
  if (missing !== undefined) return yield* refused(`${missing} is missing: ${takes}.`)
  const credentials = yield* Effect.forEach(names, (name) => {
    const value = given.get(name)
    return isValue(value)
      ? Effect.succeed([name, Redacted.make(value)] as const)
      : Effect.fail(
          refused(`${name} must be a text of 1 to ${MAX_VALUE_BYTES} printable ASCII characters without spaces.`),
        )
  })
  const objection = objectionTo(rail, String(given.get("secret_key")), production)
  if (objection !== undefined) return yield* refused(objection)
  return Object.fromEntries(credentials) satisfies Credentials
})
