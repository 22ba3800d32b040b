/**
 * Emptying a sandbox (spec 4.12, decision M2): a marker is committed with the answer, writes are refused while it stands,
 * and a worker deletes everything and the marker in one transaction. A crash leaves the marker, so the next worker does it.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule, type Scope } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { type Problem, problem } from "../problem.ts"

const CHANNEL = "sandbox_reset"
const RECONNECT_MS = 500
/** Finds markers whose notice was lost, or whose reset failed. */
const LOOK_EVERY_MS = 5_000

/** What a reset empties, in an order that no reference stands against. Keys and webhook endpoints stay. */
export const EMPTIED = [
  "timer",
  "lifecycle_journal",
  "event",
  "simulator_attempt",
  "unit_record",
  "charge",
  "subscription",
  "ledger_line",
  "ledger_entry",
  "payment_method",
  "customer",
  "test_clock",
  "plan",
] as const

export class SandboxResets extends Context.Service<
  SandboxResets,
  {
    /** Refuses a write to a sandbox that is being emptied (409). */
    readonly refuse: (tenant: Tenant) => Effect.Effect<void, Problem | SqlError.SqlError>
    /** Empties sandboxes as they are asked to be, for as long as the scope is open. */
    readonly work: Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/sandbox/SandboxResets") {
  static readonly layer: Layer.Layer<SandboxResets, never, SqlClient.SqlClient | PgClient.PgClient> = Layer.effect(
    SandboxResets,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pg = yield* PgClient.PgClient
      const wake = yield* Queue.sliding<void>(1)
      /** The accounts being reset, as the database last said; undefined while its line is down. */
      let known: ReadonlySet<string> | undefined
      const read = Effect.map(
        sql<{ account_id: string }>`SELECT account_id FROM sandbox_reset`,
        (rows) => new Set(rows.map(({ account_id }) => account_id)),
      )
      const listen = Effect.scoped(
        Effect.gen(function* () {
          const notices = yield* pg.listen(CHANNEL)
          for (;;) {
            known = yield* read
            if (known.size > 0) yield* Queue.offer(wake, undefined)
            yield* Queue.take(notices)
          }
        }),
      ).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            known = undefined
          }),
        ),
      )
      yield* Effect.forkScoped(listen.pipe(Effect.ignore, Effect.repeat(Schedule.spaced(RECONNECT_MS))))

      const resetAll = Effect.gen(function* () {
        for (const account of yield* read) {
          yield* empty(account).pipe(
            Effect.provideService(SqlClient.SqlClient, sql),
            Effect.catchCause((cause) => Effect.logWarning("sandbox reset is tried again", { account }, cause)),
          )
        }
      }).pipe(Effect.catchCause((cause) => Effect.logError("sandbox reset", cause)))

      return SandboxResets.of({
        refuse: ({ account_id, livemode }) =>
          livemode
            ? Effect.void
            : Effect.flatMap(known === undefined ? read : Effect.succeed(known), (resetting) =>
                resetting.has(account_id)
                  ? Effect.fail(problem("reset_in_progress", "The sandbox is being reset: try again in a moment."))
                  : Effect.void,
              ),
        work: Effect.gen(function* () {
          yield* Effect.forkScoped(Effect.repeat(Queue.offer(wake, undefined), Schedule.spaced(LOOK_EVERY_MS)))
          yield* Effect.forkScoped(Effect.forever(Effect.andThen(Queue.take(wake), resetAll)))
        }),
      })
    }),
  )
}

const tell = (account: string) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) => Effect.asVoid(sql`SELECT pg_notify(${CHANNEL}, ${account})`))

/** Asks for a sandbox to be emptied; in the running transaction. */
export const requestReset = ({ account_id }: Tenant) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const marked = yield* sql`
      INSERT INTO sandbox_reset (account_id, livemode) VALUES (${account_id}, false) ON CONFLICT DO NOTHING RETURNING 1`
    if (marked.length === 0) return yield* problem("reset_in_progress", "The sandbox is being reset already.")
    yield* tell(account_id)
    return { status: "resetting" }
  })

/** Deletes all that is in an account's sandbox, and the marker that asked for it. */
const empty = (account: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`account_id = ${account} AND NOT livemode`
    yield* sql.withTransaction(
      Effect.gen(function* () {
        const marked = yield* sql`SELECT 1 FROM sandbox_reset WHERE ${mine} FOR UPDATE SKIP LOCKED`
        if (marked.length === 0) return
        // Whoever is at work on something of it finishes first; in the order in which all lock.
        yield* sql`SELECT 1 FROM test_clock WHERE ${mine} ORDER BY id FOR UPDATE`
        yield* sql`SELECT 1 FROM customer WHERE ${mine} ORDER BY id FOR UPDATE`
        yield* sql`SELECT 1 FROM subscription WHERE ${mine} ORDER BY id FOR UPDATE`
        yield* sql`SELECT 1 FROM charge WHERE ${mine} ORDER BY id FOR UPDATE`
        yield* sql`SELECT set_config('billing.sandbox_reset', ${account}, true)`
        yield* sql`UPDATE customer SET default_payment_method_id = NULL WHERE ${mine} AND default_payment_method_id IS NOT NULL`
        for (const table of EMPTIED) yield* sql`DELETE FROM ${sql(table)} WHERE ${mine}`
        // What is answered is forgotten too, save the answers to requests like the one for this reset.
        yield* sql`DELETE FROM idempotency_record WHERE ${mine} AND response_status <> 202`
        yield* sql`DELETE FROM sandbox_reset WHERE ${mine}`
        yield* tell(account)
      }),
    )
  })
