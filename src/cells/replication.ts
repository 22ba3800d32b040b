/**
 * Copying an account by Postgres's own logical replication: a publication of the source whose row filters let that account's
 * rows through, and a subscription of the target. First all rows as they are, then whatever is written, in order of commit.
 * Each step may be taken again.
 */
import { randomUUID } from "node:crypto"
import { Effect, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { apart } from "./CellsApart.ts"
import type { MovedTable } from "./tables.ts"

const LOOK_EVERY_MS = 100
const LOOK_CLOSELY_MS = 5

/** In SQL that takes no parameters. */
const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

export interface Move {
  readonly account_id: string
  /** What the publication, the slot and the subscription are called, too. */
  readonly move_id: string
}

/** At the target: the subscription's number; undefined where there is none. */
export const subscriptionOf = Effect.fnUntraced(function* ({ move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ oid: number }>`SELECT oid::bigint AS oid FROM pg_subscription WHERE subname = ${move_id}`
  return row?.oid
})

/**
 * At the source: what is to be copied, and from where in its log. Where copying has begun (`begun`) that place must be there still:
 * from another one, what was written in between would be missing.
 */
export const publish = Effect.fnUntraced(function* (
  { account_id, move_id }: Move,
  tables: ReadonlyArray<MovedTable>,
  begun: boolean,
) {
  const sql = yield* SqlClient.SqlClient
  const slots = yield* sql`
    SELECT 1 FROM pg_replication_slots WHERE slot_name = ${move_id} AND wal_status IS DISTINCT FROM 'lost'`
  if (begun && slots.length === 0)
    return yield* apart(
      `The replication slot ${move_id} is gone: run the command with --abandon, and move the account anew.`,
    )
  const published = yield* sql`SELECT 1 FROM pg_publication WHERE pubname = ${move_id}`
  if (published.length === 0) {
    const rows = [...tables, { name: "account_mark", owner: "account_id" }].map(
      ({ name, owner }) => `${name} WHERE (${owner} = ${quoted(account_id)})`,
    )
    yield* sql.unsafe(`CREATE PUBLICATION ${move_id} FOR TABLE ${rows.join(", ")}`).unprepared
  }
  yield* sql`
    SELECT pg_create_logical_replication_slot(${move_id}, 'pgoutput')::text AS made
    WHERE NOT EXISTS (SELECT 1 FROM pg_replication_slots WHERE slot_name = ${move_id})`
})

/** At the target: begins to copy, or goes on. `from` is how the target's server reaches the source's database, by now. */
export const subscribe = Effect.fnUntraced(function* (move: Move, from: Redacted.Redacted<string>) {
  const sql = yield* SqlClient.SqlClient
  const { move_id } = move
  const connection = `CONNECTION ${quoted(Redacted.value(from))}`
  const begun = (yield* subscriptionOf(move)) !== undefined
  yield* sql.unsafe(
    begun
      ? `ALTER SUBSCRIPTION ${move_id} ${connection}`
      : `CREATE SUBSCRIPTION ${move_id} ${connection} PUBLICATION ${move_id}
         WITH (create_slot = false, slot_name = ${quoted(move_id)}, copy_data = true, synchronous_commit = 'on')`,
  ).unprepared
})

/** How long the target's server may take to reach the source's. It tries every five seconds. */
const REACH_LIMIT_MS = 20_000

/** At the source: fails unless the target's server comes to fetch what is published. */
export const reached = Effect.fnUntraced(function* ({ move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM pg_replication_slots WHERE slot_name = ${move_id} AND active`.pipe(
    Effect.repeat({ until: (rows) => rows.length > 0, schedule: Schedule.spaced(LOOK_EVERY_MS) }),
    Effect.timeoutOrElse({
      duration: REACH_LIMIT_MS,
      orElse: () =>
        apart(
          "The target's Postgres does not reach this cell's by the address in DATABASE_URL: the log of the target's says why.",
        ),
    }),
  )
})

/** For how long the copying may fail and get no further, before somebody has to look why. What it lacks may come back meanwhile. */
const FAILING_MS = 30_000

/** How often the copying has failed, as the target counts. */
const failuresOf = (sql: SqlClient.SqlClient, { move_id }: Move) => sql`
  coalesce((SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats WHERE subname = ${move_id}), 0)`

const failing = () => apart("The copying fails again and again: the log of the target's Postgres says why.")

/** How far the copying is: so many tables, or marks, are to come. */
interface Progress {
  readonly left: number
  readonly failures: number
}

/** Looks until nothing is left; fails where it fails just now, and has got no further for a while. */
const untilDone = Effect.fnUntraced(function* <E, R>(
  look: Effect.Effect<ReadonlyArray<Progress>, E, R>,
  everyMs: number,
) {
  let [least, since] = [Number.POSITIVE_INFINITY, 0]
  let seen: number | undefined
  const isStuck = ({ left, failures }: Progress): boolean => {
    if (left < least) [least, since] = [left, performance.now()]
    const fails = failures > (seen ?? failures)
    seen = failures
    return fails && performance.now() - since > FAILING_MS
  }
  const [last] = yield* Effect.repeat(look, {
    until: ([row]) => row!.left === 0 || isStuck(row!),
    schedule: Schedule.spaced(everyMs),
  })
  if (last!.left > 0) return yield* failing()
})

/** At the target: waits until all rows that there were are copied. */
export const copied = (move: Move) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    untilDone(
      sql<Progress>`
        SELECT count(*) FILTER (WHERE r.srsubstate <> 'r') AS left, ${failuresOf(sql, move)} AS failures
        FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid WHERE s.subname = ${move.move_id}`,
      LOOK_EVERY_MS,
    ),
  )

/** Waits until the target has all that is committed at the source so far; returns how long that took, ms. */
export const catchUp = Effect.fnUntraced(function* (move: Move, target: SqlClient.SqlClient) {
  const sql = yield* SqlClient.SqlClient
  const mark = randomUUID()
  const beganAt = performance.now()
  yield* sql`
    INSERT INTO account_mark (account_id, mark) VALUES (${move.account_id}, ${mark})
    ON CONFLICT (account_id) DO UPDATE SET mark = excluded.mark`
  yield* untilDone(
    target<Progress>`
      SELECT 1 - count(*) AS left, ${failuresOf(target, move)} AS failures
      FROM account_mark WHERE account_id = ${move.account_id} AND mark = ${mark}`,
    LOOK_CLOSELY_MS,
  )
  return performance.now() - beganAt
})

/** At the target: ends the copying, what happens at the source does not arrive any more. What the source has for it is its to drop. */
export const detach = Effect.fnUntraced(function* (move: Move) {
  const sql = yield* SqlClient.SqlClient
  const subscription = yield* subscriptionOf(move)
  if (subscription === undefined) return undefined
  yield* sql.unsafe(`ALTER SUBSCRIPTION ${move.move_id} DISABLE`).unprepared
  yield* sql.unsafe(`ALTER SUBSCRIPTION ${move.move_id} SET (slot_name = NONE)`).unprepared
  return subscription
})

/** At the source: forgets what was to be copied, and the slots that were made for it and for its tables. */
export const unpublish = Effect.fnUntraced(function* ({ move_id }: Move, subscription: number | undefined) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`DROP PUBLICATION IF EXISTS ${move_id}`).unprepared
  const ofTables = `pg_${subscription ?? "none"}_sync_%`
  const its = sql`(slot_name = ${move_id} OR slot_name LIKE ${ofTables})`
  // Until its walsender has heard that nobody listens any more, a slot is in use.
  yield* sql`SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE ${its} AND NOT active`.pipe(
    Effect.andThen(sql`SELECT 1 FROM pg_replication_slots WHERE ${its}`),
    Effect.repeat({ until: (rows) => rows.length === 0, schedule: Schedule.spaced(LOOK_EVERY_MS) }),
  )
})

/** At the target: forgets the copying, once the source has. */
export const unsubscribe = Effect.fnUntraced(function* (move: Move) {
  const sql = yield* SqlClient.SqlClient
  if ((yield* subscriptionOf(move)) !== undefined) yield* sql.unsafe(`DROP SUBSCRIPTION ${move.move_id}`).unprepared
})
