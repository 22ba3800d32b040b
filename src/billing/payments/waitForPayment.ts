/** Attempts committed charges for a request, which waits for the result. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { refOf } from "../../db/tenant.ts"
import { waitingLimit } from "../../http/ArrivedAt.ts"
import { type ChargeRow, isQueued } from "../charge/charge.ts"
import { Payments } from "./Payments.ts"

/** Most rails answer fast. Hundreds of requests may wait for one that does not: growing intervals leave the database to others. */
const FIRST_LOOK_MS = 50
const LONGEST_LOOK_MS = 500

/** Waits while any of these is on its way to its rail, but not until a slow rail decides. */
const waitFor = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>) {
  if (of.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const limit = yield* waitingLimit
  for (let look = FIRST_LOOK_MS; ; look = Math.min(look * 1.25, LONGEST_LOOK_MS)) {
    const sending = yield* sql`
      SELECT 1 FROM ${rowsAsTable(of.map(refOf), REF_COLUMNS)} r
      JOIN charge c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) WHERE c.state = 'pending.sending' LIMIT 1`
    const left = limit - performance.now()
    if (sending.length === 0 || left <= 0) return
    yield* Effect.sleep(Math.min(look, left))
  }
})

/**
 * Attempts charges, and waits some seconds for those in their rail's queue. Returns the rows that the payments left, as far as they were
 * settled here.
 */
export const waitForPayment = Effect.fn("charge.pay")(function* (of: ReadonlyArray<ChargeRow>, now: number) {
  const rows = yield* (yield* Payments).collect(of, now)
  yield* waitFor(of.filter(isQueued))
  return rows
})
