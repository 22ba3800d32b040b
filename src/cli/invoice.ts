/** `invoice …`: the service's own invoices, drawn up, paid, taken back. */
import { Clock, Effect } from "effect"
import { Argument, CliError, Command, Flag } from "effect/cli"
import { monthOf } from "../usage/allowances.ts"
import { cellsOption, findInEveryCell, inEveryCell } from "./everyCell.ts"
import { found, Refused } from "./failures.ts"
import { Installation, migrated } from "./Installation.ts"
import { show } from "./output.ts"
import { accountOption, month } from "./parameters.ts"

/** Invoicing brings a job queue with it: it is loaded by the commands that want it. */
const invoicing = Effect.promise(() => import("./invoicing.ts"))

/** A month that has begun, with its name and its bounds. */
const readPeriod = Effect.fnUntraced(function* (name: string) {
  const start = Date.parse(`${name}-01T00:00:00Z`)
  if (start > (yield* Clock.currentTimeMillis))
    return yield* new CliError.ValidationError({ message: `--period ${name} has not begun yet.` })
  return { name, ...monthOf(start) }
})

const run = Command.make(
  "run",
  {
    period: month("period").pipe(Flag.mapEffect(readPeriod), Flag.withDefault(undefined)),
    accountId: accountOption.pipe(Flag.withDefault(undefined)),
    cells: cellsOption,
  },
  Effect.fn("invoice.run")(function* ({ period, accountId, cells }) {
    const { config } = yield* Installation
    const now = yield* Clock.currentTimeMillis
    // Closing the running month early is for trying out.
    if (period !== undefined && period.end > now && config.production) {
      const message = `The month ${period.name} is running: production closes complete months only.`
      return yield* new Refused({ message })
    }
    if (accountId !== undefined) yield* Effect.flatMap(findInEveryCell(cells, accountId), found("account", accountId))
    const { drawUp } = yield* invoicing
    const drawn = yield* inEveryCell(cells, drawUp(period ?? monthOf(now, -1), accountId))
    yield* show(drawn.flat())
  }),
)

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
  Command.withSubcommands([run, move("pay"), move("void")]),
  Command.provide(migrated),
)
