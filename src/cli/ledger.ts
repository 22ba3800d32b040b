/** `ledger …`: the books, checked and for other programs. */
import { Effect, Stream } from "effect"
import { Command, Flag } from "effect/cli"
import { findAccount } from "../account/accounts.ts"
import { type ExportedLine, toCsv, toHledger } from "../ledger/export.ts"
import { checkLedger, readLedger } from "../ledger/ledger.ts"
import { found, Unsound } from "./failures.ts"
import { migrated } from "./Installation.ts"
import { print, show } from "./output.ts"
import { accountOption, oneOf } from "./parameters.ts"

const FORMATS = ["hledger", "csv"] as const

const check = Command.make(
  "check",
  {},
  Effect.fn("ledger.check")(function* () {
    const result = yield* checkLedger
    yield* show(result)
    if (!result.ok) return yield* new Unsound()
  }),
)

/** Batches of whole entries as one text, a piece for each. */
const written = <E, R>(
  batches: Stream.Stream<ReadonlyArray<ExportedLine>, E, R>,
  format: (typeof FORMATS)[number],
): Stream.Stream<string, E, R> =>
  format === "csv"
    ? batches.pipe(
        Stream.map((lines) => toCsv(lines, false)),
        Stream.prepend([toCsv([], true)]),
      )
    : batches.pipe(Stream.map(toHledger), Stream.intersperse("\n"))

const exportBooks = Command.make(
  "export",
  { accountId: accountOption.pipe(Flag.withDefault(undefined)), format: oneOf("format", FORMATS) },
  Effect.fn("ledger.export")(function* ({ accountId, format }) {
    if (accountId !== undefined) yield* Effect.flatMap(findAccount(accountId), found("account", accountId))
    yield* print(written(readLedger(accountId), format))
  }),
)

export const ledger = Command.make("ledger").pipe(
  Command.withSubcommands([check, exportBooks]),
  Command.provide(migrated),
)
