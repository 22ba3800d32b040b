/** `rail …`: external payment rails. */
import { Effect } from "effect"
import { Command, Flag } from "effect/cli"
import { parseInstant } from "../base/time.ts"
import { Refused } from "./failures.ts"
import { writable } from "./Installation.ts"
import { show } from "./output.ts"
import { accountOption, day, instant } from "./parameters.ts"
import { RAIL_SECRETS, rotateAll } from "./rotation.ts"

/** It imports everything that settles charges: only this command loads it. */
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
  Effect.fn("rail.sync")(function* (filter) {
    const { sync: askRails } = yield* syncing
    yield* show(yield* askRails(filter))
  }),
)

const recovering = Effect.promise(() => import("./recovering.ts"))

const recover = Command.make(
  "recover",
  {
    accountId: accountOption.pipe(Flag.withDefault(undefined)),
    since: instant("since"),
    dryRun: Flag.Boolean("dry-run").pipe(Flag.withoutNegation, Flag.withDefault(false)),
  },
  Effect.fn("rail.recover")(function* (filter) {
    const { recover: recoverCharges } = yield* recovering
    const { failures, ...result } = yield* recoverCharges(filter)
    yield* show(result)
    if (failures.length > 0) return yield* new Refused({ message: `Not all is recovered: ${failures.join("; ")}.` })
  }),
)

export const rail = Command.make("rail").pipe(
  Command.withSubcommands([rotate, sync, recover]),
  Command.provide(writable),
)
