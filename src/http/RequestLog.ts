/**
 * RequestLog keeps a log of API requests (decision R12), and the record of what keys did (R7). Both are noted in memory after the response or
 * the commit, and written in batches, so that no request waits for them. A process that dies loses those of its last second.
 */
import { PgTypes } from "@effect/sql-pg"
import { Context, Effect, Layer, Metric } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, MINUTE_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { names, rowsAsTable } from "../db/rows.ts"
import { staysHere, type Tenant, tenantName } from "../db/tenant.ts"
import { every } from "../process/workers.ts"
import type { AccountKey } from "../security/key/Keys.ts"
import { type ActivityRow, insertActivity } from "./activity.ts"

const COLUMNS = {
  account_id: "text",
  livemode: "boolean",
  id: "text",
  at: "timestamptz",
  method: "text",
  path: "text",
  status: "smallint",
  error_code: "text",
  key_id: "text",
  key_last4: "text",
  duration_us: "integer",
  is_replay: "boolean",
} as const

/** A request that got its response. */
export interface LoggedRequest {
  readonly id: string
  readonly method: string
  readonly path: string
  readonly status: number
  readonly error_code: string | null
  readonly is_replay: boolean
  readonly duration_us: number
}

interface Row extends Tenant, LoggedRequest {
  readonly at: number
  readonly key_id: string
  readonly key_last4: string
}

const WRITE_EVERY_MS = 1_000
/** A statement of this many rows takes some 10 ms. */
const MAX_BATCH = 1_000
/** About two seconds of requests of a busy process. Above it, requests are served but not logged. */
const MAX_WAITING = 10_000
const MAX_PATH = 300

export const KEPT_DAYS = 30
/** Requests kept of one account and environment. */
const MAX_KEPT = 1_000_000
/** The log of an account is cut after this many new requests of it in a process. */
const CUT_AFTER = 10_000
const MAX_DELETED = 5_000
const PURGE_EVERY_MS = MINUTE_MS

const dropped = Metric.counter("billing_requests_not_logged_total", {
  description: "Requests and activities of keys that are missing in their logs because the database was too slow",
  incremental: true,
})

export class RequestLog extends Context.Service<
  RequestLog,
  {
    /** Notes a request of a key, to be written soon. */
    readonly add: (key: AccountKey, request: LoggedRequest) => void
    /** Notes what a key did, to be written soon. */
    readonly addActivity: (row: ActivityRow) => void
  }
>()("billing/http/RequestLog") {
  static readonly layer = Layer.effect(
    RequestLog,
    Effect.gen(function* () {
      const waiting: Array<Row> = []
      const acted: Array<ActivityRow> = []
      let missed = 0
      /** The new requests of each account since its log was cut. */
      const added = new Map<string, Tenant & { count: number }>()
      const note = ({ account_id, livemode }: Tenant): void => {
        const name = tenantName({ account_id, livemode })
        const one = added.get(name) ?? { account_id, livemode, count: 0 }
        one.count++
        added.set(name, one)
      }
      const write = Effect.gen(function* () {
        const sql = yield* SqlClient.SqlClient
        if (missed > 0) yield* Metric.update(dropped, missed)
        missed = 0
        // Rows stay in the list until they are written. Rows of accounts that have left to another cell are not written.
        while (waiting.length > 0) {
          const rows = waiting.slice(0, MAX_BATCH)
          yield* sql`
            INSERT INTO api_request (${names(COLUMNS)})
            SELECT * FROM ${rowsAsTable(rows, COLUMNS)} r WHERE ${staysHere(sql, "r")} ON CONFLICT DO NOTHING`
          waiting.splice(0, rows.length)
          for (const row of rows) note(row)
        }
        while (acted.length > 0) {
          const rows = acted.slice(0, MAX_BATCH)
          yield* insertActivity(sql, rows)
          acted.splice(0, rows.length)
        }
      })
      yield* Effect.addFinalizer(() =>
        Effect.ignore(write, { log: "Warn", message: "the last requests were not logged" }),
      )
      yield* every("request log", WRITE_EVERY_MS, write)
      yield* every(
        "old requests",
        PURGE_EVERY_MS,
        Effect.suspend(() => purge(added)),
      )
      return RequestLog.of({
        add: ({ account_id, livemode, id: key_id, last4: key_last4 }, request) => {
          if (waiting.length >= MAX_WAITING) {
            missed++
            return
          }
          const path = request.path.slice(0, MAX_PATH)
          waiting.push({ account_id, livemode, key_id, key_last4, at: currentTime(), ...request, path })
        },
        addActivity: (row) => {
          if (acted.length < MAX_WAITING) acted.push(row)
          else missed++
        },
      })
    }),
  )
}

/** Deletes requests in batches, until a statement finds no full batch. */
const deleteAll = <E, R>(batch: Effect.Effect<ReadonlyArray<object>, E, R>): Effect.Effect<void, E, R> =>
  Effect.flatMap(batch, (deleted) => (deleted.length < MAX_DELETED ? Effect.void : deleteAll(batch)))

/**
 * Deletes the requests that are too old, and the oldest of accounts that have too many. `added`: the new requests of each account since its
 * log was cut.
 */
export const purge = Effect.fnUntraced(function* (
  added: Map<string, Tenant & { readonly count: number }>,
  maxKept = MAX_KEPT,
) {
  const sql = yield* SqlClient.SqlClient
  const end = PgTypes.timestamptz(currentTime() - KEPT_DAYS * DAY_MS)
  yield* deleteAll(sql`
    DELETE FROM api_request WHERE ctid = ANY(ARRAY(SELECT ctid FROM api_request WHERE at < ${end} LIMIT ${MAX_DELETED})) RETURNING 1`)
  for (const [name, { account_id, livemode, count }] of added) {
    if (count < CUT_AFTER) continue
    added.delete(name)
    const [oldest] = yield* sql<{ id: string }>`
      SELECT id FROM api_request WHERE account_id = ${account_id} AND livemode = ${livemode}
      ORDER BY id DESC OFFSET ${maxKept} LIMIT 1`
    if (oldest === undefined) continue
    yield* deleteAll(sql`
      DELETE FROM api_request WHERE account_id = ${account_id} AND livemode = ${livemode} AND id = ANY(ARRAY(
        SELECT id FROM api_request WHERE account_id = ${account_id} AND livemode = ${livemode} AND id <= ${oldest.id}
        ORDER BY id LIMIT ${MAX_DELETED})) RETURNING 1`)
  }
})
