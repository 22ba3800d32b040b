/**
 * The queue of calls to rails. The transaction that needs a call queues it. Any worker process takes it (worker.ts), accounts in
 * turn. A charge or refund has at most one call in flight. A call that moves money is marked as sent before it is made: if the
 * process dies, the rail is asked about it, and a charge that the rail does not know is sent again, once (decisions F1, P9, P11).
 *
 * A transaction locks rows of this table last, after the charge or refund of the call.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, staysHere } from "../../db/tenant.ts"
import type { UnitOfWork } from "../../db/UnitOfWork.ts"
import { type Lease, take } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import type { OutsideRail } from "../rail/Rail.ts"

export const CALL_KINDS = ["charge", "open_page", "ask", "refund", "ask_refund"] as const
export type CallKind = (typeof CALL_KINDS)[number]

/** Calls that move no money: they may be made again after a crash. */
const REPEATABLE: ReadonlyArray<CallKind> = ["ask", "ask_refund"]

/** A call about a charge or a refund: its ID is the ID of that object. */
export interface Call extends Ref {
  readonly rail: OutsideRail
  readonly kind: CallKind
}

/** A call that this process has taken. */
export interface TakenCall extends Call {
  /** When it was made, by a process that died before it wrote the result; null: it was not made yet. */
  readonly was_sent_at: number | null
  /** Whether the rail has been failing the account lately. */
  readonly is_failing: boolean
}

/** The lease of a call: the process that took it releases it at the end. */
export const callLease: Lease = { name: "rail_call" }

const NEW_CALL = { ...REF_COLUMNS, rail: "text", kind: "text", rank: "smallint" } as const

/**
 * Queues calls. If a call about the same object is in flight, it is marked to be followed by a query. `urgent`: a request waits for
 * the outcome.
 */
export const queueCalls = (unit: UnitOfWork, calls: ReadonlyArray<Call>, urgent: boolean): void => {
  if (calls.length === 0) return
  const { sql } = unit
  const rows = calls.map((call) => ({ ...call, rank: urgent ? 0 : 1 }))
  const insert = sql`
    INSERT INTO rail_call (${names(NEW_CALL)}) SELECT * FROM ${rowsAsTable(rows, NEW_CALL)} r ORDER BY id
    ON CONFLICT (account_id, livemode, id) DO UPDATE SET
      again = rail_call.again OR rail_call.runner IS NOT NULL, rank = least(rail_call.rank, excluded.rank),
      queued_at = least(rail_call.queued_at, excluded.queued_at)`
  unit.add([["rail_calls", insert]])
}

/** An account, and how many calls of this process are in flight for it. */
export interface Busy {
  readonly account_id: string
  readonly under_way: number
}

interface Taking {
  readonly rail: OutsideRail
  readonly kinds: ReadonlyArray<CallKind>
  /** The account after which to start. */
  readonly after: string
  /** How many calls to take, of all accounts and of one. */
  readonly limit: number
  readonly perAccount: number
  readonly busy: ReadonlyArray<Busy>
}

/** Accounts that one statement looks at: more than a process has calls in flight. */
const MAX_ACCOUNTS = 40

type Found = TakenCall & { readonly turn: number }

/**
 * Takes the next calls to a rail: the first few of each account within its limit, accounts in turn. The same statement marks those
 * that move money as sent. A rail that does not answer an account is called once a second for it (decision P9). Returns the calls,
 * and the account after which to continue; undefined: it was the last.
 */
