/** What the delivery worker reads and writes: a few statements for all endpoints, however many they are. */
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
 * Takes endpoints that something waits for and nobody delivers to; `held` are those that this process delivers to. Those that
 * it cannot sign for are left to others.
 */
export const takeEndpoints = Effect.fnUntraced(function* (held: ReadonlyArray<string>, limit: number) {
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
        WHERE (w.due_at IS NULL OR w.due_at <= now()) AND e.state = 'enabled' AND NOT e.id = ANY(${held}::text[]) AND ${isFree("e")}
          AND ${opensSecrets(sql, vault)} AND ${staysHere(sql, "e")}
        LIMIT ${limit} FOR UPDATE OF e SKIP LOCKED
      ) free
      WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
      RETURNING webhook_endpoint.*`,
  )
})

/**
 * The endpoints as they are now, those that this process has still. It lets go of those that it cannot sign for (any more): where it
 * cannot, they are there without a target.
 */
export const readTargets = Effect.fnUntraced(function* (lanes: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const rows = yield* sql<EndpointRow & { readonly secrets: ReadonlyArray<string> }>`
    SELECT e.*, ARRAY(${sql.literal(LIVE_SECRETS)}) AS secrets
    FROM ${rowsAsTable(lanes, REF_COLUMNS)} l
    JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
    WHERE e.runner = ${runner} AND ${staysHere(sql, "e")}`
  const [targets, unsigned] = yield* Effect.partition(rows, ({ secrets: stored, ...endpoint }) =>
    openSecrets(endpoint, stored).pipe(
      Effect.map((secrets): Target => ({ endpoint, secrets })),
      Effect.tapError(({ message }) => Effect.logError(message)),
      Effect.mapError(() => endpoint),
    ),
  )
  const left = new Set(yield* leaveEndpoints(unsigned))
  const standing: ReadonlyArray<readonly [string, Target | undefined]> = [
    ...targets.map((target) => [target.endpoint.id, target] as const),
    // Nothing is sent to those that it cannot leave just now.
    ...unsigned.flatMap(({ id }) => (left.has(id) ? [] : [[id, undefined] as const])),
  ]
  return new Map(standing)
})

const ROOM = { ...REF_COLUMNS, room: "integer", in_hand: "text" } as const

/**
 * What is to be sent next: retries that are due, then what was never tried, in order of creation. Retries get half of the
 * room at most: they must not keep what is new from being tried.
 */
export const readWaiting = Effect.fnUntraced(function* (
  lanes: ReadonlyArray<{ readonly lane: EndpointQueue; readonly room: number }>,
) {
  const sql = yield* SqlClient.SqlClient
  const rooms = lanes.map(({ lane, room }) => {
    const { account_id, livemode, id } = lane.target.endpoint
    return { account_id, livemode, id, room, in_hand: `{${lane.inHand.join()}}` }
  })
  const some = (which: "due_at <= now()" | "due_at IS NULL", limit: string) => sql`
    (SELECT * FROM webhook_delivery
    WHERE webhook_endpoint_id = e.id AND account_id = e.account_id AND livemode = e.livemode
      AND ${sql.literal(`${WAITING} AND ${which}`)} AND seq > e.given_up_to AND NOT seq = ANY(l.in_hand::bigint[])
    ORDER BY webhook_endpoint_id, due_at NULLS FIRST, seq LIMIT ${sql.literal(limit)})`
  return yield* sql<Waiting>`
    SELECT ${sql.literal(DELIVERY)} FROM ${rowsAsTable(rooms, ROOM)} l
    JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
    CROSS JOIN LATERAL (${some("due_at <= now()", "(l.room + 1) / 2")} UNION ALL ${some("due_at IS NULL", "l.room")}) d
    JOIN event ON (event.account_id, event.livemode, event.id) = (d.account_id, d.livemode, d.event_id)
    WHERE e.state = 'enabled'
    -- Retries first, then in order of creation, on which the order of each object's rests.
    ORDER BY d.due_at, d.seq`
})

const HEALTH = { ...REF_COLUMNS, failures: "integer", failing_since: "timestamptz" } as const

/** Writes how endpoints have been doing. */
export const recordHealth = Effect.fnUntraced(function* (endpoints: ReadonlyArray<EndpointRow>) {
  if (endpoints.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    UPDATE webhook_endpoint e SET failures = r.failures, failing_since = r.failing_since
    FROM ${rowsAsTable(endpoints, HEALTH)} r
    WHERE (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id) AND e.state = 'enabled'`
})

interface NotFree {
  readonly id: string
  readonly leaves: boolean
}

/**
 * Locks the rows of endpoints and of these deliveries of theirs, as far as nobody else holds them. Returns the endpoints of
 * which somebody holds one, and those whose account is on its way to another cell (`leaves`), by ID.
 */
export const lockFree = Effect.fnUntraced(function* (endpoints: ReadonlyArray<Ref>, deliveries: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const notFree = yield* sql<NotFree>`
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
  return new Map(notFree.map(({ id, leaves }) => [id, leaves]))
})

/**
 * Leaves endpoints to other processes; returns which. One that somebody holds stays with this process, which takes it again when
 * something waits for it.
 */
export const leaveEndpoints = Effect.fnUntraced(function* (endpoints: ReadonlyArray<Ref>) {
  if (endpoints.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const left = yield* sql<Pick<Ref, "id">>`
    UPDATE webhook_endpoint SET runner = NULL
    FROM (
      SELECT e.account_id, e.livemode, e.id FROM ${rowsAsTable(endpoints, REF_COLUMNS)} r
      JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id)
      WHERE e.runner = ${runner} AND ${staysHere(sql, "e")} FOR NO KEY UPDATE OF e SKIP LOCKED
    ) free
    WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
    RETURNING webhook_endpoint.id`
  return left.map(({ id }) => id)
})
