/**
 * Firing what is due. Each batch is one transaction: claim the actors of due timers (rows that others hold are theirs), take
 * the first due timer of each, let the actors decide, commit; then do what may only be done outside a transaction.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { AnyStateMachine, EventFrom } from "xstate"
import { ofTenant, type Ref, refOf, staysHere } from "../db/tenant.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./lifecycle.ts"
import { type TimerRow, takeFirstDue } from "./timers.ts"

/** Actors fired in one transaction: large enough to spread the cost of a statement, small enough to hold locks briefly. */
export const MAX_BATCH = 500

/** Batches under way at once in a sweep: while one waits for the database, another decides. */
const LANES = 3

type Delayed<M extends AnyStateMachine> = Extract<EventFrom<M>, { readonly type: `xstate.after.${string}` }>

/** An actor whose timer fires: one of its machine's delays, or one of the noun's own. */
export interface Due<M extends AnyStateMachine, Row extends ActorRow, Own extends string = never> {
  readonly row: Row
  readonly event: Delayed<M> | (Own extends string ? { readonly type: Own; readonly at: number } : never)
}

/** What is left to do after the commit, outside any transaction. */
export type After<R> = Effect.Effect<void, SqlError.SqlError, R>

/** What fires the timers of one kind of actor. Of which rows, is the noun's own affair. */
export interface TimerHandler<R> {
  readonly kind: ActorKind
  /** Fires one batch that is due on the wall clock, but for the actors set aside; returns how many it found. */
  readonly fireBatch: (now: number, setAside: Set<string>) => Effect.Effect<number, SqlError.SqlError, R>
  /** Fires the first timer of each of these actors that is due at `now`, in the caller's transaction. */
  readonly fire: (actors: ReadonlyArray<Ref>, now: number) => Effect.Effect<After<R>, SqlError.SqlError, R>
}

const dueOf = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  rows: ReadonlyArray<Row>,
  timers: ReadonlyArray<TimerRow>,
): ReadonlyArray<Due<M, Row, Own>> => {
  const byActor = new Map(timers.map((timer) => [timer.actor_id, timer]))
  return rows.flatMap((row) => {
    const timer = byActor.get(row.id)
    // The one place where a timer's text becomes an event of its machine: the machine itself set it.
    return timer === undefined
      ? []
      : [{ row, event: { type: timer.event, at: timer.due_at } as Due<M, Row, Own>["event"] }]
  })
}

/** How the timers of a noun's actors fire: `fire` decides and writes, in the transaction. */
export const timerHandler = <M extends AnyStateMachine, Row extends ActorRow, R, R2, Own extends string = never>(
  lifecycle: Lifecycle<M, Row, Own>,
  fire: (due: ReadonlyArray<Due<M, Row, Own>>, now: number) => Effect.Effect<After<R2>, SqlError.SqlError, R>,
): TimerHandler<R | R2 | SqlClient.SqlClient> => {
  const { kind, table } = lifecycle
  const fireRows = (rows: ReadonlyArray<Row>, now: number) =>
    Effect.flatMap(takeFirstDue(rows.map(refOf), now), (timers) => fire(dueOf<M, Row, Own>(rows, timers), now))
  const claim = Effect.fnUntraced(function* (now: number, setAside: ReadonlySet<string>) {
    const sql = yield* SqlClient.SqlClient
    const found = yield* sql<Row>`
      SELECT a.* FROM timer t
      JOIN ${sql(table.name)} a ON (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)
      WHERE t.actor_kind = ${kind} AND t.test_clock_id IS NULL AND t.due_at <= ${PgTypes.timestamptz(now)}
        AND t.actor_id <> ALL(${[...setAside]}::text[]) AND ${staysHere(sql, "t")}
      ORDER BY t.due_at, t.rank, t.actor_id LIMIT ${MAX_BATCH}
      FOR UPDATE OF a SKIP LOCKED`
    // An actor with two due timers is claimed twice. The timers are read again now that the actors are locked.
    return [...new Map(found.map((row) => [row.id, row])).values()]
  })
  return {
    kind,
    fire: (actors, now) => Effect.flatMap(table.lock(actors), (rows) => fireRows(rows, now)),
    /** A batch that fails is tried again actor by actor, so that one which cannot be decided on holds nobody else back. */
    fireBatch: Effect.fnUntraced(function* (now: number, setAside: Set<string>) {
      const sql = yield* SqlClient.SqlClient
      let claimed: ReadonlyArray<Row> = []
      const batch = sql.withTransaction(
        Effect.gen(function* () {
          claimed = yield* claim(now, setAside)
          return claimed.length === 0 ? Effect.void : yield* fireRows(claimed, now)
        }),
      )
      const alone = (row: Row) =>
        sql.withTransaction(Effect.flatMap(table.lock([refOf(row)]), (rows) => fireRows(rows, now))).pipe(
          Effect.flatten,
          Effect.catchCause((cause) => {
            setAside.add(row.id)
            return Effect.logError("timer cannot be fired", { actor: row.id }, cause)
          }),
        )
      yield* batch.pipe(
        Effect.matchCauseEffect({
          onSuccess: (after) => after,
          onFailure: (cause) =>
            claimed.length === 0 ? Effect.failCause(cause) : Effect.forEach(claimed, alone, { discard: true }),
        }),
      )
      return claimed.length
    }),
  }
}

