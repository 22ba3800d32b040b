/**
 * Emptying a sandbox (decision M2): a marker is committed before the answer, writes are refused while it stands,
 * and a worker deletes everything and the marker in one transaction. A crash leaves the marker, so the next worker does it.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { problem } from "../problem.ts"
import { onNotify } from "../process/workers.ts"

const CHANNEL = "sandbox_reset"
/** The class of the locks that enter_sandbox takes. */
const SANDBOX_LOCKS = 7_301_003
/** Finds markers whose notice was lost, or whose reset failed. */
const LOOK_EVERY_MS = 5_000

/** What a reset empties, in an order that no reference stands against. Keys and webhook endpoints stay. */
export const EMPTIED = [
  "timer",
  "lifecycle_journal",
  "webhook_delivery",
  "event",
  "simulator_attempt",
  "unit_record",
  "nudge",
  "charge",
  "subscription",
  "ledger_line",
  "ledger_entry",
  "payment_method",
  "customer",
  "test_clock",
  "plan",
] as const

/** Empties the sandboxes that are to be emptied. */
const resetAll = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const marked = yield* sql<{ account_id: string }>`SELECT account_id FROM sandbox_reset`
  for (const { account_id } of marked) {
    yield* empty(account_id).pipe(
      Effect.catchCause((cause) => Effect.logWarning("sandbox reset is tried again", { account_id }, cause)),
    )
  }
})

/** Empties sandboxes as they are asked to be, for as long as the scope is open. */
export const resetWorker = onNotify("sandbox resets", CHANNEL, LOOK_EVERY_MS, resetAll)

/** Asks for a sandbox to be emptied; in the running transaction. */
export const requestReset = Effect.fn("sandbox.reset")(function* ({ account_id }: Tenant) {
  const sql = yield* SqlClient.SqlClient
  const marked = yield* sql`
    INSERT INTO sandbox_reset (account_id, livemode) VALUES (${account_id}, false) ON CONFLICT DO NOTHING RETURNING 1`
  if (marked.length === 0) return yield* problem("reset_in_progress", "The sandbox is being reset already.")
  yield* sql`SELECT pg_notify(${CHANNEL}, ${account_id})`
  return { status: "resetting" as const }
})

/** Deletes all that is in an account's sandbox, and the marker that asked for it. */
const empty = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const mine = sql`account_id = ${account} AND NOT livemode`
  yield* sql.withTransaction(
    Effect.gen(function* () {
      const marked = yield* sql`SELECT 1 FROM sandbox_reset WHERE ${mine} FOR UPDATE SKIP LOCKED`
      if (marked.length === 0) return
      // Requests that are in finish first, and none gets in any more; then workers, in the order in which all lock.
      yield* sql`SELECT pg_advisory_xact_lock(${SANDBOX_LOCKS}, hashtext(${account}))`
      yield* sql`SELECT 1 FROM test_clock WHERE ${mine} ORDER BY id FOR UPDATE`
      yield* sql`SELECT 1 FROM subscription WHERE ${mine} ORDER BY id FOR UPDATE`
      yield* sql`SELECT 1 FROM charge WHERE ${mine} ORDER BY id FOR UPDATE`
      yield* sql`SELECT 1 FROM nudge WHERE ${mine} ORDER BY id FOR UPDATE`
      yield* sql`SELECT set_config('billing.sandbox_reset', ${account}, true)`
      yield* sql`UPDATE customer SET default_payment_method_id = NULL WHERE ${mine} AND default_payment_method_id IS NOT NULL`
      for (const table of EMPTIED) {
        // Webhook endpoints stay, so do their journals.
        const but = table === "lifecycle_journal" ? sql`AND actor_kind <> 'webhook_endpoint'` : sql``
        yield* sql`DELETE FROM ${sql(table)} WHERE ${mine} ${but}`
      }
      // What is answered is forgotten too, save the answers to requests like the one for this reset.
      yield* sql`DELETE FROM idempotency_record WHERE ${mine} AND response_status <> 202`
      yield* sql`DELETE FROM sandbox_reset WHERE ${mine}`
    }),
  )
})
