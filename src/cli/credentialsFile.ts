/** Reads an account's credentials at a rail from a file or standard input (decision P1). */
import { createReadStream } from "node:fs"
import { Effect } from "effect"
import { credentialsOf } from "../rails/credential/reading.ts"
import type { OutsideRail } from "../rails/rail/Rail.ts"
import { BadUsage } from "./failures.ts"

const STANDARD_INPUT = "-"
/** Two keys and their names need a few hundred bytes. */
const MAX_BYTES = 4096

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

/** Reads the credentials of a rail, complete and without other fields. `production`: live charges must be real. */
export const readCredentials = Effect.fnUntraced(function* (path: string, rail: OutsideRail, production: boolean) {
  const fields = new Map<string, unknown>(Object.entries(yield* Effect.flatMap(read(path), parse)))
  const found = credentialsOf(fields, rail, production)
  return "wrong" in found ? yield* refused(found.wrong.message) : found.credentials
})
