/** Attempts committed charges for a request, which waits for what comes of them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type ChargeRow, isQueued } from "../charge/charge.ts"
import { REF_COLUMNS, records } from "../db/records.ts"
import { refOf } from "../db/tenant.ts"
import { collect } from "./collect.ts"

/** A request is answered within 5 s, whatever the rail does (decision P11). */
const MAX_WAIT_MS = 4_500
const LOOK_AGAIN_MS = 50

/** Waits while any of these is on its way to its rail. Of one over which the rail takes its time, nobody waits for the outcome. */
const waitFor = Effect.fnUntraced(function* (of: ReadonlyArray<ChargeRow>) {
  if (of.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const limit = performance.now() + MAX_WAIT_MS
  for (;;) {
    const sending = yield* sql`
      SELECT 1 FROM ${records(sql, of.map(refOf), REF_COLUMNS)} r
      JOIN charge c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) WHERE c.state = 'pending.sending' LIMIT 1`
    if (sending.length === 0 || performance.now() >= limit) return
    yield* Effect.sleep(LOOK_AGAIN_MS)
  }
})

/** Attempts charges; those that queue for their rail are waited for, for some seconds. */
export const pay = Effect.fn("charge.pay")(function* (of: ReadonlyArray<ChargeRow>, now: number) {
  yield* collect(of, now)
  yield* waitFor(of.filter(isQueued))
})
