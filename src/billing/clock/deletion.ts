/**
 * Deletes test clocks by request, and when they expire (decisions M1, M4). The API stops showing a clock as soon as it is marked. Its rows,
 * which may be many, are deleted in the background (src/process/deletion).
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { problem } from "../../base/problem.ts"
import { MINUTE_MS } from "../../base/time.ts"
import { ofTenant, type Ref, staysHere, type Tenant } from "../../db/tenant.ts"
import { Deletions } from "../../process/deletion/Deletions.ts"
import { requestDeletions, type Step } from "../../process/deletion/deletion.ts"
import { actorsOf, ledgerEntries, rowsOf } from "../../process/deletion/steps.ts"
import { every } from "../../process/workers.ts"
import { commit } from "../../runtime/commit.ts"
import { advance, rowAfter } from "../../runtime/lifecycle.ts"
import { transitioned } from "../../runtime/outcome.ts"
import { type ClockRow, clockLifecycle, visibleClocks } from "./clock.ts"

/** Limit of clocks marked in one transaction. */
const MAX_MARKED = 500

/** Marks locked clocks as being deleted: after the commit no request finds them, and no worker advances them. */
const markDeleted = Effect.fnUntraced(function* (rows: ReadonlyArray<ClockRow>) {
  const commands = rows.map((row) => ({ row, event: { type: "delete" as const, at: row.frozen_at } }))
  const transitions = advance(clockLifecycle, commands)
  yield* commit(
    transitions.map((transition) =>
      transitioned(clockLifecycle, transition, { ...rowAfter(clockLifecycle, transition), runner: null }),
    ),
  )
})

const refuseAdvancing = (clock: ClockRow) =>
  clock.state === "advancing"
    ? Effect.fail(problem("test_clock_advancing", "The test clock is advancing: wait for test_clock.ready."))
    : Effect.void

/**
 * Deletes a clock with its customers, all their data and their books. The deletion runs in the background and emits no events; {@link
 * whenDeleted} waits for it.
 */
export const deleteClock = Effect.fn("clock.delete")(function* (tenant: Tenant, id: string) {
  // Refuses an advancing clock before locking it, without waiting for its worker's lock.
  yield* refuseAdvancing(yield* visibleClocks.get(tenant, id))
  const clock = yield* visibleClocks.lockOne(tenant, id)
  yield* refuseAdvancing(clock)
  yield* markDeleted([clock])
  yield* requestDeletions([clock])
  return clock
})

/** Waits until a clock is deleted, for some seconds at most. */
export const whenDeleted = (clock: Ref) => Effect.flatMap(Deletions, (deletions) => deletions.wait(clock))

/** Deletes clocks that have expired (`deletes_at`, decision M1); returns how many. */
const expireSome = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const expired = yield* sql<ClockRow>`
    SELECT * FROM test_clock c
    WHERE deletes_at < now() AND state IN ('ready', 'internal_failure') AND ${staysHere(sql, "c")}
    ORDER BY deletes_at LIMIT ${MAX_MARKED} FOR UPDATE SKIP LOCKED`
  yield* markDeleted(expired)
  yield* requestDeletions(expired)
  return expired.length
})

export const expireClocks = Effect.flatMap(SqlClient.SqlClient, (sql) =>
  Effect.repeat(sql.withTransaction(expireSome), { while: (found) => found === MAX_MARKED }),
)

/** Deletes clocks as they expire, for as long as the scope is open. */
export const expiryWorker = every("clock expiry", MINUTE_MS, expireClocks)

/**
 * Stops clocks of a sandbox that is being emptied: a clock's worker finds it marked at its next step. The sandbox's deletion deletes their
 * rows. Returns how many were stopped.
 */
export const stopClocks = Effect.fnUntraced(function* (tenant: Tenant, limit: number) {
  const sql = yield* SqlClient.SqlClient
  const moving = yield* sql<ClockRow>`
    SELECT * FROM test_clock WHERE ${ofTenant(sql, tenant)} AND state = 'advancing' ORDER BY id LIMIT ${limit} FOR UPDATE`
  yield* markDeleted(moving)
  return moving.length
})

/**
 * Lists what is deleted of a clock, in this order. Nudges still to send have an index of their own. Events are deleted after the actors
 * that could emit more of them.
 */
export const CLOCK_STEPS: ReadonlyArray<Step> = [
  actorsOf({ table: "nudge", name: "nudge to send", where: "state = 'sending'" }),
  actorsOf({ table: "nudge", where: "state <> 'sending'" }),
  rowsOf({ table: "unit_record" }),
  actorsOf({ table: "charge", ofCustomers: true }),
  actorsOf({ table: "checkout_session" }),
  actorsOf({ table: "instalment_plan" }),
  actorsOf({ table: "subscription" }),
  rowsOf({ table: "customer" }),
  rowsOf({ table: "event" }),
  rowsOf({ table: "simulator_attempt", key: "reference" }),
  rowsOf({ table: "revenue_book", clock: "id" }),
  ledgerEntries,
  actorsOf({ table: "test_clock", clock: "id" }),
]
