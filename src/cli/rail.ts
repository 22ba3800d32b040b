/** `rail …`: the rails of the outside world. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { migrated } from "./Installation.ts"
import { show } from "./output.ts"
import { RAIL_SECRETS, rotateAll } from "./rotation.ts"

const rotate = Command.make(
  "rotate",
  {},
  Effect.fn("rail.rotate")(function* () {
    yield* show({ rotated: yield* rotateAll(RAIL_SECRETS) })
  }),
)

export const rail = Command.make("rail").pipe(Command.withSubcommands([rotate]), Command.provide(migrated))
