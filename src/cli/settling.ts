/** The work of `ledger settle`: reads a rail's file as a stream and books it in batches. */
import { statSync } from "node:fs"
import { Effect, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { BadFile, settledRows } from "../ledger/settlementFile.ts"
import { SettlementImport } from "../ledger/settlements.ts"
import type { RailName } from "../rails/rail/Rail.ts"
import { Refused } from "./failures.ts"
import { Progress } from "./progress.ts"

/** How many rows one transaction books: what a crash can lose, with locks for a moment only. */
const MAX_BATCH = 500

/** Books the rows of a file, and returns the result. */
export const settleFile = Effect.fnUntraced(function* (rail: RailName, file: string) {
  const sql = yield* SqlClient.SqlClient
  const bytes = yield* Effect.try({
    try: () => statSync(file).size,
    catch: () => new Refused({ message: `--file cannot be read: ${file}.` }),
  })
  const settling = new SettlementImport(rail)
  const progress = new Progress()
  let [read, rows] = [0, 0]
  const all = Stream.fromAsyncIterable(
    settledRows(rail, file, (soFar) => {
      read = soFar
    }),
    (error) => new Refused({ message: error instanceof BadFile ? error.message : String(error) }),
  )
  yield* all.pipe(
    Stream.grouped(MAX_BATCH),
    Stream.runForEach((batch) =>
      sql.withTransaction(settling.settle(batch)).pipe(
        Effect.andThen(
          Effect.suspend(() => {
            rows += batch.length
            return progress.show({ part: bytes === 0 ? 1 : read / bytes, words: `${rows} rows` })
          }),
        ),
      ),
    ),
  )
  const result = yield* sql.withTransaction(settling.finish())
  const { unmatchedCount } = settling
  const [unmatched, listed] = [rows - result.matched, result.unmatched.length]
  const ours = unmatchedCount - unmatched
  yield* progress.end(
    [
      `${rows} rows read, ${result.matched} matched, ${result.booked} booked, ${unmatched} unmatched`,
      ...(ours > 0 ? [`${ours} of our books not paid out or not deducted`] : []),
      ...(unmatchedCount > listed ? [`the first ${listed} are listed`] : []),
    ].join("; ") + ".",
  )
  return result
})
