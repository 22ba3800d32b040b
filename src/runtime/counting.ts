/**
 * Counting keeps the numbers of the pages of machines (decision R11): how many actors are in each state, with what amounts, and how many
 * transitions took each arrow. Requests do nothing for it: a worker reads what was added to the journal.
 *
 * - Which rows are new is decided by snapshots, not by times. A row is new if the snapshot of the last counting did not see its transaction.
 *   So no row is missed or counted twice, in whatever order transactions commit, and a long backup holds nothing up. Candidates are found
 *   by `lifecycle_journal.xid` in a BRIN index, which costs a write next to nothing.
 * - The new counts and the new snapshot are committed together: a crash repeats a counting or leaves it done.
 * - A row whose transaction is not the one in its `xid` was copied here from another database. It is left out, as its account is counted
 *   again from its rows (recounting.ts): so are new accounts, those that arrived or came back, and sandboxes in which actors were deleted.
 * - Charges, refunds and clocks are created without a journal row. Those that made no transition yet are few, and a page counts their rows
 *   (counts.ts), as it does for webhook endpoints.
 * - Amounts are those of the actors' rows, which do not change, with one exception: the quantity of a subscription. The journal has every
 *   quantity, so its former amount is looked up where a new row changes it.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { DAY_MS } from "../base/time.ts"
import { staysHere, type Tenant } from "../db/tenant.ts"
import type { ActorKind } from "./lifecycle.ts"

/** Arrows are counted for the last 30 days; a day more, so that no span is cut. */
export const KEPT_ARROWS_MS = 31 * DAY_MS
/** Rows of one DELETE: a few milliseconds. */
const MAX_DELETED = 5_000

/** The amount of an actor, as SQL on its row. Kinds that are left out have no amount. */
export const AMOUNTS: Readonly<Partial<Record<ActorKind, string>>> = {
  subscription: "price_kobo * quantity",
  charge: "amount_kobo",
  refund: "amount_kobo",
  invoice: "total_kobo",
  checkout_session: "coalesce(price_kobo * quantity, 0)",
  instalment_plan: "target_kobo",
}

/** The name of this database: transaction IDs and snapshots of another one mean nothing here. */
export const PLACE =
  "(SELECT system_identifier || '/' || (SELECT oid FROM pg_database WHERE datname = current_database()) FROM pg_control_system())"

/** What triggered a transition, as `triggerOf` (machines/decide.ts) says it, as SQL. */
export const TRIGGER =
  "CASE WHEN starts_with(event->>'type', 'xstate.after.') THEN 'after ' || split_part(event->>'type', '.', 3) ELSE event->>'type' END"

const amountOf = Object.entries(AMOUNTS)
  .map(
    ([kind, amount]) =>
      `WHEN '${kind}' THEN (SELECT ${amount} FROM ${kind} a WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id))`,
  )
  .join("\n")

/** The amount before the first new row of a subscription whose quantity changes in the new rows. */
const FORMER_AMOUNT = `(
  SELECT a.price_kobo * (j.event->>'quantity')::bigint FROM subscription a, lifecycle_journal j
  WHERE (a.account_id, a.livemode, a.id) = (t.account_id, t.livemode, t.actor_id)
    AND (j.account_id, j.livemode, j.actor_id) = (t.account_id, t.livemode, t.actor_id) AND j.version < t.first
    AND j.event->>'type' IN ('create', 'update') AND j.event ? 'quantity'
  ORDER BY j.version DESC LIMIT 1)`

/** The new rows of the journal, from this transaction ID on. */
const freshRows = (sql: SqlClient.SqlClient, lowest: string): Fragment => sql`
  SELECT j.account_id, j.livemode, j.actor_kind AS kind, j.actor_id, j.version, j.from_state, j.to_state, ${sql.literal(TRIGGER)} AS trigger,
    date_trunc('hour', j.recorded_at, 'UTC') AS hour, j.event->>'type' = 'update' AND j.event ? 'quantity' AS resized,
    c.account_id IS NOT NULL AS counted, ${staysHere(sql, "j")} AS stays
  FROM lifecycle_journal j CROSS JOIN journal_position p LEFT JOIN state_counted c
    ON (c.account_id, c.livemode, c.counted_in) = (j.account_id, j.livemode, p.counted_in)
  WHERE j.xid >= ${lowest}::bigint AND j.xmin::text::bigint = j.xid & 4294967295
    AND NOT pg_visible_in_snapshot(j.xid::text::xid8, coalesce(c.snapshot, p.snapshot))`

/**
 * Counts what the running statement sees of the new rows. An actor leaves the state before its first new row, and enters the one after its
 * last: its row is as it is after that one, because all is read in one snapshot. Returns the tenants that were never counted.
 */
