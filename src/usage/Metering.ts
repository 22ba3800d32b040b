/**
 * Counting what accounts use (spec 8, decisions K1, K3, K5). A live write is counted in its own transaction: the count is
 * exact and contiguous, and a write that fails is not in it. Reads are counted in memory and written down in batches.
 */
import { PgTypes } from "@effect/sql-pg"
import { Context, Effect, Layer, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { emailOwner } from "../account/ownerEmail.ts"
import { records } from "../db/records.ts"
import { appendEvents } from "../event/Events.ts"
import type { AccountKey, KnownKey } from "../key/Keys.ts"
import { formatInstant } from "../time.ts"
import { ALLOWANCES, monthOf, thresholdsReached } from "./allowances.ts"

type Headers = Readonly<Record<string, string>>

const WRITE_READS_EVERY_MS = 2_000

const READS = { account_id: "text", period_start_at: "timestamptz", reads: "bigint" } as const

const headers = (key: KnownKey, billable: boolean, used: number, periodEnd: number): Headers => {
  const writes = key.kind === "account" ? ALLOWANCES[key.api_plan].writes : null
  return {
    "x-service-billable": String(billable),
    "x-service-write-usage": String(used),
    "x-service-write-limit": writes === null ? "unlimited" : String(writes),
    "x-service-usage-period-end": formatInstant(periodEnd),
  }
}

interface Counted {
  readonly write_requests: number
  readonly write_threshold: number
}

/** Tells the account and its owner, once, that a part of an allowance is used up. In the running transaction. */
export const announceThresholds = (
  account: string,
  metric: "write_requests" | "nudges",
  reached: ReadonlyArray<number>,
  count: { readonly used: number; readonly included: number },
) =>
  Effect.gen(function* () {
    const at = Date.now()
    const what = metric === "nudges" ? "nudges" : "write requests"
    yield* appendEvents(
      reached.map((threshold) => ({
        account_id: account,
        livemode: true,
        type: "usage.threshold_reached",
        object: { object: "usage_threshold", metric, threshold, ...count },
        previous: {},
        test_clock_id: null,
        at,
      })),
    )
    for (const threshold of reached) {
      const body = `You have used ${count.used} of the ${count.included} ${what} that your plan includes this month (${threshold} %). What goes beyond is billed, not blocked.`
      yield* emailOwner(
        { account_id: account, livemode: true },
        { subject: `${threshold} % of this month's ${what} are used`, body },
      )
    }
  })

export class Metering extends Context.Service<
  Metering,
  {
    /** Counts a live write in the running transaction, and answers the headers that say so. */
    readonly count: (key: AccountKey) => Effect.Effect<Headers, SqlError.SqlError, SqlClient.SqlClient>
    /** The headers of a write that does not count: refused, replayed, or in the sandbox. */
    readonly standing: (key: KnownKey | undefined) => Effect.Effect<Headers>
    readonly noteRead: (key: AccountKey) => void
  }
>()("billing/usage/Metering") {
  static readonly layer: Layer.Layer<Metering, never, SqlClient.SqlClient> = Layer.effect(
    Metering,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      let reads = new Map<string, { account_id: string; period_start_at: number; reads: number }>()

      const writeReads = Effect.suspend(() => {
        // In one order everywhere, so that no two processes wait for each other.
        const rows = [...reads.values()].sort((a, b) => (a.account_id < b.account_id ? -1 : 1))
        reads = new Map()
        return rows.length === 0
          ? Effect.void
          : sql`
              INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, read_requests)
              SELECT r.account_id, true, r.period_start_at, r.reads FROM ${records(sql, rows, READS)} r
              ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET read_requests = u.read_requests + excluded.read_requests, updated_at = now()`.pipe(
              Effect.tapError(() => Effect.sync(() => rows.forEach(addReads))),
            )
      }).pipe(Effect.ignore)
      const addReads = (row: { account_id: string; period_start_at: number; reads: number }) => {
        const name = `${row.account_id} ${row.period_start_at}`
        const known = reads.get(name)
        reads.set(name, known === undefined ? row : { ...known, reads: known.reads + row.reads })
      }
      yield* Effect.forkScoped(Effect.repeat(writeReads, Schedule.spaced(WRITE_READS_EVERY_MS)))
      yield* Effect.addFinalizer(() => writeReads)

      return Metering.of({
        count: (key) =>
          Effect.gen(function* () {
            const sql = yield* SqlClient.SqlClient
            const { start, end } = monthOf(Date.now())
            const [counted] = yield* sql<Counted>`
              INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, write_requests) VALUES (${key.account_id}, true, ${PgTypes.timestamptz(start)}, 1)
              ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET write_requests = u.write_requests + 1, updated_at = now()
              RETURNING write_requests, write_threshold`
            const { write_requests: used, write_threshold: announced } = counted!
            const included = ALLOWANCES[key.api_plan].writes
            const reached = thresholdsReached(used, included, announced)
            if (reached.length > 0) {
              yield* sql`
                UPDATE usage_counter SET write_threshold = ${reached.at(-1)!}
                WHERE account_id = ${key.account_id} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
              yield* announceThresholds(key.account_id, "write_requests", reached, { used, included: included! })
            }
            return headers(key, true, used, end)
          }),
        standing: (key) =>
          Effect.gen(function* () {
            if (key === undefined) return {}
            const { start, end } = monthOf(Date.now())
            const [row] =
              key.kind === "account" && key.livemode
                ? yield* sql<{ write_requests: number }>`
                  SELECT write_requests FROM usage_counter
                  WHERE account_id = ${key.account_id} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
                : []
            return headers(key, false, row?.write_requests ?? 0, end)
          }).pipe(Effect.catchCause(() => Effect.succeed({}))),
        noteRead: ({ account_id, livemode }) => {
          if (livemode) addReads({ account_id, period_start_at: monthOf(Date.now()).start, reads: 1 })
        },
      })
    }),
  )
}
