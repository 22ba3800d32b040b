/** `ledger …`: checks, exports, closes, settles and explains the books. */
import { Effect, Stream, Struct } from "effect"
import { Argument, Command, Flag } from "effect/cli"
import { currentTime } from "../base/wallClock.ts"
import { readAttention } from "../billing/charge/attention.ts"
import { LEDGER_ACCOUNTS } from "../ledger/chart.ts"
import { booksState, closeThrough, type Open, reopen } from "../ledger/closing.ts"
import { FORMATS } from "../ledger/export.ts"
import type { ExportedLine, Writer } from "../ledger/exported.ts"
import { checkLedger } from "../ledger/ledger.ts"
import { EXPLANATION_ACCOUNTS } from "../ledger/postings.ts"
import { type BooksFilter, countEntries, readLedger, readNames } from "../ledger/reading.ts"
import { explain } from "../ledger/suspense.ts"
import { findCustomer, why } from "../ledger/why.ts"
import { findBooksOwner } from "../merchants/account/accounts.ts"
import { RAILS } from "../rails/rail/Rail.ts"
import { formatExplained, formatSettlement, formatWhy } from "./bookWords.ts"
import { cellsOption, findInEveryCell, inEveryCell, inOrderFromEveryCell, migratedCells } from "./everyCell.ts"
import { BadUsage, found, Refused, Unsound } from "./failures.ts"
import { Installation, onMigrated, onWritable } from "./Installation.ts"
import { print, show } from "./output.ts"
import { accountArgument, accountOption, day, isMonth, month, oneOf, oneOfArgument, text } from "./parameters.ts"
import { Progress } from "./progress.ts"

const check = Command.make(
  "check",
  { cells: cellsOption },
  Effect.fn("ledger.check")(function* () {
    const results = yield* inEveryCell(Effect.zip(checkLedger(), readAttention))
    const result = {
      ok: results.every(([{ ok }]) => ok),
      entries: results.reduce((sum, [{ entries }]) => sum + entries, 0),
      problems: results.flatMap(([{ problems }]) => problems),
      attention: results.flatMap(([, attention]) => attention),
    }
    yield* show(result)
    if (!result.ok) return yield* new Unsound()
  }),
).pipe(Command.provide(({ cells }) => migratedCells(cells)))

const MODES = ["live", "test"] as const

/** Writes batches of complete entries as text, one text per batch, and reports progress. */
const formatBatches = <E, R>(
  batches: Stream.Stream<ReadonlyArray<ExportedLine>, E, R>,
  { head, body }: Writer,
  progress: (entries: number) => Effect.Effect<void>,
): Stream.Stream<string, E, R> => {
  let entries = 0
  return batches.pipe(
    Stream.tap((lines) => {
      entries += new Set(lines.map(({ entry_id }) => entry_id)).size
      return progress(entries)
    }),
    Stream.map(body),
    Stream.prepend(head === "" ? [] : [head]),
  )
}

const exportBooks = Command.make(
  "export",
  {
    account: accountOption.pipe(Flag.withDefault(undefined)),
    format: oneOf("format", Struct.keys(FORMATS)),
    month: month("month").pipe(Flag.withDefault(undefined)),
    mode: oneOf("mode", MODES).pipe(Flag.withDefault(undefined)),
    cells: cellsOption,
  },
  Effect.fn("ledger.export")(function* ({ account, format, month, mode }) {
    if (account !== undefined)
      yield* Effect.flatMap(findInEveryCell(account, findBooksOwner), found("account", account))
    const { isOfOne, open } = FORMATS[format]
    if (isOfOne && account === undefined)
      return yield* new BadUsage({
        message: `--format ${format} is for the books of one company: name it by --account.`,
      })
    const livemode = mode === undefined ? (isOfOne ? true : undefined) : mode === "live"
    const filter: BooksFilter = { account, livemode, month }
    const total = (yield* inEveryCell(countEntries(filter))).reduce((sum, n) => sum + n, 0)
    const progress = new Progress()
    const report = (entries: number) =>
      progress.show({ part: total === 0 ? 1 : Math.min(1, entries / total), words: `${entries} of ${total} entries` })
    const writer = open(new Map((yield* inEveryCell(readNames(filter))).flat()))
    const lines = inOrderFromEveryCell(readLedger(filter), ({ effective_on }) => effective_on)
    yield* print(formatBatches(lines, writer, report))
    yield* progress.end()
  }),
).pipe(Command.provide(({ cells }) => migratedCells(cells)))

const areMoving = (accounts: ReadonlyArray<string>) =>
  new Refused({
    message: `${accounts.join(", ")} is on its way between cells, with its closed months: finish that move, or give it up by --abandon, and try again.`,
  })

/** A reason is stored permanently: a sentence, not a letter. */
const MAX_REASON = 500

