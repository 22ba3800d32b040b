/**
 * Emptying a sandbox (decision M2): a marker is committed before the answer, and writes are refused while it stands. Workers
 * delete everything in batches (src/process/deletion), the marker last, so that a crash goes on where it was.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../base/problem.ts"
import { stopClocks } from "../billing/clock/deletion.ts"
import type { Tenant } from "../db/tenant.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import { requestDeletions, SANDBOX, type Step } from "../process/deletion/deletion.ts"
import { actorsOf, ledgerEntries, rowsOf } from "../process/deletion/steps.ts"

/** Asks for a sandbox to be emptied; in the running transaction. `recordKey` is of the idempotency record that has the answer. */
export const requestReset = Effect.fn("sandbox.reset")(function* ({ account_id }: Tenant, recordKey: string | null) {
  const sql = yield* SqlClient.SqlClient
  const marked = yield* sql`
    INSERT INTO sandbox_reset (account_id, livemode, record_key) VALUES (${account_id}, false, ${recordKey})
    ON CONFLICT DO NOTHING RETURNING 1`
  if (marked.length === 0) return yield* problem("reset_in_progress", "The sandbox is being reset already.")
  yield* requestDeletions([{ account_id, livemode: false, id: SANDBOX }])
  return { status: "resetting" as const }
})

/** Requests that are in finish first, and none gets in any more; clocks stop. */
const close: Step = {
  name: "close",
  run: Effect.fnUntraced(function* (deletion, after, limit) {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.sandbox}, hashtext(${deletion.account_id}))`
    const rows = yield* stopClocks(deletion, limit)
    return { rows, to: rows < limit ? null : after }
  }),
}

/**
 * What a reset deletes, in an order that no foreign key stands against, with what follows by itself: actors take their
 * journals and timers, customers their payment methods, events their deliveries, ledger entries their lines. Keys and
 * webhook endpoints stay, with the journals of the latter.
 */
export const SANDBOX_STEPS: ReadonlyArray<Step> = [
  close,
  actorsOf({ table: "nudge" }),
  rowsOf({ table: "unit_record" }),
  actorsOf({ table: "charge" }),
  actorsOf({ table: "checkout_session" }),
  actorsOf({ table: "instalment_plan" }),
  actorsOf({ table: "subscription" }),
  rowsOf({ table: "customer" }),
  actorsOf({ table: "test_clock" }),
  rowsOf({ table: "plan" }),
  rowsOf({ table: "instalment_product" }),
  rowsOf({ table: "event" }),
  rowsOf({ table: "simulator_attempt", key: "reference" }),
  // Whoever is booking days is through then, and nobody finds a book any more.
  rowsOf({ table: "revenue_book" }),
  ledgerEntries,
  // Requests are forgotten too, answered or not, save the one for this reset. One that is still under way can store nothing any more.
  rowsOf({
    table: "idempotency_record",
    key: "key",
    where:
      "key IS DISTINCT FROM (SELECT record_key FROM sandbox_reset r WHERE (r.account_id, r.livemode) = (idempotency_record.account_id, idempotency_record.livemode))",
  }),
  rowsOf({ table: "sandbox_reset", key: "account_id" }),
]
