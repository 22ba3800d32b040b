/** `rail …`: the rails of the outside world. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { parseInstant } from "../time.ts"
import { writable } from "./Installation.ts"
import { show } from "./output.ts"
import { accountOption, day } from "./parameters.ts"
import { RAIL_SECRETS, rotateAll } from "./rotation.ts"

/** All that charges are settled with comes with it: it is loaded by the command that wants it. */
const syncing = Effect.promise(() => import("./syncing.ts"))

const rotate = Command.make(
  "rotate",
  {},
  Effect.fn("rail.rotate")(function* () {
    yield* show({ rotated: yield* rotateAll(RAIL_SECRETS) })
  }),
)

const sync = Command.make(
  "sync",
  {
    accountId: accountOption.pipe(Flag.withDefault(undefined)),
    since: day("since").pipe(
      Flag.map((value) => parseInstant(`${value}T00:00:00Z`)!),
      Flag.withDefault(undefined),
    ),
  },
  Effect.fn("rail.sync")(function* (wanted) {
    const { sync: ask } = yield* syncing
    yield* show(yield* ask(wanted))
  }),
)

export const rail = Command.make("rail").pipe(Command.withSubcommands([rotate, sync]), Command.provide(writable))
