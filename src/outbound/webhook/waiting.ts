/** What waits to be delivered, in SQL: by the index `webhook_delivery_waiting`, endpoint by endpoint. */
import type { SqlClient } from "effect/sql"

/** Rows of webhook_delivery that are the worker's to send. */
export const WAITING = "status = 'pending' AND NOT once"

/** Some delivery that may be to be sent. */
export const firstWaiting = (sql: SqlClient.SqlClient) => sql`
  SELECT FROM webhook_delivery WHERE ${sql.literal(WAITING)} ORDER BY webhook_endpoint_id, due_at NULLS FIRST LIMIT 1`

/**
 * The endpoints that something waits for, as a query named `waiting` for WITH RECURSIVE: hops along the index, so that
 * what is behind the first delivery of each costs nothing. `due_at` is null where one was never tried, else the next retry's.
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
