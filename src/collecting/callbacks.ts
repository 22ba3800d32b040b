/** Acts on what callbacks of rails named: the rail is asked about it, and nothing else of a callback counts (decision P13). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { records } from "../db/records.ts"
import type { Ref } from "../db/tenant.ts"
import { every } from "../process/workers.ts"
import type { OutsideRail } from "../rail/Rail.ts"
import { askAboutRefunds } from "../refund/requests.ts"
import { askNow } from "./asking.ts"

const LOOK_EVERY_MS = 100
const MAX_BATCH = 200

interface Named {
  readonly account_id: string
  readonly livemode: boolean
  readonly rail: OutsideRail
  readonly reference: string
}

const NAMED = { account_id: "text", livemode: "boolean", rail: "text", reference: "text" } as const

/**
 * Takes the next references, and has rails asked about the charges that they name; of one that is paid already there is
 * nothing to ask but how its refund stands. References that nobody knows are dropped. In the running transaction.
 */
const takeNamed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const named = yield* sql<Named>`
    SELECT account_id, livemode, rail, reference FROM rail_callback LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED`
  if (named.length === 0) return 0
  const found = yield* sql<Ref & { is_settled: boolean; refund_id: string | null }>`
    SELECT c.account_id, c.livemode, c.id, c.status = 'succeeded' AS is_settled, f.id AS refund_id
    FROM ${records(sql, named, NAMED)} r
    JOIN charge c ON (c.account_id, c.livemode, c.id, c.rail) = (r.account_id, r.livemode, r.reference, r.rail)
    LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode, f.status) = (c.id, c.account_id, c.livemode, 'pending')
    ORDER BY c.id`
  yield* askNow(found.filter(({ is_settled }) => !is_settled))
  yield* askAboutRefunds(
    found.flatMap(({ refund_id, ...ref }) => (refund_id === null ? [] : [{ ...ref, id: refund_id }])),
  )
  yield* sql`
    DELETE FROM rail_callback c USING ${records(sql, named, NAMED)} r
    WHERE (c.account_id, c.livemode, c.rail, c.reference) = (r.account_id, r.livemode, r.rail, r.reference)`
  return named.length
})

/** Follows up what callbacks named, for as long as the scope is open. */
export const railCallbackWorker = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const work = Effect.gen(function* () {
    while ((yield* sql.withTransaction(takeNamed)) === MAX_BATCH);
  })
  yield* every("rail callbacks", LOOK_EVERY_MS, Effect.uninterruptible(work))
})
