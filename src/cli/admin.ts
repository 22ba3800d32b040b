/** `admin …`: the service's administrators. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import {
  createAdministrator,
  listAdministrators,
  renderAdministrator,
  revokeAdministrator,
} from "../security/key/apiKeys.ts"
import { found } from "./failures.ts"
import { onMigrated, onWritable } from "./Installation.ts"
import { show } from "./output.ts"
import { nameOption } from "./parameters.ts"

const create = Command.make(
  "create",
  { name: nameOption("name", "N") },
  Effect.fn("admin.create")(function* ({ name }) {
    yield* show(yield* createAdministrator(name))
  }),
)

const list = Command.make(
  "list",
  {},
  Effect.fn("admin.list")(function* () {
    yield* show((yield* listAdministrators()).map(renderAdministrator))
  }),
)

const revoke = Command.make(
  "revoke",
  { id: Argument.String("ID") },
  Effect.fn("admin.revoke")(function* ({ id }) {
    yield* show(yield* Effect.flatMap(revokeAdministrator(id), found("administrator", id)))
  }),
)

export const admin = Command.make("admin").pipe(
  Command.withSubcommands([onWritable(create), onMigrated(list), onWritable(revoke)]),
)