/** An option with a reason to store. */
const reasonOption = (name: string, placeholder: string) =>
  text(name, placeholder).pipe(
    Flag.filter(
      (value) => value.length <= MAX_REASON,
      () => `a text of at most ${MAX_REASON} characters`,
    ),
  )

/** How many problems an error names. */
const MAX_NAMED = 5

const isOpen = (through: string, open: ReadonlyArray<Open>) => {
  const named = open
    .slice(0, MAX_NAMED)
    .map(({ month, kind, account, problem }) => `${problem} (${kind} of ${account}, ${month ?? "no month"})`)
  const more = open.length > named.length ? ", and more" : ""
  return new Refused({
    message: `The books have open items through ${through}: ${named.join("; ")}${more}. finance.exceptions lists them. Settle them, or close with --accept REASON.`,
  })
}

const close = Command.make(
  "close",
  { through: month("through"), accept: reasonOption("accept", "REASON").pipe(Flag.withDefault(undefined)) },
  Effect.fn("ledger.close")(function* ({ through, accept }) {
    const { config } = yield* Installation
    const now = new Date(currentTime()).toISOString().slice(0, 7)
    if (through > now)
      return yield* new Refused({ message: `The month ${through} has not started yet: nothing to close.` })
    // Closing the running month early is for testing.
    if (through === now && config.production)
      return yield* new Refused({ message: `The month ${through} is running: production closes complete months only.` })
    const state = yield* closeThrough(through, accept)
    if ("moving" in state) return yield* areMoving(state.moving)
    if ("open" in state) return yield* isOpen(through, state.open)
    if ("missed" in state)
      return yield* new Refused({
        message: `The revenue of ${state.missed.slice(0, 5).join(", ")} is not recognised yet: see the log of the servers for the reason. Try again.`,
      })
    yield* show(state)
  }),
)

const open = Command.make(
  "reopen",
  { month: Argument.String("YYYY-MM"), reason: reasonOption("reason", "R") },
  Effect.fn("ledger.reopen")(function* ({ month, reason }) {
    if (!isMonth(month))
      return yield* new BadUsage({ message: `YYYY-MM must be a month such as 2026-01, not ${month}.` })
    const state = yield* reopen(month, reason)
    if (state !== undefined && "moving" in state) return yield* areMoving(state.moving)
    if (state === undefined) {
      const { closed_through } = yield* booksState
      const how = closed_through === null ? "no month is closed" : `the books are closed through ${closed_through}`
      return yield* new Refused({ message: `The month ${month} is not closed: ${how}.` })
    }
    yield* show(state)
  }),
)

const settle = Command.make(
  "settle",
  { rail: oneOf("rail", RAILS), file: text("file", "F.csv") },
  Effect.fn("ledger.settle")(function* ({ rail, file }) {
    const { settleFile } = yield* Effect.promise(() => import("./settling.ts"))
    yield* show(yield* settleFile(rail, file), formatSettlement)
  }),
)

const explainSuspense = Command.make(
  "explain",
  {
    reference: Argument.String("REFERENCE"),
    account: accountOption,
    as: oneOf("as", EXPLANATION_ACCOUNTS),
    reason: reasonOption("reason", "TEXT"),
  },
  Effect.fn("ledger.explain")(function* ({ reference, account, as, reason }) {
    yield* Effect.flatMap(findBooksOwner(account), found("account", account))
    const result = yield* explain({ account, reference, as, reason })
    if (result.state === "unknown")
      return yield* new Refused({
        message: `The books of ${account} have no payment ${reference}: REFERENCE is a rail's, as ledger settle prints it.`,
      })
    if (result.state === "nothing") {
      const { before } = result
      const how = before === undefined ? "" : `: it is explained as ${before.as} by ${before.entry}`
      return yield* new Refused({ message: `Nothing of ${reference} is in suspense${how}.` })
    }
    yield* show(result.explained, formatExplained)
  }),
)

const explainBalance = Command.make(
  "why",
  {
    account: accountArgument,
    code: oneOfArgument("code", Struct.keys(LEDGER_ACCOUNTS), "CODE"),
    customer: text("customer", "C").pipe(Flag.withDefault(undefined)),
    at: day("at").pipe(Flag.withDefault(undefined)),
  },
  Effect.fn("ledger.why")(function* ({ account, code, customer, at }) {
    yield* Effect.flatMap(findBooksOwner(account), found("account", account))
    if (customer !== undefined) yield* Effect.flatMap(findCustomer(account, customer), found("customer", customer))
    yield* show(yield* why({ account, code, customer, at }), formatWhy)
  }),
)

export const ledger = Command.make("ledger").pipe(
  Command.withSubcommands([
    check,
    exportBooks,
    onWritable(close),
    onWritable(open),
    onWritable(settle),
    onWritable(explainSuspense),
    onMigrated(explainBalance),
  ]),
)