const takeAfter = Effect.fnUntraced(function* ({ rail, kinds, after, limit, perAccount, busy }: Taking) {
  const sql = yield* SqlClient.SqlClient
  let seen = { accounts: 0, last: "" }
  const taken = yield* take(callLease, ({ runner, isFree }) =>
    Effect.map(
      sql<(Found & { accounts: number; last: string }) | { id: null; accounts: number; last: string }>`
        WITH RECURSIVE turn AS (
          (SELECT account_id, 1 AS n FROM rail_call WHERE rail = ${rail} AND account_id > ${after} ORDER BY account_id LIMIT 1)
          UNION ALL
          SELECT next.account_id, turn.n + 1 FROM turn CROSS JOIN LATERAL (
            SELECT account_id FROM rail_call WHERE rail = ${rail} AND account_id > turn.account_id ORDER BY account_id LIMIT 1
          ) next WHERE turn.n < ${MAX_ACCOUNTS}::integer
        ), next AS (
          SELECT c.account_id, c.livemode, c.id, c.sent_at AS was_sent_at, turn.n AS turn,
            held.account_id IS NOT NULL AS is_failing, held.next_call_at IS NOT NULL AS is_held_back
          FROM turn
          LEFT JOIN rail_throttle held ON (held.account_id, held.livemode, held.rail) = (turn.account_id, true, ${rail})
          LEFT JOIN ${rowsAsTable(busy, { account_id: "text", under_way: "integer" })} busy ON busy.account_id = turn.account_id
          CROSS JOIN LATERAL (
            SELECT *, row_number() OVER (ORDER BY rank, queued_at, id) AS n FROM (
              SELECT * FROM rail_call r
              WHERE r.rail = ${rail} AND r.account_id = turn.account_id AND r.livemode AND r.kind = ANY(${kinds}::text[])
                AND r.queued_at <= clock_timestamp() AND ${isFree("r")}
              ORDER BY r.rank, r.queued_at, r.id LIMIT ${perAccount}::integer FOR UPDATE SKIP LOCKED
            ) first
          ) c
          WHERE ${staysHere(sql, "c")} AND CASE WHEN held.next_call_at IS NULL THEN c.n <= ${perAccount}::integer - coalesce(busy.under_way, 0)
            ELSE held.next_call_at <= clock_timestamp() AND c.n = 1 AND busy.under_way IS NULL END
          ORDER BY c.n, turn.n LIMIT ${limit}::integer
        ), taken AS (
          UPDATE rail_call SET runner = ${runner},
            sent_at = CASE WHEN kind = ANY(${REPEATABLE}::text[]) THEN NULL ELSE coalesce(sent_at, clock_timestamp()) END
          FROM next
          WHERE (rail_call.account_id, rail_call.livemode, rail_call.id) = (next.account_id, next.livemode, next.id) AND ${isFree("rail_call")}
          RETURNING rail_call.account_id, rail_call.livemode, rail_call.id, rail_call.rail, rail_call.kind,
            next.was_sent_at, next.turn, next.is_failing, next.is_held_back
        ), held_back AS (
          UPDATE rail_throttle SET next_call_at = clock_timestamp() + interval '1 second' FROM taken
          WHERE taken.is_held_back AND (rail_throttle.account_id, rail_throttle.livemode, rail_throttle.rail) = (taken.account_id, taken.livemode, taken.rail)
        )
        SELECT taken.account_id, taken.livemode, taken.id, taken.rail, taken.kind, taken.was_sent_at, taken.turn, taken.is_failing,
          seen.accounts, seen.last
        FROM (SELECT count(*) AS accounts, coalesce(max(account_id), '') AS last FROM turn) seen LEFT JOIN taken ON true`,
      (rows) => {
        seen = rows[0]!
        return rows.filter((row): row is Found & typeof seen => row.id !== null)
      },
    ),
  )
  const last = taken.toSorted((a, b) => a.turn - b.turn).at(-1)
  const next = last === undefined ? (seen.accounts === MAX_ACCOUNTS ? seen.last : undefined) : last.account_id
  return { taken, next }
})

/** Takes the next calls to a rail. After the last account it continues with the first. */
export const takeCalls = Effect.fnUntraced(function* (taking: Taking) {
  const first = yield* takeAfter(taking)
  if (first.taken.length >= taking.limit || first.next !== undefined || taking.after === "")
    return { ...first, next: first.next ?? "" }
  const { taken, next } = yield* takeAfter({ ...taking, after: "" })
  return { taken, next: next ?? "" }
})

/**
 * Deletes finished calls of this process, in the transaction that writes their results. Returns those that must be followed by a
 * query. A call that another process took over, because this one seemed dead, stays with that process.
 */
export const endCalls = Effect.fnUntraced(function* (calls: ReadonlyArray<Ref>) {
  if (calls.length === 0) return []
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const ended = yield* sql<Call & { again: boolean }>`
    DELETE FROM rail_call c USING ${rowsAsTable(calls, REF_COLUMNS)} r
    WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner = ${runner}
    RETURNING c.account_id, c.livemode, c.id, c.rail, c.kind, c.again`
  return ended.filter(({ again }) => again)
})

const TAKEN = { ...REF_COLUMNS, was_sent_at: "timestamptz" } as const

/** Returns calls that were not made to the queue, unchanged. A call that a dead process made still counts as made. */
export const returnCalls = Effect.fnUntraced(function* (calls: ReadonlyArray<TakenCall>) {
  if (calls.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  yield* sql`
    UPDATE rail_call c SET runner = NULL, sent_at = r.was_sent_at FROM ${rowsAsTable(calls, TAKEN)} r
    WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner = ${runner}`
})

/** How long a postponed call waits: as long as the longest interval between queries about a pending charge. */
const LATER = "1 hour"

/** Queues calls for later, or for now if a query was requested meanwhile. */
export const postponeCalls = Effect.fnUntraced(function* (calls: ReadonlyArray<Ref>) {
  if (calls.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  yield* sql`
    UPDATE rail_call c SET runner = NULL, again = false,
      queued_at = clock_timestamp() + CASE WHEN c.again THEN interval '0' ELSE ${LATER}::interval END
    FROM ${rowsAsTable(calls, REF_COLUMNS)} r
    WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner = ${runner}`
})

/** Deletes queued calls, in the running transaction. Returns those that stay because they are in flight. */
export const dropCalls = Effect.fnUntraced(function* (about: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const keys = rowsAsTable(about, REF_COLUMNS)
  yield* sql`
    DELETE FROM rail_call c USING ${keys} r WHERE (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.runner IS NULL`
  return yield* sql<Ref>`
    SELECT c.account_id, c.livemode, c.id FROM ${keys} r JOIN rail_call c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id)`
})
