/** `journal …`: proves the journal of the lifecycles. */
import { Effect } from "effect"
import { Argument, Command } from "effect/cli"
import { Refused, Unsound } from "./failures.ts"
import { migrated } from "./Installation.ts"
import { show } from "./output.ts"

/** It imports all machines: only this command loads it. */
const machines = Effect.promise(() => Promise.all([import("../runtime/replay.ts"), import("../app/lifecycles.ts")]))

const replay = Command.make(
  "replay",
  { actors: Argument.String("ACTOR").pipe(Argument.variadic()) },
  Effect.fn("journal.replay")(function* ({ actors }) {
    const [{ replayJournal }, { replayables }] = yield* machines
    const { replayed, differing, unknown } = yield* replayJournal(replayables, actors)
    if (unknown[0] !== undefined) return yield* new Refused({ message: `No such actor in the journal: ${unknown[0]}.` })
    yield* show({ replayed, differing })
    if (differing.length > 0) return yield* new Unsound()
  }),
)

export const journal = Command.make("journal").pipe(Command.withSubcommands([replay]), Command.provide(migrated))