const countFresh = Effect.fnUntraced(function* (lowest: string) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Tenant>`
    WITH fresh AS MATERIALIZED (${freshRows(sql, lowest)}),
    touched AS (
      SELECT account_id, livemode, kind, actor_id, min(version) AS first, bool_or(resized) AS resized,
        (array_agg(from_state ORDER BY version))[1] AS former_state, (array_agg(to_state ORDER BY version DESC))[1] AS state
      FROM fresh WHERE counted AND stays AND kind <> 'webhook_endpoint' GROUP BY account_id, livemode, kind, actor_id
    ),
    valued AS (
      SELECT t.*, coalesce(CASE kind ${sql.literal(amountOf)} END, 0) AS kobo,
        CASE WHEN resized AND kind = 'subscription' AND first > 1 THEN ${sql.literal(FORMER_AMOUNT)} END AS former_kobo
      FROM touched t
    ),
    changes AS (
      SELECT account_id, livemode, kind, state, 1 AS actors, kobo FROM valued
      UNION ALL SELECT account_id, livemode, kind, former_state, -1, -coalesce(former_kobo, kobo) FROM valued WHERE first > 1
    ),
    states AS (
      INSERT INTO state_count AS c (account_id, livemode, kind, state, actors, kobo)
      SELECT account_id, livemode, kind, state, sum(actors), sum(kobo) FROM changes
      GROUP BY account_id, livemode, kind, state HAVING sum(actors) <> 0 OR sum(kobo) <> 0
      ON CONFLICT (account_id, livemode, kind, state) DO UPDATE SET actors = c.actors + excluded.actors, kobo = c.kobo + excluded.kobo
    ),
    arrows AS (
      INSERT INTO arrow_count AS c (account_id, livemode, kind, hour, from_state, to_state, trigger, transitions)
      SELECT account_id, livemode, kind, hour, from_state, to_state, trigger, count(*) FROM fresh WHERE counted AND stays
      GROUP BY account_id, livemode, kind, hour, from_state, to_state, trigger
      ON CONFLICT (account_id, livemode, kind, hour, from_state, to_state, trigger)
      DO UPDATE SET transitions = c.transitions + excluded.transitions
    ),
    caught_up AS (
      UPDATE state_counted c SET snapshot = NULL WHERE snapshot IS NOT NULL AND counted_in = ${sql.literal(PLACE)} AND ${staysHere(sql, "c")}
    ),
    position AS (
      UPDATE journal_position SET snapshot = pg_current_snapshot(), counted_at = now(), skipped = ARRAY(
        SELECT unnest(skipped) UNION SELECT account_id FROM fresh WHERE NOT stays)
    )
    SELECT DISTINCT account_id, livemode FROM fresh WHERE stays AND NOT counted`
})

interface Position {
  readonly here: boolean
  readonly lowest: string
}

/**
 * Locks the position, and returns the lowest transaction ID that may be new. In another database than the one that it belongs to it starts
 * again: all accounts are then counted again. Undefined: another process has it.
 */
const lockPosition = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [position] = yield* sql<Position>`
    SELECT counted_in = ${sql.literal(PLACE)} AS here, least(pg_snapshot_xmin(snapshot)::text::bigint, (
      SELECT min(pg_snapshot_xmin(c.snapshot)::text::bigint) FROM state_counted c WHERE c.snapshot IS NOT NULL AND c.counted_in = p.counted_in
    ))::text AS lowest
    FROM journal_position p FOR UPDATE SKIP LOCKED`
  if (position === undefined || position.here) return position?.lowest
  yield* sql`UPDATE journal_position SET counted_in = ${sql.literal(PLACE)}, snapshot = pg_current_snapshot()`
  return undefined
})

/** Counts what was added to the journal since the last time. Returns the tenants whose rows were never counted. */
export const countJournal = Effect.fn("counts.journal")(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      // Plans are made for the few new rows, not for any number of them. After a stop of the workers there may be many.
      yield* sql`SELECT set_config('plan_cache_mode', 'force_custom_plan', true), set_config('statement_timeout', '0', true)`
      const lowest = yield* lockPosition
      return lowest === undefined ? [] : yield* countFresh(lowest)
    }),
  )
})

/** Deletes the counts of arrows that no span shows any more. */
export const purgeArrows = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const some = sql`
    DELETE FROM arrow_count WHERE ctid = ANY(ARRAY(
      SELECT ctid FROM arrow_count a WHERE hour < now() - ${KEPT_ARROWS_MS} * interval '1 millisecond' AND ${staysHere(sql, "a")}
      LIMIT ${MAX_DELETED})) RETURNING 1`
  yield* Effect.repeat(some, { while: (deleted) => deleted.length === MAX_DELETED })
})
