/**
 * One look at all queues of a process: a statement every tenth of a second says in which of them something may wait. So it is found
 * at once, whoever put it there, and a process that has nothing to do costs the database that statement, not several for each worker.
 */
import { Context, Effect, Layer, type Redacted, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { poolLayer } from "../db/database.ts"
import { every } from "./workers.ts"

const LOOK_EVERY_MS = 100
/**
 * A look that takes longer (a table is locked, say) keeps nobody: each is told that something may wait, and looks for itself, on
 * connections that the look does not share.
 */
const SLOW_MS = 1_000

interface Watched {
  /** A query of one row, which an index answers with its first entry; none, where nothing waits. */
  readonly firstWaiting: Fragment
  readonly found: () => void
}

const look = Effect.fnUntraced(function* (watched: ReadonlySet<Watched>) {
  if (watched.size === 0) return
  const sql = yield* SqlClient.SqlClient
  const all = [...watched]
  const tellAll = Effect.sync(() => {
    for (const { found } of all) found()
  })
  const meanwhile = Effect.forever(Effect.andThen(Effect.sleep(SLOW_MS), tellAll))
  const waits = all.map(
    ({ firstWaiting }, at) => sql`EXISTS (SELECT FROM (${firstWaiting}) w) AS ${sql.literal(`q${at}`)}`,
  )
  const asked = Effect.raceFirst(sql<Record<string, boolean>>`SELECT ${sql.csv(waits)}`, meanwhile)
  const [row] = yield* Effect.tapCause(asked, () => tellAll)
  for (const [at, one] of all.entries()) if (row![`q${at}`] && watched.has(one)) one.found()
})

export class QueuePoller extends Context.Service<
  QueuePoller,
  {
    /**
     * Calls `found` again and again while something may wait, for as long as the scope is open. `firstWaiting` is a query with the order
     * of an index and `LIMIT 1`: it may name more than there is to do, and never less.
     */
    readonly watch: (firstWaiting: Fragment, found: () => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/process/Lookout") {
  static readonly layer = (url: Redacted.Redacted<string>): Layer.Layer<QueuePoller, SqlError.SqlError> =>
    Layer.effect(
      QueuePoller,
      Effect.gen(function* () {
        const watched = new Set<Watched>()
        yield* every("lookout", LOOK_EVERY_MS, look(watched))
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
