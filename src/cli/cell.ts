/** `cell …`: this cell among others (docs/scaling.md). */
import { Effect, Redacted } from "effect"
import { Command } from "effect/cli"
import { join } from "../cells/join.ts"
import { migrated, vaultOfServers } from "./Installation.ts"
import { openDatabase } from "./otherCells.ts"
import { show } from "./output.ts"
import { databaseOption } from "./parameters.ts"

const joinOther = Command.make(
  "join",
  { from: databaseOption("from") },
  Effect.fn("cell.join")(function* ({ from }) {
    const other = yield* openDatabase("--from", Redacted.make(from))
    yield* show({ copied: yield* Effect.provide(join(other), vaultOfServers) })
  }, Effect.scoped),
)

export const cell = Command.make("cell").pipe(Command.withSubcommands([joinOther]), Command.provide(migrated))
