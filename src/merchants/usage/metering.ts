/**
 * Counts the usage of accounts (decisions K1, K3, K5). A live write is counted in its own transaction, so the count is
 * exact and contiguous and excludes failed writes. Reads are counted in memory and stored in batches.
 */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Exit, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { formatInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { staysHere } from "../../db/tenant.ts"
import { Metering } from "../../http/Metering.ts"
import { every } from "../../process/workers.ts"
import type { AccountKey, KnownKey } from "../../security/key/Keys.ts"
import { ALLOWANCES, monthOf } from "./allowances.ts"
import { countLast } from "./counting.ts"

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

interface Read {
  readonly account_id: string
  readonly period_start_at: number
  readonly reads: number
}

type Month = Pick<Read, "account_id" | "period_start_at">

const nameOf = ({ account_id, period_start_at }: Month): string => `${account_id} ${period_start_at}`

/** Counted reads that are not stored yet, by account and month. */
class Reads {
  #rows = new Map<string, Read>()
  /** The reads that are being stored. */
  #storing: ReadonlyMap<string, Read> = new Map()

  add(row: Read): void {
    const name = nameOf(row)
    this.#rows.set(name, { ...row, reads: (this.#rows.get(name)?.reads ?? 0) + row.reads })
  }

  waiting(month: Month): number {
    const name = nameOf(month)
    return (this.#rows.get(name)?.reads ?? 0) + (this.#storing.get(name)?.reads ?? 0)
  }

  /** Takes all reads for storing, ordered by account so that processes cannot deadlock. They stay counted until {@link stored}. */
  take(): ReadonlyArray<Read> {
    this.#storing = this.#rows
    this.#rows = new Map()
    return [...this.#storing.values()].sort((a, b) => (a.account_id < b.account_id ? -1 : 1))
  }

  /** Ends a {@link take}: the reads are stored, or they are counted again. */
  stored(isStored: boolean): void {
    const taken = this.#storing
    this.#storing = new Map()
    if (!isStored) for (const row of taken.values()) this.add(row)
  }
}

const writeReads = Effect.fnUntraced(function* (reads: Reads) {
  const rows = reads.take()
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO usage_counter AS u (account_id, livemode, period_start_at, read_requests)
    SELECT r.account_id, true, r.period_start_at, r.reads FROM ${rowsAsTable(rows, READS)} r
    JOIN account a ON a.id = r.account_id WHERE ${staysHere(sql, "r")}
    ON CONFLICT (account_id, livemode, period_start_at) DO UPDATE SET read_requests = u.read_requests + excluded.read_requests, updated_at = now()`.pipe(
    Effect.onExit((exit) => Effect.sync(() => reads.stored(Exit.isSuccess(exit)))),
    // An interruption after the commit would count them twice.
    Effect.uninterruptible,
  )
})

const count = Effect.fnUntraced(function* (key: AccountKey, writes: number) {
  const counted = yield* countLast(key.account_id, "write_requests", writes, key.api_plan)
  return () => {
    const { used, end } = counted()
    return Array.from({ length: writes }, (_, at) => headers(key, true, used - writes + 1 + at, end))
  }
})

const currentHeaders = Effect.fnUntraced(function* (key: KnownKey) {
  const { start, end } = monthOf(currentTime())
  if (key.kind !== "account" || !key.livemode) return headers(key, false, 0, end)
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ write_requests: number }>`
    SELECT write_requests FROM usage_counter
    WHERE account_id = ${key.account_id} AND livemode AND period_start_at = ${PgTypes.timestamptz(start)}`
  return headers(key, false, row?.write_requests ?? 0, end)
})

export const meteringLayer: Layer.Layer<Metering, never, SqlClient.SqlClient> = Layer.effect(
  Metering,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const reads = new Reads()
    yield* Effect.addFinalizer(() =>
      Effect.ignore(writeReads(reads), { log: "Warn", message: "the last read counts are lost" }),
    )
    yield* every("read counts", WRITE_READS_EVERY_MS, writeReads(reads))
    return Metering.of({
      count,
      usageHeaders: (key) =>
        key === undefined
          ? Effect.succeed({})
          : currentHeaders(key).pipe(
              Effect.provideService(SqlClient.SqlClient, sql),
              // The response is complete without the headers.
              Effect.catchCause((cause) => Effect.as(Effect.logWarning("cannot read the usage headers", cause), {})),
            ),
      noteRead: ({ account_id, livemode }) => {
        if (livemode) reads.add({ account_id, period_start_at: monthOf(currentTime()).start, reads: 1 })
      },
      readsWaiting: (account_id, period_start_at) => reads.waiting({ account_id, period_start_at }),
    })
  }),
)
