/** What `account move` does: an account from this cell to the one behind a database's address. */
import { Effect, Layer, Redacted } from "effect"
import type { SqlClient } from "effect/sql"
import { Cell } from "../cell.ts"
import { moveAccount, STEPS } from "../cells/moveAccount.ts"
import { tellProxies } from "../cells/proxy.ts"
import { replayables } from "../lifecycles.ts"
import { Installation, vaultOfServers } from "./Installation.ts"
import { openDatabase } from "./otherCells.ts"
import { Progress } from "./progress.ts"

/** A copy takes as long as it takes; what is counted and compared is an account's worth of rows. */
const SETTINGS = {
  statement_timeout: "0",
  idle_in_transaction_session_timeout: "0",
  enable_seqscan: "on",
  enable_hashjoin: "on",
}

export const move = Effect.fnUntraced(function* (account: string, to: string, proxies: ReadonlyArray<string>) {
  const { config, url } = yield* Installation
  const source: SqlClient.SqlClient = yield* openDatabase("DATABASE_URL", url, SETTINGS)
  const target: SqlClient.SqlClient = yield* openDatabase("--to", Redacted.make(to), SETTINGS)
  const progress = new Progress()
  const { rows, gapMs } = yield* moveAccount({
    account,
    source,
    target,
    from: url,
    replayables,
    route: (entries) => tellProxies(proxies, entries),
    progress: (step) => progress.show({ part: STEPS.indexOf(step) / STEPS.length, words: step }),
  }).pipe(Effect.provide(Layer.merge(vaultOfServers, Layer.succeed(Cell, config.cell))))
  yield* progress.end()
  return { moved: account, rows, gap_ms: gapMs }
}, Effect.scoped)
