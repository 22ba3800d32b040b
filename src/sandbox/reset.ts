/**
 * Empties a sandbox (decision M2). A marker row is committed before the response, and writes are refused while it exists. Workers
 * delete everything in batches (src/process/deletion), the marker last, so the deletion continues after a crash.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../base/problem.ts"
import { stopClocks } from "../billing/clock/deletion.ts"
import type { Tenant } from "../db/tenant.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import { requestDeletions, SANDBOX, type Step } from "../process/deletion/deletion.ts"
import { actorsOf, bookSums, ledgerEntries, rowsOf } from "../process/deletion/steps.ts"

/** Requests a sandbox reset in the running transaction. `recordKey` is the key of the idempotency record with its response. */
export const requestReset = Effect.fn("sandbox.reset")(function* ({ account_id }: Tenant, recordKey: string | null) {
  const sql = yield* SqlClient.SqlClient
  const marked = yield* sql`
    INSERT INTO sandbox_reset (account_id, livemode, record_key) VALUES (${account_id}, false, ${recordKey})
    ON CONFLICT DO NOTHING RETURNING 1`
  if (marked.length === 0) return yield* problem("reset_in_progress", "The sandbox is already being reset.")
  yield* requestDeletions([{ account_id, livemode: false, id: SANDBOX }])
  return { status: "resetting" as const }
})

/** Waits for running requests, which hold this lock; new ones see the marker and are refused. Then stops the clocks. */
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
 * The steps of a reset, in foreign key order. Dependent rows are deleted with their parent: journals and timers with
 * their actor, payment methods with their customer, deliveries with their event, lines with their ledger entry. Keys and
 * webhook endpoints stay, and so do the endpoints' journals.
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
  // Waits for running revenue recognition; afterwards it finds no book of this sandbox.
  rowsOf({ table: "revenue_book" }),
  ledgerEntries,
  bookSums,
  // All idempotency records except this reset's. A request that is still running cannot store its response any more.
  rowsOf({
    table: "idempotency_record",
    key: "key",
    where:
      "key IS DISTINCT FROM (SELECT record_key FROM sandbox_reset r WHERE (r.account_id, r.livemode) = (idempotency_record.account_id, idempotency_record.livemode))",
  }),
  rowsOf({ table: "sandbox_reset", key: "account_id" }),
]
