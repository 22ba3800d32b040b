/** The statements of the delivery worker. Each reads or writes the rows of all endpoints. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, staysHere } from "../../db/tenant.ts"
import { take } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { Vault } from "../../security/secret/Vault.ts"
import { DELIVERY, type Target, type Waiting } from "./deliver.ts"
import type { EndpointQueue } from "./EndpointQueue.ts"
import { type EndpointRow, endpointLease } from "./endpoint.ts"
import { LIVE_SECRETS, openSecrets, opensSecrets } from "./secrets.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

/**
 * Takes endpoints that have waiting deliveries and no process. `takenIds` are those that this process already has. Endpoints
 * whose secrets it cannot open are left to other processes.
 */
export const takeEndpoints = Effect.fnUntraced(function* (takenIds: ReadonlyArray<string>, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const vault = yield* Vault
  return yield* take(
    endpointLease,
    ({ runner, isFree }) => sql<EndpointRow>`
      WITH RECURSIVE ${waitingEndpoints(sql)}
      UPDATE webhook_endpoint SET runner = ${runner}
      FROM (
        SELECT e.account_id, e.livemode, e.id
        FROM waiting w JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
        WHERE (w.due_at IS NULL OR w.due_at <= now()) AND e.state = 'enabled' AND NOT e.id = ANY(${takenIds}::text[]) AND ${isFree("e")}
          AND ${opensSecrets(sql, vault)} AND ${staysHere(sql, "e")}
        LIMIT ${limit} FOR UPDATE OF e SKIP LOCKED
      ) free
      WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
      RETURNING webhook_endpoint.*`,
  )
})

/**
 * Reads the current rows of the endpoints that this process still has, with their secrets. Releases those whose secrets it cannot open.
 * If such an endpoint's row is locked, its target is undefined.
 */
export const readTargets = Effect.fnUntraced(function* (endpoints: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const rows = yield* sql<EndpointRow & { readonly secrets: ReadonlyArray<string> }>`
    SELECT e.*, ARRAY(${sql.literal(LIVE_SECRETS)}) AS secrets
    FROM ${rowsAsTable(endpoints, REF_COLUMNS)} l
    JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
    WHERE e.runner = ${runner} AND ${staysHere(sql, "e")}`
  const [targets, unsigned] = yield* Effect.partition(rows, ({ secrets: stored, ...endpoint }) =>
    openSecrets(endpoint, stored).pipe(
      Effect.map((secrets): Target => ({ endpoint, secrets })),
      Effect.tapError(({ message }) => Effect.logError(message)),
      Effect.mapError(() => endpoint),
    ),
  )
  const released = new Set(yield* releaseEndpoints(unsigned))
  const entries: ReadonlyArray<readonly [string, Target | undefined]> = [
    ...targets.map((target) => [target.endpoint.id, target] as const),
    // The ones that could not be released get no deliveries.
    ...unsigned.flatMap(({ id }) => (released.has(id) ? [] : [[id, undefined] as const])),
  ]
  return new Map(entries)
})

const ROOM = { ...REF_COLUMNS, room: "integer", in_flight: "text" } as const

/**
 * Reads the next deliveries to send: due retries, then new ones in order of creation. Retries get at most half of the room, so
 * that they do not block new deliveries.
 */
export const readWaiting = Effect.fnUntraced(function* (
  queues: ReadonlyArray<{ readonly queue: EndpointQueue; readonly room: number }>,
) {
  const sql = yield* SqlClient.SqlClient
  const rooms = queues.map(({ queue, room }) => {
    const { account_id, livemode, id } = queue.target.endpoint
    return { account_id, livemode, id, room, in_flight: `{${queue.inFlight.join()}}` }
  })
  const deliveriesWhere = (condition: "due_at <= now()" | "due_at IS NULL", limit: string) => sql`
    (SELECT * FROM webhook_delivery
    WHERE webhook_endpoint_id = e.id AND account_id = e.account_id AND livemode = e.livemode
      AND ${sql.literal(`${WAITING} AND ${condition}`)} AND seq > e.given_up_to AND NOT seq = ANY(l.in_flight::bigint[])
    ORDER BY webhook_endpoint_id, due_at NULLS FIRST, seq LIMIT ${sql.literal(limit)})`
  return yield* sql<Waiting>`
    SELECT ${sql.literal(DELIVERY)} FROM ${rowsAsTable(rooms, ROOM)} l
    JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
    CROSS JOIN LATERAL (${deliveriesWhere("due_at <= now()", "(l.room + 1) / 2")} UNION ALL ${deliveriesWhere("due_at IS NULL", "l.room")}) d
    JOIN event ON (event.account_id, event.livemode, event.id) = (d.account_id, d.livemode, d.event_id)
    WHERE e.state = 'enabled'
    -- Retries first, then in order of creation: this keeps the order of each object's events.
    ORDER BY d.due_at, d.seq`
})

