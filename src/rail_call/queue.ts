/**
 * Calls that are to be made to rails: queued in the transaction that wants them, taken by any process that works (calls.ts),
 * one account after the other. At most one is under way about a charge or a refund. A call that moves money is noted as sent
 * before it is made, so that one over which a process died is not made twice (decisions F1, P11).
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import { type Lease, take } from "../process/lease.ts"
import { Runner } from "../process/Runner.ts"
import type { OutsideRail, RailName } from "../rail/Rail.ts"

export const CALL_KINDS = ["charge", "open_page", "ask", "refund", "ask_refund"] as const
export type CallKind = (typeof CALL_KINDS)[number]

/** What is asked about what, which its ID names: a charge, or a refund. */
export interface Call extends Ref {
  readonly rail: OutsideRail
  readonly kind: CallKind
}

/** A call that this process has in hand. */
export interface TakenCall extends Call {
  /** Whether the process that had it before died when it may have been made. */
  readonly was_sent: boolean
}

/** Whoever has a call in hand says when it ends. */
export const callLease: Lease = { name: "rail_call" }

const NEW_CALL = { ...REF_COLUMNS, rail: "text", kind: "text", rank: "smallint" } as const

/**
 * Queues calls, in the running transaction. Of one about something that has a call already, that one is noted to be followed
 * by a question. `urgent`: somebody waits for the outcome.
 */
export const queueCalls = Effect.fnUntraced(function* (
  calls: ReadonlyArray<Ref & { readonly rail: RailName; readonly kind: CallKind }>,
  urgent: boolean,
) {
  if (calls.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const rows = calls.map((call) => ({ ...call, rank: urgent ? 0 : 1 }))
  yield* sql`
    INSERT INTO rail_call (${names(sql, NEW_CALL)}) SELECT * FROM ${records(sql, rows, NEW_CALL)} r
    ON CONFLICT (account_id, livemode, id) DO UPDATE SET again = true, rank = least(rail_call.rank, excluded.rank)`
})

/** An account, and how many more of its calls to a rail this process may make. */
export interface Busy {
  readonly account_id: string
  readonly under_way: number
}

/** Accounts that are looked at in one go: more than a process makes calls at a time. */
const MAX_ACCOUNTS = 40

/** Calls that may be made again after a crash: they move nothing. */
const REPEATABLE: ReadonlyArray<CallKind> = ["ask", "ask_refund"]

/**
 * Takes the next calls to a rail, `limit` at most: of each account the first few that it may have under way (`perAccount`),
 * accounts in turn from behind `after`. Those that move money are noted as sent by the same statement. A rail that does not
 * answer an account is called once a second for it (decision P9).
 */
export const takeCalls = Effect.fnUntraced(function* (
  rail: OutsideRail,
  {
    after,
    limit,
    perAccount,
    busy,
  }: {
    readonly after: string
    readonly limit: number
    readonly perAccount: number
    readonly busy: ReadonlyArray<Busy>
  },
) {
  const sql = yield* SqlClient.SqlClient
  return yield* take(
    callLease,
    ({ runner, isFree }) => sql<TakenCall>`
      WITH RECURSIVE turn AS (
        (SELECT account_id, 1 AS n FROM rail_call WHERE rail = ${rail} AND account_id > ${after} ORDER BY account_id LIMIT 1)
        UNION ALL
        SELECT next.account_id, turn.n + 1 FROM turn CROSS JOIN LATERAL (
          SELECT account_id FROM rail_call WHERE rail = ${rail} AND account_id > turn.account_id ORDER BY account_id LIMIT 1
        ) next WHERE turn.n < ${MAX_ACCOUNTS}::integer
      ), next AS (
        SELECT c.account_id, c.livemode, c.id, c.sent_at IS NOT NULL AS was_sent, throttled.next_call_at IS NOT NULL AS is_throttled
        FROM turn
        LEFT JOIN rail_throttle throttled ON (throttled.account_id, throttled.livemode, throttled.rail) = (turn.account_id, true, ${rail})
        LEFT JOIN ${records(sql, busy, { account_id: "text", under_way: "integer" })} busy ON busy.account_id = turn.account_id
        CROSS JOIN LATERAL (
          SELECT account_id, livemode, id, sent_at, row_number() OVER (ORDER BY rank, queued_at, id) AS n FROM (
            SELECT * FROM rail_call r
            WHERE r.rail = ${rail} AND r.account_id = turn.account_id AND ${isFree("r")}
            ORDER BY r.rank, r.queued_at, r.id LIMIT ${perAccount}::integer
          ) first
        ) c
        WHERE CASE WHEN throttled.next_call_at IS NULL THEN c.n <= ${perAccount}::integer - coalesce(busy.under_way, 0)
          ELSE throttled.next_call_at <= clock_timestamp() AND c.n = 1 AND busy.under_way IS NULL END
        ORDER BY c.n, turn.n LIMIT ${limit}::integer
      ), taken AS (
        UPDATE rail_call SET runner = ${runner},
          sent_at = CASE WHEN kind = ANY(${REPEATABLE}::text[]) THEN NULL ELSE coalesce(sent_at, clock_timestamp()) END
        FROM next
        WHERE (rail_call.account_id, rail_call.livemode, rail_call.id) = (next.account_id, next.livemode, next.id) AND ${isFree("rail_call")}
        RETURNING rail_call.account_id, rail_call.livemode, rail_call.id, rail_call.rail, rail_call.kind, next.was_sent, next.is_throttled
      ), held_back AS (
        UPDATE rail_throttle SET next_call_at = clock_timestamp() + interval '1 second' FROM taken
        WHERE taken.is_throttled AND (rail_throttle.account_id, rail_throttle.livemode, rail_throttle.rail) = (taken.account_id, taken.livemode, taken.rail)
      )
      SELECT account_id, livemode, id, rail, kind, was_sent FROM taken`,
  )
})

/**
 * Ends calls of this process, in the transaction that writes what was heard; returns those among them about which somebody
 * wants to know more. One that another process took over, to which this one looked dead, is left to it.
 */
export const endCalls = Effect.fnUntraced(function* (calls: ReadonlyArray<Ref>) {
  if (calls.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* Runner
  const ended = yield* sql<Call & { again: boolean }>`
    DELETE FROM rail_call c USING ${records(sql, calls, REF_COLUMNS)} r
    WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner = ${runner}
    RETURNING c.account_id, c.livemode, c.id, c.rail, c.kind, c.again`
  return ended.filter(({ again }) => again)
})

/** Puts calls that never got to their rail back into the queue. */
export const returnCalls = Effect.fnUntraced(function* (calls: ReadonlyArray<Ref>) {
  if (calls.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* Runner
  yield* sql`
    UPDATE rail_call c SET runner = NULL, sent_at = NULL FROM ${records(sql, calls, REF_COLUMNS)} r
    WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner = ${runner}`
})