/** Fires everything that is due by the wall clock, batch after batch, until nothing is. Returns how much that was. */
export const sweep = Effect.fnUntraced(function* <R>(handlers: ReadonlyArray<TimerHandler<R>>) {
  let fired = 0
  const setAside = new Set<string>()
  for (const handler of handlers) {
    const lane = Effect.gen(function* () {
      for (let found = -1; found !== 0; fired += found)
        found = yield* Effect.uninterruptible(handler.fireBatch(Date.now(), setAside))
    })
    yield* Effect.all(
      Array.from({ length: LANES }, () => lane),
      { concurrency: "unbounded", discard: true },
    )
  }
  return fired
})

interface NextOnClock {
  readonly actor_kind: ActorKind
  readonly due_at: number
  readonly rank: number
}

const onClock = (sql: SqlClient.SqlClient, clock: Ref) => sql`${ofTenant(sql, clock)} AND test_clock_id = ${clock.id}`

/** The next instant on a clock at which something is due, not after `target`; undefined where nothing is. */
export const nextOnClock = Effect.fnUntraced(function* (clock: Ref, target: number) {
  const sql = yield* SqlClient.SqlClient
  const [next] = yield* sql<NextOnClock>`
    SELECT actor_kind, due_at, rank FROM timer
    WHERE ${onClock(sql, clock)} AND due_at <= ${PgTypes.timestamptz(target)}
    ORDER BY due_at, rank, actor_id LIMIT 1`
  return next
})

/** Fires the timers of one kind, instant and rank on a clock, in order of creation. Runs in the caller's transaction. */
export const fireOnClock = Effect.fnUntraced(function* <R>(
  handlers: ReadonlyArray<TimerHandler<R>>,
  clock: Ref,
  { actor_kind, due_at, rank }: NextOnClock,
) {
  const sql = yield* SqlClient.SqlClient
  const actors = yield* sql<{ id: string }>`
    SELECT actor_id AS id FROM timer
    WHERE ${onClock(sql, clock)} AND due_at = ${PgTypes.timestamptz(due_at)} AND rank = ${rank} AND actor_kind = ${actor_kind}
    ORDER BY actor_id LIMIT ${MAX_BATCH}`
  const handler = handlers.find(({ kind }) => kind === actor_kind)
  if (handler === undefined) return yield* Effect.die(new Error(`Nothing fires the timers of a ${actor_kind}.`))
  const { account_id, livemode } = clock
  return yield* handler.fire(
    actors.map(({ id }) => ({ account_id, livemode, id })),
    due_at,
  )
})
