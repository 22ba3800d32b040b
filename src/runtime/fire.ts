/**
 * Fires due timers. Each batch is one transaction: lock the actors of due timers (skipping rows that others have locked), take the first due
 * timer of each, let the actors decide, commit. Then it does the work that must run outside a transaction.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { AnyStateMachine, EventFrom } from "xstate"
import { type NowOf, sameForAll } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { type Ref, refOf, staysHere } from "../db/tenant.ts"
import { WaitForLocks, withLockTimeout } from "../postgres/lockWait.ts"
import { isServing } from "../process/loadHint.ts"
import { untilClocksAgree } from "../process/workers.ts"
import type { ActorKind, ActorRow, Lifecycle } from "./lifecycle.ts"
import { type TimerRow, takeFirstDue } from "./timers.ts"

/**
 * How many actors fire in one transaction: enough to spread the cost of a statement, few enough to keep locks short. Fewer while the process
 * serves requests, so that they wait less; that costs a tenth of the throughput.
 */
const MAX_BATCH = 500
const MAX_BATCH_SERVING = 80

const batchSize = (): number => (isServing() ? MAX_BATCH_SERVING : MAX_BATCH)

/**
 * How many batches of a sweep run at the same time: while one waits for the database, another decides. One less while the process serves
 * requests: on two cores the requests then wait half as long, with the same throughput.
 */
const LANES = 3
const LANES_SERVING = 2

const lanes = (): number => (isServing() ? LANES_SERVING : LANES)

/** How many due timers a batch looks at: more than other lanes and processes have in flight. */
const MAX_LOOKED_AT = 20_000

type Delayed<M extends AnyStateMachine> = Extract<EventFrom<M>, { readonly type: `xstate.after.${string}` }>

/** An actor whose timer fires: a delay of its machine, or one of the noun's own timers. */
export interface Due<M extends AnyStateMachine, Row extends ActorRow, Own extends string = never> {
  readonly row: Row
  readonly event: Delayed<M> | (Own extends string ? { readonly type: Own; readonly at: number } : never)
}

/** Work after the commit, outside any transaction. */
export type AfterCommit<R> = Effect.Effect<void, SqlError.SqlError, R>

/** Fires the timers of one kind of actor. The noun decides which rows it locks. */
export interface TimerHandler<R> {
  readonly kind: ActorKind
  /** Fires one batch of timers due on the wall clock, without the actors in `setAside`; returns how many actors it found. */
  readonly fireBatch: (now: number, setAside: Set<string>) => Effect.Effect<number, SqlError.SqlError, R>
  /** Fires the first timer due by `until` of each of these actors on a clock, in the caller's transaction. */
  readonly fire: (actors: ReadonlyArray<Ref>, until: number) => Effect.Effect<AfterCommit<R>, SqlError.SqlError, R>
}

const dueOf = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  rows: ReadonlyArray<Row>,
  timers: ReadonlyArray<TimerRow>,
): ReadonlyArray<Due<M, Row, Own>> => {
  const byActor = new Map(timers.map((timer) => [timer.actor_id, timer]))
  return rows.flatMap((row) => {
    const timer = byActor.get(row.id)
    // The only place that turns a timer's text into an event of its machine: the machine itself set it.
    return timer === undefined
      ? []
      : [{ row, event: { type: timer.event, at: timer.due_at } as Due<M, Row, Own>["event"] }]
  })
}

/** On a clock, a customer's current time is the due instant of the timer that fires. */
const dueTimes = (timers: ReadonlyArray<TimerRow>): NowOf => {
  const dueAt = new Map(timers.map(({ customer_id, due_at }) => [customer_id, due_at]))
  return ({ customer_id }) => dueAt.get(customer_id)!
}

/** Runs the work after a commit. It skips locked rows: those that take over dropped rows will find them. */
const runAfterCommit = <E, R>(after: Effect.Effect<void, E, R>) => Effect.provideService(after, WaitForLocks, false)

