/** What the deliveries leave behind: those that nobody is to get any more, and those that are old. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { isRef, type Ref, staysHere } from "../db/tenant.ts"
import { MINUTE_MS } from "../time.ts"
import type { EndpointRow } from "./endpoint.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

const MAX_GIVEN_UP = 1_000
const RETENTION = "30 days"
const MAX_PURGED = 5_000
/** Events are recorded in the order in which their transactions began, nearly. */
const OUT_OF_ORDER_MS = 10 * MINUTE_MS

/**
 * Gives up a batch of what an endpoint is not to get any more: everything where it is disabled or deleted, else what was
 * written before it was disabled last. Looked at again for each batch, with the endpoint locked: it may be enabled again
 * meanwhile. Returns whether there is more.
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
  // Done: what commits below it from now on is new.
  if (upTo !== null) yield* sql`UPDATE webhook_endpoint SET given_up_to = 0 WHERE ${isRef(sql, ref)}`
  return false
})

const giveUp = (ref: Ref) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.repeat(sql.withTransaction(giveUpBatch(ref)), { while: (more) => more }),
  )

/** Gives up what waits for endpoints that were disabled or deleted, also if they were enabled again since. */
export const giveUpEnded = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ended = yield* sql<Ref>`
    WITH RECURSIVE ${waitingEndpoints(sql)}
    SELECT w.account_id, w.livemode, w.id
    FROM waiting w LEFT JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
    WHERE (e.id IS NULL OR e.state = 'disabled' OR e.given_up_to > 0) AND ${staysHere(sql, "w")}`
  yield* Effect.forEach(ended, giveUp, { discard: true })
})

/** Deletes some of the events that were recorded `from` on and are older than `kept`; returns how many, and when the last one was. */
const purgeBatch = Effect.fnUntraced(function* (kept: string, from: number) {
  const sql = yield* SqlClient.SqlClient
  const [batch] = yield* sql<{ count: number; last: number | null }>`
    WITH gone AS (
      DELETE FROM event WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM event e
        WHERE recorded_at >= ${PgTypes.timestamptz(from)} AND recorded_at < now() - ${kept}::interval AND ${staysHere(sql, "e")}
        LIMIT ${MAX_PURGED}
      ) RETURNING recorded_at
    )
    SELECT count(*) AS count, max(recorded_at) AS last FROM gone`
  return batch!
})

/**
 * Deletes batch by batch, each beginning where the one before it ended, so that none walks over what is deleted already. Returns whether
 * there may be more: what was recorded in another order than its rows lie in.
 */
const purgeThrough = Effect.fnUntraced(function* (kept: string) {
  let batch = yield* purgeBatch(kept, 0)
  if (batch.count < MAX_PURGED) return false
  while (batch.count === MAX_PURGED) batch = yield* purgeBatch(kept, batch.last! - OUT_OF_ORDER_MS)
  return true
})

/** Deletes events, and their deliveries, that are older than they are kept for (decision I5). */
export const purgeEvents = (kept: string = RETENTION) => Effect.repeat(purgeThrough(kept), { while: (more) => more })