const HEALTH = { ...REF_COLUMNS, failures: "integer", failing_since: "timestamptz" } as const

/** Stores the failure counts of endpoints. */
export const recordHealth = Effect.fnUntraced(function* (endpoints: ReadonlyArray<EndpointRow>) {
  if (endpoints.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE webhook_endpoint e SET failures = r.failures, failing_since = r.failing_since
    FROM ${rowsAsTable(endpoints, HEALTH)} r
    WHERE (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id) AND e.state = 'enabled'`
})

interface SkippedEndpoint {
  readonly id: string
  readonly leaves: boolean
}

/**
 * Locks the rows of endpoints and deliveries that are not locked by others. Returns the skipped endpoints by ID: those with a
 * locked row (false), and those whose account is moving to another cell (true).
 */
export const lockUnlockedRows = Effect.fnUntraced(function* (
  endpoints: ReadonlyArray<Ref>,
  deliveries: ReadonlyArray<Ref>,
) {
  const sql = yield* SqlClient.SqlClient
  const skipped = yield* sql<SkippedEndpoint>`
    WITH theirs AS MATERIALIZED (
      SELECT e.account_id, e.livemode, e.id FROM ${rowsAsTable(endpoints, REF_COLUMNS)} r
      JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id)
    ), locked AS MATERIALIZED (
      SELECT e.id FROM theirs t JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (t.account_id, t.livemode, t.id)
      FOR NO KEY UPDATE OF e SKIP LOCKED
    ), deliveries AS MATERIALIZED (
      SELECT d.account_id, d.livemode, d.id, d.webhook_endpoint_id FROM ${rowsAsTable(deliveries, REF_COLUMNS)} r
      JOIN webhook_delivery d ON (d.account_id, d.livemode, d.id) = (r.account_id, r.livemode, r.id)
    ), deliveries_locked AS MATERIALIZED (
      SELECT d.id FROM deliveries t JOIN webhook_delivery d ON (d.account_id, d.livemode, d.id) = (t.account_id, t.livemode, t.id)
      FOR NO KEY UPDATE OF d SKIP LOCKED
    )
    SELECT id, bool_or(leaves) AS leaves FROM (
      SELECT id, false AS leaves FROM theirs WHERE id NOT IN (SELECT id FROM locked)
      UNION ALL SELECT webhook_endpoint_id, false FROM deliveries WHERE id NOT IN (SELECT id FROM deliveries_locked)
      UNION ALL SELECT id, true FROM ${rowsAsTable(endpoints, REF_COLUMNS)} r WHERE NOT ${staysHere(sql, "r")}
    ) n GROUP BY id`
  return new Map(skipped.map(({ id, leaves }) => [id, leaves]))
})

/**
 * Releases endpoints for other processes. Returns the released ones. A locked endpoint stays with this process, which takes it again
 * when deliveries wait.
 */
export const releaseEndpoints = Effect.fnUntraced(function* (endpoints: ReadonlyArray<Ref>) {
  if (endpoints.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const released = yield* sql<Pick<Ref, "id">>`
    UPDATE webhook_endpoint SET runner = NULL
    FROM (
      SELECT e.account_id, e.livemode, e.id FROM ${rowsAsTable(endpoints, REF_COLUMNS)} r
      JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id)
      WHERE e.runner = ${runner} AND ${staysHere(sql, "e")} FOR NO KEY UPDATE OF e SKIP LOCKED
    ) free
    WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
    RETURNING webhook_endpoint.id`
  return released.map(({ id }) => id)
})
