/** How a command can fail, and the line and exit code that say so. */
import { Cause, Data, Effect, Runtime } from "effect"
import { CellsApart } from "../cells/CellsApart.ts"
import { ConfigProblem } from "../config/Config.ts"
import { databaseReason, isUnreachable } from "../postgres/errors.ts"
import { ClocksDisagree } from "../process/DatabaseClock.ts"
import { KeyUnusable } from "../security/key/apiKeys.ts"
import { writeTo } from "./output.ts"

const BAD_USAGE_CODE = 2

/** What the operator asks for is not there, or cannot be as things stand. */
export class Refused extends Data.TaggedError("Refused")<{ readonly message: string }> {}

/** The document that a check has shown says that something is wrong. */
export class Unsound extends Data.TaggedError("Unsound") {}

/** The command line itself is wrong; the message says what, and how it is used. */
export class BadUsage extends Data.TaggedError("BadUsage")<{ readonly message: string }> {
  override readonly [Runtime.errorExitCode] = BAD_USAGE_CODE
}

/** Passes on what was looked up by its ID; refuses where there is none. */
export const found =
  (noun: string, id: string) =>
  <A>(looked: A | undefined): Effect.Effect<A, Refused> =>
    looked === undefined ? Effect.fail(new Refused({ message: `No such ${noun}: ${id}.` })) : Effect.succeed(looked)

/** Why the database that an option names cannot be used. */
export const unusableDatabase =
  (option: string) =>
  (error: { readonly message: string }): Refused =>
    new Refused({ message: `${option} cannot be used: ${oneLine(databaseReason(error) ?? error.message)}` })

/** What is broken over lines, as one. */
export const oneLine = (message: string): string => message.replace(/\s*\p{Cc}\s*/gu, " ")

const messageOf = (error: unknown): string => {
  if (error instanceof BadUsage) return error.message
  const reason = databaseReason(error)
  if (reason !== undefined)
    return isUnreachable(error)
      ? `The database cannot be used (DATABASE_URL): ${oneLine(reason)}`
      : `The command failed: ${oneLine(reason)}`
  const explained = [Refused, CellsApart, ClocksDisagree, ConfigProblem, KeyUnusable].some(
    (kind) => error instanceof kind,
  )
  const message = oneLine(error instanceof Error ? error.message : String(error))
  return explained ? message : `The command failed: ${message}`
}

/** Says on standard error why a command failed, unless its own output has said so. */
export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.squash(cause)
  if (error instanceof Unsound || Cause.hasInterruptsOnly(cause)) return Effect.void
  return Effect.ignore(writeTo(process.stderr, `${messageOf(error)}\n`))
}
