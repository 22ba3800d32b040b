/** `secrets …`: the encrypted secrets in the database. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { writable } from "./Installation.ts"
import { show } from "./output.ts"
import { ALL_SECRETS, rotateAll } from "./rotation.ts"

const rotate = Command.make(
  "rotate",
  {},
  Effect.fn("secrets.rotate")(function* () {
    yield* show({ rotated: yield* rotateAll(ALL_SECRETS) })
  }),
)

export const secrets = Command.make("secrets").pipe(Command.withSubcommands([rotate]), Command.provide(writable))
