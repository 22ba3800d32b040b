/**
 * Firing what is due. Each batch is one transaction: claim the actors of due timers (rows that others hold are theirs),
 * let each decide on its first due timer, commit; then do what may only be done outside a transaction.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { TimedEvent } from "../../machines/decide.ts"
import { type Ref, refOf, type Tenant } from "../db/tenant.ts"
import type { ActorKind, ActorRow } from "../lifecycle/advance.ts"
import { clearTimers, firstDue, type TimerRow } from "./rows.ts"

/** Actors fired in one transaction: large enough to spread the cost of a statement, small enough to hold locks briefly. */
export const BATCH = 500

/** Actors that have timers of their own; a clock is moved by its worker, an endpoint by what is delivered to it. */
type TimedKind = Exclude<ActorKind, "test_clock" | "webhook_endpoint">

export interface Due<Row extends ActorRow> {
  readonly row: Row
  readonly event: TimedEvent
}

/** How a kind of actor fires. `R` is what its verbs need. */
export interface Firing<Row extends ActorRow, R> {
  readonly kind: TimedKind
  /** Locks actors and reads their rows. */
  readonly lock: (refs: ReadonlyArray<Ref>) => Effect.Effect<ReadonlyArray<Row>, SqlError.SqlError, R>
  /** Decides and writes, in the transaction; answers what is left to do after its commit. */
  readonly fire: (
    due: ReadonlyArray<Due<Row>>,
    now: number,
  ) => Effect.Effect<Effect.Effect<void, SqlError.SqlError, R>, SqlError.SqlError, R>
}

/** A firing whose row type is its own affair. */
export type AnyFiring<R> = <A>(use: <Row extends ActorRow>(firing: Firing<Row, R>) => A) => A

export const firing =
  <Row extends ActorRow, R>(definition: Firing<Row, R>): AnyFiring<R> =>
  (use) =>
    use(definition)

/** `xstate.after.<delay>.<state>`, or a name of our own. */
const timerName = (event: string): string => event.split(".")[2] ?? event

/** Timers that their actors no longer care for (a machine may ignore one whose guard says no) are gone all the same. */
export const dropIgnored = <Row extends ActorRow>(due: ReadonlyArray<Due<Row>>, heeded: ReadonlySet<string>) =>
  clearTimers(
    due
      .filter(({ row }) => !heeded.has(row.id))
      .map(({ row, event }) => ({
        account_id: row.account_id,
        livemode: row.livemode,
        actor_id: row.id,
        name: timerName(event.type),
      })),
  )

const dueOf = <Row extends ActorRow>(
  rows: ReadonlyArray<Row>,
  timers: ReadonlyArray<TimerRow>,
): ReadonlyArray<Due<Row>> => {
  const byActor = new Map(rows.map((row) => [row.id, row]))
  return timers.map((timer) => ({ row: byActor.get(timer.actor_id)!, event: { type: timer.event, at: timer.due_at } }))
}

/** Fires locked actors' first due timers; answers what is left to do after the commit. */
const fireRows = <Row extends ActorRow, R>(firing: Firing<Row, R>, rows: ReadonlyArray<Row>, now: number) =>
  Effect.flatMap(firstDue(rows.map(refOf), now), (timers) => firing.fire(dueOf(rows, timers), now))

/**
 * Fires one batch of wall-clock timers that are due at `now`. Answers how many actors it found. A batch that fails is
 * tried again actor by actor, so that one which cannot be decided on holds nobody else back; it is set aside.
 */
const fireBatch = <Row extends ActorRow, R>(firing: Firing<Row, R>, now: number, setAside: Set<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    let claimed: ReadonlyArray<Ref> = []
    const batch = sql.withTransaction(
      Effect.gen(function* () {
        const found = yield* sql<Row>`
          SELECT a.* FROM timer t
          JOIN ${sql(firing.kind)} a ON (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)
          WHERE t.actor_kind = ${firing.kind} AND t.test_clock_id IS NULL AND t.due_at <= ${PgTypes.timestamptz(now)}
            AND t.actor_id <> ALL(${[...setAside]}::text[])
          ORDER BY t.due_at, t.rank, t.actor_id LIMIT ${BATCH}
          FOR UPDATE OF a SKIP LOCKED`
        // An actor with two due timers is claimed twice. The timers are read anew now that the actors are locked.
        const rows = [...new Map(found.map((row) => [row.id, row])).values()]
        claimed = rows.map(refOf)
        return rows.length === 0 ? Effect.void : yield* fireRows(firing, rows, now)
      }),
    )
    const alone = (ref: Ref) =>
      sql.withTransaction(Effect.flatMap(firing.lock([ref]), (rows) => fireRows(firing, rows, now))).pipe(
        Effect.flatten,
        Effect.catchCause((cause) => {
          setAside.add(ref.id)
          return Effect.logError("timer cannot be fired", { actor: ref.id }, cause)
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
  })

/** Batches under way at once in a sweep: while one waits for the database, another decides. */
const LANES = 3

/** Fires everything that is due by the wall clock, batch after batch, until nothing is. Answers how much that was. */
export const sweep = <R>(firings: ReadonlyArray<AnyFiring<R>>) =>
  Effect.gen(function* () {
    let fired = 0
    const setAside = new Set<string>()
    for (const any of firings) {
      const lane = Effect.gen(function* () {
        for (let found = -1; found !== 0; fired += found)
          found = yield* Effect.uninterruptible(any((firing) => fireBatch(firing, Date.now(), setAside)))
      })
      yield* Effect.all(
        Array.from({ length: LANES }, () => lane),
        { concurrency: "unbounded", discard: true },
      )
    }
    return fired
  })

interface ClockRef extends Tenant {
  readonly id: string
}

interface NextOnClock {
  readonly actor_kind: TimedKind
  readonly due_at: number
  readonly rank: number
}

/** The next instant on a clock at which something is due, not after `target`; undefined where nothing is. */
export const nextOnClock = (clock: ClockRef, target: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [next] = yield* sql<NextOnClock>`
      SELECT actor_kind, due_at, rank FROM timer
      WHERE account_id = ${clock.account_id} AND livemode = ${clock.livemode} AND test_clock_id = ${clock.id} AND due_at <= ${PgTypes.timestamptz(target)}
      ORDER BY due_at, rank, actor_id LIMIT 1`
    return next
  })

/** Fires the timers of one kind, instant and rank on a clock, in order of creation. Runs in the caller's transaction. */
export const fireOnClock = <R>(firings: ReadonlyArray<AnyFiring<R>>, clock: ClockRef, next: NextOnClock) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const actors = yield* sql<{ id: string }>`
      SELECT actor_id AS id FROM timer
      WHERE account_id = ${clock.account_id} AND livemode = ${clock.livemode} AND test_clock_id = ${clock.id}
        AND due_at = ${PgTypes.timestamptz(next.due_at)} AND rank = ${next.rank} AND actor_kind = ${next.actor_kind}
      ORDER BY actor_id LIMIT ${BATCH}`
    const refs = actors.map(({ id }) => ({ account_id: clock.account_id, livemode: clock.livemode, id }))
    const pick = firings.find((any) => any((firing) => firing.kind === next.actor_kind))!
    return yield* pick((firing) =>
      Effect.gen(function* () {
        const rows = yield* firing.lock(refs)
        const timers = yield* firstDue(refs, next.due_at)
        return yield* firing.fire(dueOf(rows, timers), next.due_at)
      }),
    )
  })
