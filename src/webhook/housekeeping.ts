/** What the deliveries leave behind: those that nobody is to get any more, and those that are old. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Ref } from "../db/tenant.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

const GIVEN_UP_AT_ONCE = 1_000
const RETENTION = "30 days"
const PURGED_AT_ONCE = 5_000

/** An endpoint that gets nothing more (`up_to` null: disabled or deleted), or nothing up to a delivery. */
interface Ended extends Ref {
  readonly up_to: number | null
  readonly exists: boolean
}

const giveUp = ({ account_id, livemode, id, up_to, exists }: Ended) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const within = up_to === null ? sql`true` : sql`seq <= ${up_to}`
    let gone = GIVEN_UP_AT_ONCE
    while (gone === GIVEN_UP_AT_ONCE) {
      const rows = yield* sql`
        UPDATE webhook_delivery SET status = 'failed', due_at = NULL, failure_reason = 'endpoint_disabled'
        WHERE (account_id, livemode, id) IN (
          SELECT account_id, livemode, id FROM webhook_delivery
          WHERE webhook_endpoint_id = ${id} AND ${sql.literal(WAITING)} AND ${within} LIMIT ${GIVEN_UP_AT_ONCE}
        ) RETURNING 1`
      gone = rows.length
    }
    if (!exists || up_to === null) return
    // Done: what commits below it from now on is new.
    yield* sql`
      UPDATE webhook_endpoint SET given_up_to = 0
      WHERE account_id = ${account_id} AND livemode = ${livemode} AND id = ${id} AND given_up_to = ${up_to}`
  })

/** Gives up what waits for endpoints that were disabled or deleted, also if they were enabled again since. */
export const giveUpEnded = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const ended = yield* sql<Ended>`
    WITH RECURSIVE ${waitingEndpoints(sql)}
    SELECT w.account_id, w.livemode, w.id, CASE WHEN e.state = 'enabled' THEN e.given_up_to END AS up_to, e.id IS NOT NULL AS exists
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
