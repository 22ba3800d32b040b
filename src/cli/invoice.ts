/** `invoice …`: creates the service's own invoices, and marks them paid or void. */
import { Effect } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { currentTime } from "../base/wallClock.ts"
import { monthOf } from "../merchants/usage/allowances.ts"
import { cellsOption, findInEveryCell, inEveryCell, writableCells } from "./everyCell.ts"
import { found, Refused } from "./failures.ts"
import { Installation, onWritable } from "./Installation.ts"
import { drawnInWords } from "./invoiceWords.ts"
import { show } from "./output.ts"
import { accountOption, month } from "./parameters.ts"

/** Invoicing imports a job queue: only commands that need it load it. */
const invoicing = Effect.promise(() => import("./invoicing.ts"))

/** Parses a month that has started, with its name and bounds. */
const readPeriod = Effect.fnUntraced(function* (name: string) {
  const start = Date.parse(`${name}-01T00:00:00Z`)
  if (start > currentTime())
    return yield* new CliError.ValidationError({ message: `--period ${name} has not started yet.` })
  return { name, ...monthOf(start) }
})

/** How many accounts an error names. */
const MAX_NAMED = 5

const inProduction = Effect.map(inEveryCell(Effect.map(Installation, ({ config }) => config.production)), (answers) =>
  answers.includes(true),
)

const run = Command.make(
  "run",
  {
    period: month("period").pipe(Flag.mapEffect(readPeriod), Flag.withDefault(undefined)),
    accountId: accountOption.pipe(Flag.withDefault(undefined)),
    cells: cellsOption,
  },
  Effect.fn("invoice.run")(function* ({ period, accountId }) {
    const now = currentTime()
    // Invoicing the running month early is for testing.
    if (period !== undefined && period.end > now && (yield* inProduction)) {
      const message = `The month ${period.name} is running: production closes complete months only.`
      return yield* new Refused({ message })
    }
    if (accountId !== undefined) yield* Effect.flatMap(findInEveryCell(accountId), found("account", accountId))
    const { drawUp } = yield* invoicing
    const month = period ?? monthOf(now, -1)
    const results = yield* inEveryCell(drawUp(month, accountId))
    const invoices = results.flatMap((one) => one.invoices.map(({ shown }) => shown))
    yield* show(invoices, () => drawnInWords(month.start, results))
    const failed = results.flatMap((result) => result.failed)
    if (failed.length > 0) {
      const message = `No invoice could be drawn up for ${failed.slice(0, MAX_NAMED).join(", ")} (${failed.length} in all): see the log for the reason. Try again.`
      return yield* new Refused({ message })
    }
  }),
).pipe(Command.provide(({ cells }) => writableCells(cells)))

const move = (name: "pay" | "void") =>
  Command.make(
    name,
    { id: Argument.String("INVOICE") },
    Effect.fn(`invoice.${name}`)(function* ({ id }) {
      const { close } = yield* invoicing
      yield* show(yield* close(id, name))
    }),
  )

export const invoice = Command.make("invoice").pipe(
  Command.withSubcommands([run, onWritable(move("pay")), onWritable(move("void"))]),
)