/** How the timers of a noun's actors fire: `fire` decides and writes, in the transaction. */
export const timerHandler = <M extends AnyStateMachine, Row extends ActorRow, R, R2, Own extends string = never>(
  lifecycle: Lifecycle<M, Row, Own>,
  fire: (due: ReadonlyArray<Due<M, Row, Own>>, nowOf: NowOf) => Effect.Effect<AfterCommit<R2>, SqlError.SqlError, R>,
): TimerHandler<R | R2 | SqlClient.SqlClient> => {
  const { kind, table } = lifecycle
  const fireRows = (rows: ReadonlyArray<Row>, until: number, nowBy: (timers: ReadonlyArray<TimerRow>) => NowOf) =>
    Effect.flatMap(takeFirstDue(rows.map(refOf), until), (timers) =>
      fire(dueOf<M, Row, Own>(rows, timers), nowBy(timers)),
    )
  const fireByWallClock = (rows: ReadonlyArray<Row>, now: number) => fireRows(rows, now, () => sameForAll(now))
  const claim = Effect.fnUntraced(function* (now: number, setAside: ReadonlySet<string>) {
    // In due order, each actor by its key, until there are enough, however small the tables were when this was planned. The inner limit makes
    // the planner read timers in index order, without a sort.
    const found = yield* table.read(
      "a",
      (sql, columns) => sql`
      SELECT ${columns} FROM (
        SELECT account_id, livemode, actor_id FROM timer t
        WHERE actor_kind = ${kind} AND test_clock_id IS NULL AND due_at <= ${PgTypes.timestamptz(now)}
          AND actor_id <> ALL(${[...setAside]}::text[]) AND ${staysHere(sql, "t")}
        ORDER BY due_at, rank, actor_id LIMIT ${MAX_LOOKED_AT}
      ) t CROSS JOIN LATERAL (
        SELECT * FROM ${sql(table.name)} WHERE (account_id, livemode, id) = (t.account_id, t.livemode, t.actor_id) FOR UPDATE SKIP LOCKED
      ) a LIMIT ${batchSize()}`,
    )
    // An actor with two due timers appears twice. Its timers are read again, now that it is locked.
    return [...new Map(found.map((row) => [row.id, row])).values()]
  })
  return {
    kind,
    fire: (actors, until) => Effect.flatMap(table.lock(actors), (rows) => fireRows(rows, until, dueTimes)),
    /** Retries a failed batch actor by actor, so that one actor that fails does not block the others. */
    fireBatch: Effect.fnUntraced(function* (now: number, setAside: Set<string>) {
      let claimed: ReadonlyArray<Row> = []
      const batch = withLockTimeout(
        Effect.gen(function* () {
          claimed = yield* claim(now, setAside)
          return claimed.length === 0 ? Effect.void : yield* fireByWallClock(claimed, now)
        }),
      )
      const alone = (row: Row) =>
        withLockTimeout(Effect.flatMap(table.lock([refOf(row)]), (rows) => fireByWallClock(rows, now))).pipe(
          Effect.flatMap(runAfterCommit),
          Effect.catchCause((cause) => {
            setAside.add(row.id)
            return Effect.logError("timer cannot be fired", { actor: row.id }, cause)
          }),
        )
      yield* batch.pipe(
        Effect.matchCauseEffect({
          onSuccess: runAfterCommit,
          onFailure: (cause) =>
            claimed.length === 0 ? Effect.failCause(cause) : Effect.forEach(claimed, alone, { discard: true }),
        }),
      )
      return claimed.length
    }),
  }
}

/** Fires all timers due by the wall clock, batch after batch, until none is left. Returns how many actors fired. */
export const sweep = Effect.fnUntraced(function* <R>(handlers: ReadonlyArray<TimerHandler<R>>) {
  let fired = 0
  const setAside = new Set<string>()
  for (const handler of handlers) {
    const fireLane = Effect.fnUntraced(function* (lane: number) {
      for (let found = -1; found !== 0 && lane < lanes(); fired += found)
        found = yield* Effect.andThen(
          untilClocksAgree,
          Effect.uninterruptible(Effect.suspend(() => handler.fireBatch(currentTime(), setAside))),
        )
    })
    yield* Effect.forEach(Array.from({ length: LANES }).keys(), fireLane, {
      concurrency: "unbounded",
      discard: true,
    })
  }
  return fired
})
