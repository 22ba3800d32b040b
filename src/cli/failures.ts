/** How a command can fail, with the error line and exit code. */
import { Cause, Data, Effect, Runtime } from "effect"
import { Problem } from "../base/problem.ts"
import { CellProblem } from "../cells/CellProblem.ts"
import { ConfigProblem } from "../config/Config.ts"
import { databaseReason, isUnreachable } from "../postgres/errors.ts"
import { ClocksDisagree } from "../process/DatabaseClock.ts"
import { writeTo } from "./output.ts"

const BAD_USAGE_CODE = 2

/** The requested object does not exist, or its state does not allow the command. */
export class Refused extends Data.TaggedError("Refused")<{ readonly message: string }> {}

/** A check has found errors; its document lists them. */
export class Unsound extends Data.TaggedError("Unsound") {}

/** The command line is wrong; the message has the error and the usage. */
export class BadUsage extends Data.TaggedError("BadUsage")<{ readonly message: string }> {
  override readonly [Runtime.errorExitCode] = BAD_USAGE_CODE
}

/** Returns an object that was looked up by its ID; fails if there is none. */
export const found =
  (noun: string, id: string) =>
  <A>(object: A | undefined): Effect.Effect<A, Refused> =>
    object === undefined ? Effect.fail(new Refused({ message: `No such ${noun}: ${id}.` })) : Effect.succeed(object)

/** The error if the database that an option names cannot be used. */
export const unusableDatabase =
  (option: string) =>
  (error: { readonly message: string }): Refused =>
    new Refused({ message: `${option} cannot be used: ${oneLine(databaseReason(error) ?? error.message)}` })

/** Joins the lines of a message. */
export const oneLine = (message: string): string => message.replace(/\s*\p{Cc}\s*/gu, " ")

const messageOf = (error: unknown): string => {
  if (error instanceof BadUsage) return error.message
  const reason = databaseReason(error)
  if (reason !== undefined)
    return isUnreachable(error)
      ? `The database cannot be used (DATABASE_URL): ${oneLine(reason)}`
      : `The command failed: ${oneLine(reason)}`
  const explained = [Refused, CellProblem, ClocksDisagree, ConfigProblem, Problem].some((kind) => error instanceof kind)
  const message = oneLine(error instanceof Error ? error.message : String(error))
  return explained ? message : `The command failed: ${message}`
}

/** Writes to standard error why a command failed, unless its own output has done so. */
export const report = (cause: Cause.Cause<unknown>): Effect.Effect<void> => {
  const error = Cause.squash(cause)
  if (error instanceof Unsound || Cause.hasInterruptsOnly(cause)) return Effect.void
  return Effect.ignore(writeTo(process.stderr, `${messageOf(error)}\n`))
}
