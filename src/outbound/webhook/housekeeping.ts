/** Gives up deliveries that must not be sent any more, and deletes old events with their deliveries. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { idBefore } from "../../base/ids.ts"
import { DAY_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isRef, type Ref, staysHere } from "../../db/tenant.ts"
import { isLockTimeout, withLockTimeout } from "../../postgres/lockWait.ts"
import type { EndpointRow } from "./endpoint.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

const MAX_GIVEN_UP = 1_000
const RETENTION_MS = 30 * DAY_MS
const MAX_PURGED = 5_000
/** Tenants per statement. */
const MAX_TENANTS = 2_000

/**
 * Gives up a batch of an endpoint's waiting deliveries: all if the endpoint is disabled or deleted, else those created before it
 * was last disabled. Each batch locks and reads the endpoint again, since it may have been enabled meanwhile. Returns whether
 * there are more.
 */
const giveUpBatch = Effect.fnUntraced(function* (ref: Ref) {
  const sql = yield* SqlClient.SqlClient
  const [endpoint] = yield* sql<Pick<EndpointRow, "state" | "given_up_to">>`
    SELECT state, given_up_to FROM webhook_endpoint WHERE ${isRef(sql, ref)} FOR UPDATE`
  const upTo = endpoint?.state === "enabled" ? endpoint.given_up_to : null
  const within = upTo === null ? sql`true` : sql`seq <= ${upTo}`
  const rows = yield* sql`
    UPDATE webhook_delivery SET status = 'failed', due_at = NULL, failure_reason = 'endpoint_disabled'
    WHERE (account_id, livemode, id) IN (
      SELECT account_id, livemode, id FROM webhook_delivery
      WHERE webhook_endpoint_id = ${ref.id} AND ${sql.literal(WAITING)} AND ${within} LIMIT ${MAX_GIVEN_UP}
    ) RETURNING 1`
  if (rows.length === MAX_GIVEN_UP) return true
  // Done. A delivery with a lower `seq` that commits later is new and must be sent.
  if (upTo !== null) yield* sql`UPDATE webhook_endpoint SET given_up_to = 0 WHERE ${isRef(sql, ref)}`
  return false
})

/** Gives up all such deliveries of an endpoint. Locked rows wait for the next run. */
const giveUp = (ref: Ref) =>
  Effect.catchIf(
    Effect.repeat(withLockTimeout(giveUpBatch(ref)), { while: (more) => more }),
    isLockTimeout,
    () => Effect.void,
  )

/** Gives up the waiting deliveries of endpoints that were disabled or deleted, also if they are enabled again. */
export const giveUpEnded = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ended = yield* sql<Ref>`
    WITH RECURSIVE ${waitingEndpoints(sql)}
    SELECT w.account_id, w.livemode, w.id
    FROM waiting w LEFT JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
    WHERE (e.id IS NULL OR e.state = 'disabled' OR e.given_up_to > 0) AND ${staysHere(sql, "w")}`
  yield* Effect.forEach(ended, giveUp, { discard: true })
})

/** The position of the deletion of old events: after one event of a tenant, or after all of them. */
interface Purged {
  readonly account_id: string
  readonly livemode: boolean
  readonly id: string
}

const BEGINNING: Purged = { account_id: "", livemode: false, id: "" }
/** Sorts after every ID. */
const PAST_ALL = "~"

/**
 * Deletes a batch of events after `last` that were recorded before `until`, with their deliveries. Returns the new position; undefined
 * at the end.
 */
const purgeBatch = Effect.fnUntraced(function* (until: number, last: Purged) {
  const sql = yield* SqlClient.SqlClient
  // IDs begin with their time, so each tenant's oldest events come first in the key and no others are read.
  const [end] = yield* sql<Purged>`
    WITH looked AS MATERIALIZED (
      SELECT a.id AS account_id, l.livemode FROM account a CROSS JOIN (VALUES (false), (true)) AS l (livemode)
      WHERE a.id >= ${last.account_id} AND (a.id, l.livemode) >= (${last.account_id}, ${last.livemode}) AND ${staysHere(sql, "a", "id")}
      ORDER BY a.id, l.livemode LIMIT ${MAX_TENANTS}
    ), old AS MATERIALIZED (
      SELECT e.* FROM looked t CROSS JOIN LATERAL (
        SELECT account_id, livemode, id, ctid AS place FROM event
        WHERE account_id = t.account_id AND livemode = t.livemode AND id < ${idBefore("event", until)} AND recorded_at < ${PgTypes.timestamptz(until)}
          AND id > CASE WHEN (t.account_id, t.livemode) = (${last.account_id}, ${last.livemode}) THEN ${last.id} ELSE '' END
        ORDER BY id LIMIT ${MAX_PURGED}
      ) e LIMIT ${MAX_PURGED}
    ), gone AS (
      DELETE FROM event WHERE ctid = ANY (ARRAY(SELECT place FROM old))
    ), counts AS (
      SELECT (SELECT count(*) FROM old) = ${MAX_PURGED} AS is_full, (SELECT count(*) FROM looked) = ${MAX_TENANTS} AS is_more
    )
    (SELECT account_id, livemode, id FROM old WHERE (SELECT is_full FROM counts) ORDER BY 1 DESC, 2 DESC, 3 DESC LIMIT 1)
    UNION ALL
    (SELECT account_id, livemode, ${PAST_ALL} FROM looked
      WHERE (SELECT is_more AND NOT is_full FROM counts) ORDER BY 1 DESC, 2 DESC LIMIT 1)`
  return end
})

/** Deletes events older than `keptMs`, with their deliveries (decision I5). */
export const purgeEvents = (keptMs: number = RETENTION_MS) =>
  Effect.gen(function* () {
    const until = currentTime() - keptMs
    for (let last: Purged | undefined = BEGINNING; last !== undefined; ) last = yield* purgeBatch(until, last)
  })
