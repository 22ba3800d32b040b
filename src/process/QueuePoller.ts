/**
 * QueuePoller checks all queues of a process with one statement every tenth of a second. So new work is found immediately, whichever process
 * added it, and an idle process costs the database one statement instead of several for each worker.
 */
import { Context, Effect, Layer, type Redacted, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { poolLayer } from "../db/database.ts"
import { every } from "./workers.ts"

const LOOK_EVERY_MS = 100
/**
 * If a poll takes longer (a locked table, for example), all workers are notified that work may wait, and check themselves on connections
 * that the poller does not share.
 */
const SLOW_MS = 1_000

interface Watched {
  /** A query of at most one row, which the first entry of an index answers; no row if the queue is empty. */
  readonly firstWaiting: Fragment
  readonly found: () => void
}

const look = Effect.fnUntraced(function* (watched: ReadonlySet<Watched>) {
  if (watched.size === 0) return
  const sql = yield* SqlClient.SqlClient
  const all = [...watched]
  const notifyAll = Effect.sync(() => {
    for (const { found } of all) found()
  })
  const meanwhile = Effect.forever(Effect.andThen(Effect.sleep(SLOW_MS), notifyAll))
  const waits = all.map(
    ({ firstWaiting }, at) => sql`EXISTS (SELECT FROM (${firstWaiting}) w) AS ${sql.literal(`q${at}`)}`,
  )
  const answer = Effect.raceFirst(sql<Record<string, boolean>>`SELECT ${sql.csv(waits)}`, meanwhile)
  const [row] = yield* Effect.tapCause(answer, () => notifyAll)
  for (const [at, one] of all.entries()) if (row![`q${at}`] && watched.has(one)) one.found()
})

export class QueuePoller extends Context.Service<
  QueuePoller,
  {
    /**
     * Calls `found` repeatedly while work may wait, as long as the scope is open. `firstWaiting` is a query in index order with `LIMIT 1`:
     * it may return rows without work, but must not miss any.
     */
    readonly watch: (firstWaiting: Fragment, found: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/process/QueuePoller") {
  static readonly layer = (url: Redacted.Redacted<string>): Layer.Layer<QueuePoller, SqlError.SqlError> =>
    Layer.effect(
      QueuePoller,
      Effect.gen(function* () {
        const watched = new Set<Watched>()
        yield* every("queue poller", LOOK_EVERY_MS, look(watched))
        return QueuePoller.of({
          watch: (firstWaiting, found) => {
            const one = { firstWaiting, found }
            return Effect.asVoid(
              Effect.acquireRelease(
                Effect.sync(() => watched.add(one)),
                () => Effect.sync(() => watched.delete(one)),
              ),
            )
          },
        })
      }),
    ).pipe(Layer.provide(poolLayer(url, 1)))
}
