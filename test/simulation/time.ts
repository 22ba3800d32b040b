/** Measures the time of accounts that stand still on the wall clock: the remaining work of each, and when it is due. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { LOCKS } from "../../src/postgres/advisoryLocks.ts"

/** The state of an account's work. */
export interface WorkState {
  readonly id: string
  /** True if work is in progress or due now. */
  readonly is_busy: boolean
  /** True if timers are due. */
  readonly is_due: boolean
  /** Milliseconds until the next due instant. null if there is none. */
  readonly next_ms: number | null
}

/** The work of accounts. A throttled rail does not make an account busy: its calls are due after the throttle. */
export const workStates = (accounts: ReadonlyArray<string>) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<WorkState>`
      SELECT a.id, t.is_due, t.is_due OR c.is_due OR r.is_busy AS is_busy,
        ceil(extract(epoch FROM least(t.next_at, c.next_at) - clock_timestamp()) * 1000)::float8 AS next_ms
      FROM unnest(${accounts}::text[]) AS a (id)
      CROSS JOIN LATERAL (
        SELECT coalesce(min(due_at) <= clock_timestamp(), false) AS is_due, min(due_at) AS next_at FROM timer WHERE account_id = a.id AND livemode
      ) t
      CROSS JOIN LATERAL (
        SELECT coalesce(bool_or(n.is_under_way OR n.at <= clock_timestamp()), false) AS is_due, min(n.at) AS next_at
        FROM (
          SELECT EXISTS (
              SELECT 1 FROM pg_locks
              WHERE locktype = 'advisory' AND classid = ${LOCKS.runner}::integer::oid AND objid = q.runner::oid AND granted
            ) AS is_under_way, greatest(q.queued_at, h.next_call_at) AS at
          FROM rail_call q LEFT JOIN rail_throttle h ON (h.account_id, h.livemode, h.rail) = (q.account_id, q.livemode, q.rail)
          WHERE q.account_id = a.id
        ) n
      ) c
      CROSS JOIN LATERAL (
        SELECT EXISTS (SELECT 1 FROM rail_callback WHERE account_id = a.id) OR EXISTS (
          SELECT 1 FROM charge WHERE account_id = a.id AND runner IS NOT NULL
        ) AS is_busy
      ) r`,
  )
