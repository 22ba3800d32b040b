/** The work of `account move`: moves an account from this cell to the one with the given database address. */
import { Effect, Layer, Redacted } from "effect"
import { replayables } from "../app/lifecycles.ts"
import { Cell } from "../base/cell.ts"
import { abandonMove, moveAccount, STEPS } from "../cells/moveAccount.ts"
import { updateProxies } from "../cells/proxy.ts"
import { Installation, vaultOfServers } from "./Installation.ts"
import { openDatabase } from "./otherCells.ts"
import { Progress } from "./progress.ts"

/** No time limits: a copy counts and compares all rows of an account. If the mover has died, the server ends its statement. */
const SETTINGS = {
  statement_timeout: "0",
  client_connection_check_interval: "5s",
  idle_in_transaction_session_timeout: "0",
  enable_seqscan: "on",
  enable_hashjoin: "on",
}

/** The databases on both sides, for as long as the scope is open. */
const openSides = Effect.fnUntraced(function* (to: string) {
  const { url } = yield* Installation
  return {
    source: yield* openDatabase("DATABASE_URL", url, SETTINGS),
    target: yield* openDatabase("--to", Redacted.make(to), SETTINGS),
    from: url,
  }
})

const surroundings = Layer.unwrap(
  Effect.map(Installation, ({ config }) => Layer.merge(vaultOfServers, Layer.succeed(Cell, config.cell))),
)

/** Moves an account, or finishes its move. */
export const move = Effect.fnUntraced(
  function* (account: string, to: string, proxies: ReadonlyArray<string>) {
    const progress = new Progress()
    const { rows, gapMs } = yield* moveAccount({
      ...(yield* openSides(to)),
      account,
      replayables,
      route: (entries) => updateProxies(proxies, entries),
      progress: (step) => progress.show({ part: STEPS.indexOf(step) / STEPS.length, words: step }),
    })
    yield* progress.end()
    return { moved: account, rows, gap_ms: gapMs }
  },
  Effect.provide(surroundings),
  Effect.scoped,
)

/** Abandons a move that has not finished. */
export const abandon = Effect.fnUntraced(
  function* (account: string, to: string) {
    yield* abandonMove({ ...(yield* openSides(to)), account })
    return { abandoned: account }
  },
  Effect.provide(surroundings),
  Effect.scoped,
)
