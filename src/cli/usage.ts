/** The usage of commands, and the errors of a command line that cannot run. */
import { Effect, Layer, Stream } from "effect"
import { CliError, CliOutput, Command, type HelpDoc } from "effect/cli"
import { BadUsage, oneLine } from "./failures.ts"
import { print } from "./output.ts"

/** The complete command line: only the terminal is left to provide. */
type Root<Name extends string, Input, Shared, E> = Command.Command<Name, Input, Shared, E, never>

/** The text of `--version`, which is not offered. */
const UNVERSIONED = { version: "" }

const argumentUsage = ({ name, type, required, variadic }: HelpDoc.ArgDoc): string => {
  const shown = `${type === "string" ? name : type}${variadic ? "…" : ""}`
  return required ? shown : `[${shown}]`
}

const optionUsage = ({ name, type, required }: HelpDoc.FlagDoc): string => {
  const shown = type === "boolean" ? `--${name}` : `--${name} ${type}`
  return required ? shown : `[${shown}]`
}

const usageOf = ({ commandPath = [], args = [], flags }: HelpDoc.HelpDoc): string =>
  [...commandPath.slice(1), ...args.map(argumentUsage), ...flags.map(optionUsage)].join(" ")

/** Returns the documents for `--help` of the command at `path`. */
const helpOf = Effect.fnUntraced(function* <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  path: ReadonlyArray<string>,
) {
  const docs: Array<HelpDoc.HelpDoc> = []
  const collect = CliOutput.Presenter.of({
    present: (event) =>
      Effect.sync(() => {
        if (event._tag === "Help") docs.push(event.helpDoc)
      }),
  })
  yield* Command.runWith(
    root,
    UNVERSIONED,
  )([...path, "--help"]).pipe(Effect.provideService(CliOutput.Presenter, collect), Effect.orDie)
  return docs
})

/** Returns the usage of the command at `path`, or of all commands below it. */
const usages = Effect.fnUntraced(function* <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  path: ReadonlyArray<string>,
): Effect.fn.Return<ReadonlyArray<string>, never, Command.Environment> {
  const docs = yield* helpOf(root, path)
  const below = docs.flatMap(({ subcommands = [] }) => subcommands.flatMap(({ commands }) => commands))
  if (below.length === 0) return docs.map(usageOf)
  return (yield* Effect.forEach(below, ({ name }) => usages(root, [...path, name]))).flat()
})

/** Returns the help of the command at `path`: all usages below it, one per line. */
const helpText = <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  path: ReadonlyArray<string>,
) =>
  Effect.map(usages(root, path), (lines) =>
    ["Usage: npm run --silent cli -- <command> [--json]", ...lines.map((line) => `  ${line}`)].join("\n"),
  )

const invalidValue = ({ option, value, expected, kind }: CliError.InvalidValue): string => {
  const name = kind === "flag" ? `--${option}` : option
  return value.trim() === "" ? `${name} needs a value.` : `${name} must be ${expected}, not ${value}.`
}

const didYouMean = (suggestions: ReadonlyArray<string>): string =>
  suggestions.length === 0 ? "" : ` Did you mean ${suggestions.join(" or ")}?`

const messageOf = (error: CliError.NonShowHelpErrors): string => {
  switch (error._tag) {
    case "UnrecognizedOption":
      return `The command takes no ${error.option}.${didYouMean(error.suggestions)}`
    case "UnexpectedArgument":
      return `The command takes no argument ${error.arguments.join(" ")}.`
    case "UnknownSubcommand":
      return `There is no command ${error.subcommand}.${didYouMean(error.suggestions)}`
    case "MissingOption":
      return `--${error.option} is needed.`
    case "MissingArgument":
      return `The command needs ${error.argument}.`
    case "InvalidValue":
      return invalidValue(error)
    default:
      return error.message
  }
}

/** Fails with the errors and the usage on one line; without a command, with the help of all commands. */
const badUsage = Effect.fnUntraced(function* <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  { commandPath, errors }: CliError.ShowHelp,
) {
  const path = commandPath.slice(1)
  const messages = errors.map((error) => oneLine(messageOf(error)))
  const [usage = "", ...more] = yield* usages(root, path)
  const message =
    more.length === 0
      ? [...messages, `Usage: ${usage}`].join(" ")
      : [...messages, yield* helpText(root, path)].join("\n")
  return yield* new BadUsage({ message })
})

/** Prints requested help; errors are in the failure that ends the run. */
const presenter = <Name extends string, Input, Shared, E>(root: Root<Name, Input, Shared, E>) =>
  Layer.effect(
    CliOutput.Presenter,
    Effect.map(Effect.context<Command.Environment>(), (environment) => ({
      present: (event: CliOutput.Presenter.Event) =>
        event._tag !== "Help" || event.reason !== "Requested"
          ? Effect.void
          : helpText(root, event.commandPath.slice(1)).pipe(
              Effect.flatMap((help) => print(Stream.make(`${help}\n`))),
              Effect.orDie,
              Effect.provideContext(environment),
            ),
    })),
  )

/** Runs the command in the process's arguments. */
export const run = <Name extends string, Input, Shared, E>(root: Root<Name, Input, Shared, E>) =>
  Command.run(root, UNVERSIONED).pipe(
    Effect.catchIf(
      (error) => error instanceof CliError.ShowHelp,
      (help) => badUsage(root, help),
    ),
    Effect.provide(presenter(root)),
  )
