/** SQL that finds waiting deliveries by the index `webhook_delivery_waiting`, endpoint by endpoint. */
import type { SqlClient } from "effect/sql"

/** SQL: the condition for rows of webhook_delivery that the worker sends. */
export const WAITING = "status = 'pending' AND NOT once"

/** SQL: finds any waiting delivery. */
export const firstWaiting = (sql: SqlClient.SqlClient) => sql`
  SELECT FROM webhook_delivery WHERE ${sql.literal(WAITING)} ORDER BY webhook_endpoint_id, due_at NULLS FIRST LIMIT 1`

/**
 * SQL: the endpoints with waiting deliveries, as a query `waiting` for WITH RECURSIVE. It jumps along the index and reads only
 * the first delivery of each endpoint. `due_at` is null if one was never tried, else the time of the next retry.
 */
export const waitingEndpoints = (sql: SqlClient.SqlClient) => sql`
  waiting AS (
    (SELECT account_id, livemode, webhook_endpoint_id AS id, due_at FROM webhook_delivery WHERE ${sql.literal(WAITING)}
      ORDER BY webhook_endpoint_id, due_at NULLS FIRST LIMIT 1)
    UNION ALL
    SELECT n.* FROM waiting w CROSS JOIN LATERAL (
      SELECT account_id, livemode, webhook_endpoint_id, due_at FROM webhook_delivery
      WHERE ${sql.literal(WAITING)} AND webhook_endpoint_id > w.id
      ORDER BY webhook_endpoint_id, due_at NULLS FIRST LIMIT 1
    ) n
  )`
