/** `admin …`: the service's own people. */
import { Effect } from "effect"
import { Command } from "effect/cli"
import { createAdministrator } from "../key/apiKeys.ts"
import { migrated } from "./Installation.ts"
import { show } from "./output.ts"
import { text } from "./parameters.ts"

const create = Command.make(
  "create",
  { name: text("name", "N") },
  Effect.fn("admin.create")(function* ({ name }) {
    yield* show(yield* createAdministrator(name))
  }),
)

export const admin = Command.make("admin").pipe(Command.withSubcommands([create]), Command.provide(migrated))
