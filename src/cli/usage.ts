/** What the command line says of itself: how its commands are used, and what is wrong with one that cannot be run. */
import { Effect, Layer, Stream } from "effect"
import { CliError, CliOutput, Command, type HelpDoc } from "effect/cli"
import { BadUsage, oneLine } from "./failures.ts"
import { print } from "./output.ts"

/** The whole command line: nothing is left to provide but the terminal. */
type Root<Name extends string, Input, Shared, E> = Command.Command<Name, Input, Shared, E, never>

/** Shown by `--version`, which is not offered. */
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

/** What `--help` of the command at `path` would be made of. */
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

/** The usage of the command at `path`, or of all the commands below it. */
const usages = Effect.fnUntraced(function* <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  path: ReadonlyArray<string>,
): Effect.fn.Return<ReadonlyArray<string>, never, Command.Environment> {
  const docs = yield* helpOf(root, path)
  const below = docs.flatMap(({ subcommands = [] }) => subcommands.flatMap(({ commands }) => commands))
  if (below.length === 0) return docs.map(usageOf)
  return (yield* Effect.forEach(below, ({ name }) => usages(root, [...path, name]))).flat()
})

/** Help for the command at `path`: all usages below it, a line each. */
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

const complaint = (error: CliError.NonShowHelpErrors): string => {
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

/** What is wrong on one line with the usage; for no command at all, the help of those that there are. */
const badUsage = Effect.fnUntraced(function* <Name extends string, Input, Shared, E>(
  root: Root<Name, Input, Shared, E>,
  { commandPath, errors }: CliError.ShowHelp,
) {
  const path = commandPath.slice(1)
  const complaints = errors.map((error) => oneLine(complaint(error)))
  const [usage = "", ...more] = yield* usages(root, path)
  const message =
    more.length === 0
      ? [...complaints, `Usage: ${usage}`].join(" ")
      : [...complaints, yield* helpText(root, path)].join("\n")
  return yield* new BadUsage({ message })
})

/** Prints help that is asked for; what is wrong is in the error that ends the run. */
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

/** Runs the command that the process's arguments name. */
export const run = <Name extends string, Input, Shared, E>(root: Root<Name, Input, Shared, E>) =>
  Command.run(root, UNVERSIONED).pipe(
    Effect.catchIf(
      (error) => error instanceof CliError.ShowHelp,
      (help) => badUsage(root, help),
    ),
    Effect.provide(presenter(root)),
  )
