/** `db …`: the database itself, without other preparation. */
import { Effect, Redacted } from "effect"
import { Command } from "effect/cli"
import { migrate, migrationStatus } from "../postgres/migrate.ts"
import { cellsAsTheyAre, cellsOption, inEveryCell } from "./everyCell.ts"
import { connected, Installation } from "./Installation.ts"
import { show } from "./output.ts"

const url = Command.make(
  "url",
  {},
  Effect.fn("db.url")(function* () {
    const installation = yield* Installation
    yield* show({ url: Redacted.value(installation.url) })
  }),
).pipe(Command.provide(connected))

const applyMigrations = Command.make(
  "migrate",
  {},
  Effect.fn("db.migrate")(function* () {
    yield* show({ applied: yield* migrate })
  }),
).pipe(Command.provide(connected))

const status = Command.make(
  "status",
  { cells: cellsOption },
  Effect.fn("db.status")(function* () {
    const found = yield* inEveryCell(migrationStatus)
    const [first] = found
    // A migration is applied if every cell has it, pending if some cell lacks it.
    const pending = [...new Set(found.flatMap((one) => one.pending))].sort()
    yield* show({ applied: first!.applied.filter((name) => !pending.includes(name)), pending })
  }),
).pipe(Command.provide(({ cells }) => cellsAsTheyAre(cells)))

export const db = Command.make("db").pipe(Command.withSubcommands([url, applyMigrations, status]))
