/**
 * Copies an account by Postgres's logical replication: a publication at the source, filtered to the account's rows, and a
 * subscription at the target. First all existing rows are copied, then all changes in commit order. Each step is idempotent.
 */
import { randomUUID } from "node:crypto"
import { Effect, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { cellProblem } from "./CellProblem.ts"
import type { MovedTable } from "./tables.ts"

const POLL_MS = 100
const FAST_POLL_MS = 5

/** Quotes a text for SQL statements that accept no parameters. */
const quoted = (text: string): string => `'${text.replaceAll("'", "''")}'`

export interface Move {
  readonly account_id: string
  /** Also the name of the publication, the slot and the subscription. */
  readonly move_id: string
}

/** At the target: reads the subscription's OID; undefined if there is none. */
export const subscriptionOf = Effect.fnUntraced(function* ({ move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ oid: number }>`SELECT oid::bigint AS oid FROM pg_subscription WHERE subname = ${move_id}`
  return row?.oid
})

/**
 * At the source: creates the publication and the replication slot. If copying has started (`isCopying`), the slot must still exist: a
 * new slot would miss the changes in between.
 */
export const publish = Effect.fnUntraced(function* (
  { account_id, move_id }: Move,
  tables: ReadonlyArray<MovedTable>,
  isCopying: boolean,
) {
  const sql = yield* SqlClient.SqlClient
  const slots = yield* sql`
    SELECT 1 FROM pg_replication_slots WHERE slot_name = ${move_id} AND wal_status IS DISTINCT FROM 'lost'`
  if (isCopying && slots.length === 0)
    return yield* cellProblem(
      `The replication slot ${move_id} is gone: run the command with --abandon, then move the account again.`,
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

/** At the target: starts or continues copying. `from` is the current URL by which the target's Postgres reaches the source's database. */
export const subscribe = Effect.fnUntraced(function* (move: Move, from: Redacted.Redacted<string>) {
  const sql = yield* SqlClient.SqlClient
  const { move_id } = move
  const connection = `CONNECTION ${quoted(Redacted.value(from))}`
  const isCopying = (yield* subscriptionOf(move)) !== undefined
  yield* sql.unsafe(
    isCopying
      ? `ALTER SUBSCRIPTION ${move_id} ${connection}`
      : `CREATE SUBSCRIPTION ${move_id} ${connection} PUBLICATION ${move_id}
         WITH (create_slot = false, slot_name = ${quoted(move_id)}, copy_data = true, synchronous_commit = 'on')`,
  ).unprepared
})

/** How long the target's Postgres may take to connect to the source's. It tries every five seconds. */
const REACH_LIMIT_MS = 20_000

/** At the source: waits until the target's Postgres uses the slot. Fails if it does not connect in time. */
export const reached = Effect.fnUntraced(function* ({ move_id }: Move) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT 1 FROM pg_replication_slots WHERE slot_name = ${move_id} AND active`.pipe(
    Effect.repeat({ until: (rows) => rows.length > 0, schedule: Schedule.spaced(POLL_MS) }),
    Effect.timeoutOrElse({
      duration: REACH_LIMIT_MS,
      orElse: () =>
        cellProblem(
          "The target's Postgres cannot connect to this cell's Postgres by the address in DATABASE_URL: see the log of the target's Postgres.",
        ),
    }),
  )
})

/** How long the copying may fail without progress before the command stops. A short outage may end within this time. */
const FAILING_MS = 30_000

/** SQL: how often the copying has failed, as counted by the target. */
const failuresOf = (sql: SqlClient.SqlClient, { move_id }: Move) => sql`
  coalesce((SELECT apply_error_count + sync_error_count FROM pg_stat_subscription_stats WHERE subname = ${move_id}), 0)`

const failing = () => cellProblem("The copying fails repeatedly: see the log of the target's Postgres.")

/** The progress of the copying: how many tables, or marks, are left. */
interface Progress {
  readonly left: number
  readonly failures: number
}

/** Polls until nothing is left. Fails if the copying is failing and has made no progress for a while. */
const untilDone = Effect.fnUntraced(function* <E, R>(
  readProgress: Effect.Effect<ReadonlyArray<Progress>, E, R>,
  everyMs: number,
) {
  let [least, since] = [Number.POSITIVE_INFINITY, 0]
  let lastFailures: number | undefined
  const isStuck = ({ left, failures }: Progress): boolean => {
    if (left < least) [least, since] = [left, performance.now()]
    const isFailing = failures > (lastFailures ?? failures)
    lastFailures = failures
    return isFailing && performance.now() - since > FAILING_MS
  }
  const [last] = yield* Effect.repeat(readProgress, {
    until: ([row]) => row!.left === 0 || isStuck(row!),
    schedule: Schedule.spaced(everyMs),
  })
  if (last!.left > 0) return yield* failing()
})

/** At the target: waits until all existing rows are copied. */
export const copied = (move: Move) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    untilDone(
      sql<Progress>`
        SELECT count(*) FILTER (WHERE r.srsubstate <> 'r') AS left, ${failuresOf(sql, move)} AS failures
        FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid WHERE s.subname = ${move.move_id}`,
      POLL_MS,
    ),
  )

/** Waits until the target has everything committed at the source so far. Returns the duration (ms). */
export const catchUp = Effect.fnUntraced(function* (move: Move, target: SqlClient.SqlClient) {
  const sql = yield* SqlClient.SqlClient
  const mark = randomUUID()
  const startedAt = performance.now()
  yield* sql`
    INSERT INTO account_mark (account_id, mark) VALUES (${move.account_id}, ${mark})
    ON CONFLICT (account_id) DO UPDATE SET mark = excluded.mark`
  yield* untilDone(
    target<Progress>`
      SELECT 1 - count(*) AS left, ${failuresOf(target, move)} AS failures
      FROM account_mark WHERE account_id = ${move.account_id} AND mark = ${mark}`,
    FAST_POLL_MS,
  )
  return performance.now() - startedAt
})

/** At the target: stops the copying. The source's slot stays: the source drops it. */
export const detach = Effect.fnUntraced(function* (move: Move) {
  const sql = yield* SqlClient.SqlClient
  const subscription = yield* subscriptionOf(move)
  if (subscription === undefined) return undefined
  yield* sql.unsafe(`ALTER SUBSCRIPTION ${move.move_id} DISABLE`).unprepared
  yield* sql.unsafe(`ALTER SUBSCRIPTION ${move.move_id} SET (slot_name = NONE)`).unprepared
  return subscription
})

/** At the source: drops the publication, its slot, and the slots of its tables. */
export const unpublish = Effect.fnUntraced(function* ({ move_id }: Move, subscription: number | undefined) {
  const sql = yield* SqlClient.SqlClient
  yield* sql.unsafe(`DROP PUBLICATION IF EXISTS ${move_id}`).unprepared
  const ofTables = `pg_${subscription ?? "none"}_sync_%`
  const isOurs = sql`(slot_name = ${move_id} OR slot_name LIKE ${ofTables})`
  // A slot stays active until its walsender notices that the connection is closed.
  yield* sql`SELECT pg_drop_replication_slot(slot_name)::text FROM pg_replication_slots WHERE ${isOurs} AND NOT active`.pipe(
    Effect.andThen(sql`SELECT 1 FROM pg_replication_slots WHERE ${isOurs}`),
    Effect.repeat({ until: (rows) => rows.length === 0, schedule: Schedule.spaced(POLL_MS) }),
  )
})

/** At the target: drops the subscription, after the source's part is dropped. */
export const unsubscribe = Effect.fnUntraced(function* (move: Move) {
  const sql = yield* SqlClient.SqlClient
  if ((yield* subscriptionOf(move)) !== undefined) yield* sql.unsafe(`DROP SUBSCRIPTION ${move.move_id}`).unprepared
})
