/** What the deliveries leave behind: those that nobody is to get any more, and those that are old. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Ref } from "../db/tenant.ts"
import type { EndpointRow } from "./Endpoint.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

const GIVEN_UP_AT_ONCE = 1_000
const RETENTION = "30 days"
const PURGED_AT_ONCE = 5_000

/**
 * Gives up what an endpoint is not to get any more: everything where it is disabled or deleted, else what was written before
 * it was disabled last. Judged anew for each batch, with the endpoint locked: it may be enabled again meanwhile.
 */
const giveUp = ({ account_id, livemode, id }: Ref) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const batch = Effect.gen(function* () {
      const [endpoint] = yield* sql<Pick<EndpointRow, "state" | "given_up_to">>`
        SELECT state, given_up_to FROM webhook_endpoint
        WHERE account_id = ${account_id} AND livemode = ${livemode} AND id = ${id} FOR UPDATE`
      const upTo = endpoint?.state === "enabled" ? endpoint.given_up_to : null
      const within = upTo === null ? sql`true` : sql`seq <= ${upTo}`
      const rows = yield* sql`
        UPDATE webhook_delivery SET status = 'failed', due_at = NULL, failure_reason = 'endpoint_disabled'
        WHERE (account_id, livemode, id) IN (
          SELECT account_id, livemode, id FROM webhook_delivery
          WHERE webhook_endpoint_id = ${id} AND ${sql.literal(WAITING)} AND ${within} LIMIT ${GIVEN_UP_AT_ONCE}
        ) RETURNING 1`
      if (rows.length === GIVEN_UP_AT_ONCE) return true
      // Done: what commits below it from now on is new.
      if (upTo !== null)
        yield* sql`
          UPDATE webhook_endpoint SET given_up_to = 0 WHERE account_id = ${account_id} AND livemode = ${livemode} AND id = ${id}`
      return false
    })
    yield* Effect.repeat(sql.withTransaction(batch), { while: (more) => more })
  })

/** Gives up what waits for endpoints that were disabled or deleted, also if they were enabled again since. */
export const giveUpEnded = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ended = yield* sql<Ref>`
    WITH RECURSIVE ${waitingEndpoints(sql)}
    SELECT w.account_id, w.livemode, w.id
    FROM waiting w LEFT JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
    WHERE e.id IS NULL OR e.state = 'disabled' OR e.given_up_to > 0`
  yield* Effect.forEach(ended, giveUp, { discard: true })
})

/** Deletes events, and their deliveries, that are older than they are kept for (decision I5). */
export const purgeEvents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let purged = PURGED_AT_ONCE
  while (purged === PURGED_AT_ONCE) {
    const gone = yield* sql`
      DELETE FROM event WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM event WHERE recorded_at < now() - ${RETENTION}::interval LIMIT ${PURGED_AT_ONCE}
      ) RETURNING 1`
    purged = gone.length
  }
})
