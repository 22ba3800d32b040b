/** The nudge table: rows in and out, in sets. */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Channel, NudgeAttempt } from "../../machines/nudge.ts"
import { type Columns, lockRows, names, REF_COLUMNS, records } from "../db/records.ts"
import type { Ref, Tenant } from "../db/tenant.ts"
import type { ActorRow } from "../lifecycle/advance.ts"
import { noSuch } from "../problem.ts"
import type { Template, Worded } from "./messages.ts"
import type { NudgeStatus } from "./Nudge.ts"

/** Instants are milliseconds since the epoch. */
export interface NudgeRow extends ActorRow {
  readonly customer_id: string
  readonly subscription_id: string | null
  readonly source: "automatic" | "api" | "dashboard"
  readonly template: Template
  readonly reminder_rule: "pre_due" | "post_due" | null
  readonly reminder_day: number | null
  readonly reminder_of: number | null
  readonly status: NudgeStatus
  readonly channels: ReadonlyArray<Channel>
  readonly contacts: Readonly<Partial<Record<Channel, string>>>
  readonly channel: Channel
  readonly position: number
  readonly tries: number
  readonly attempts: ReadonlyArray<NudgeAttempt>
  readonly message: Worded
  readonly link_token_hash: string | null
  readonly sender: number | null
  readonly taken_at: number | null
  /** As the newest event showed it. */
  readonly told: Readonly<Record<string, unknown>> | null
  readonly message_id: string | null
  readonly send_at: number | null
  readonly sent_at: number | null
  readonly delivered_at: number | null
  readonly receipt_at: number | null
  readonly failure_reason: string | null
  readonly counts: boolean
  readonly billed_as_overage: boolean
  readonly created_at: number
}

/** What changes over a nudge's life. */
const MOVING = {
  ...REF_COLUMNS,
  state: "text",
  status: "text",
  version: "integer",
  channel: "text",
  position: "smallint",
  tries: "smallint",
  attempts: "jsonb",
  sender: "integer",
  told: "jsonb",
  send_at: "timestamptz",
  message_id: "text",
  sent_at: "timestamptz",
  delivered_at: "timestamptz",
  receipt_at: "timestamptz",
  failure_reason: "text",
  counts: "boolean",
  billed_as_overage: "boolean",
} as const satisfies Columns<NudgeRow>

const INSERTED = {
  ...MOVING,
  customer_id: "text",
  subscription_id: "text",
  test_clock_id: "text",
  source: "text",
  template: "text",
  reminder_rule: "text",
  reminder_day: "smallint",
  reminder_of: "timestamptz",
  contacts: "jsonb",
  message: "jsonb",
  link_token_hash: "text",
  created_at: "timestamptz",
} as const satisfies Columns<NudgeRow>

/** An array of arrays cannot be taken apart row by row: channels travel as text. */
const withChannels = (rows: ReadonlyArray<NudgeRow>) =>
  rows.map((row) => ({ ...row, channel_list: `{${row.channels.join()}}` }))

/** Inserts nudges; a reminder that was sent already is left out. Answers the IDs of those that were not. */
export const insertNudges = (rows: ReadonlyArray<NudgeRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return new Set<string>()
    const sql = yield* SqlClient.SqlClient
    const inserted = yield* sql<{ id: string }>`
      INSERT INTO nudge (${names(sql, INSERTED)}, channels)
      SELECT ${names(sql, INSERTED)}, channel_list::text[] FROM ${records(sql, withChannels(rows), { ...INSERTED, channel_list: "text" })} r
      ON CONFLICT (subscription_id, reminder_of, reminder_rule, reminder_day, account_id, livemode) WHERE reminder_rule IS NOT NULL DO NOTHING
      RETURNING id`
    return new Set(inserted.map(({ id }) => id))
  })

/** Writes everything of these nudges that changes over their life. The rows must be locked. */
export const updateNudges = (rows: ReadonlyArray<NudgeRow>) =>
  Effect.gen(function* () {
    if (rows.length === 0) return
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      UPDATE nudge n SET state = r.state, status = r.status, version = r.version, channel = r.channel, position = r.position, tries = r.tries,
        attempts = r.attempts, sender = r.sender, told = r.told, send_at = r.send_at, message_id = r.message_id, sent_at = r.sent_at, delivered_at = r.delivered_at, receipt_at = r.receipt_at,
        failure_reason = r.failure_reason, counts = r.counts, billed_as_overage = r.billed_as_overage
      FROM ${records(sql, rows, MOVING)} r
      WHERE (n.account_id, n.livemode, n.id) = (r.account_id, r.livemode, r.id)`
  })

/** Locks nudges and reads them, in ID order. */
export const lockNudges = (refs: ReadonlyArray<Ref>) => lockRows<NudgeRow>("nudge", refs)

export const findNudges = (tenant: Tenant, ids: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<NudgeRow>`
      SELECT * FROM nudge WHERE account_id = ${tenant.account_id} AND livemode = ${tenant.livemode} AND id = ANY(${ids}::text[])`
  })

export const getNudge = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const [row] = yield* findNudges(tenant, [id])
    return row ?? (yield* noSuch("nudge", id))
  })

/** How many nudges by hand a customer was sent, or is being sent, since then. The customer must be locked. */
export const countByHand = (tenant: Tenant, customerId: string, since: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [row] = yield* sql<{ n: number }>`
      SELECT count(*) AS n FROM nudge
      WHERE customer_id = ${customerId} AND account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}
        AND source <> 'automatic' AND created_at > ${PgTypes.timestamptz(since)} AND NOT (status = 'failed' AND sent_at IS NULL)`
    return row!.n
  })
