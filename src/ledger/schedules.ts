/** Reads and writes revenue schedules (schedule.ts has their arithmetic). The caller locks their subscriptions before a change. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { names, REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import type { Ref } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"
import { formatDay, type NewSchedule, type Schedule } from "./schedule.ts"

/** A change of a schedule. */
export type ScheduleChange =
  | { readonly type: "begin"; readonly schedule: NewSchedule }
  | { readonly type: "change"; readonly schedule: Schedule }

const KEY = {
  account_id: "text",
  livemode: "boolean",
  subscription_id: "text",
  bill_no: "integer",
  part: "smallint",
} as const

const NEW_ROW = {
  ...KEY,
  customer_id: "text",
  plan_id: "text",
  test_clock_id: "text",
  price_kobo: "bigint",
  amount_kobo: "bigint",
  carried_kobo: "bigint",
  vat_kobo: "bigint",
  start_on: "date",
  end_on: "date",
  state: "text",
} as const

const INPUT = { ...NEW_ROW, posted_on: "date" } as const

const CHANGED = { ...KEY, until_on: "date", adjusted_kobo: "bigint", moved_kobo: "bigint", state: "text" } as const

/** Inserts new schedules. */
export const startSchedules = (unit: UnitOfWork, changes: ReadonlyArray<ScheduleChange>): void => {
  const schedules = changes.flatMap((one) => (one.type === "begin" ? [one.schedule] : []))
  if (schedules.length === 0) return
  const { sql } = unit
  const rows = schedules.map((schedule) => ({
    ...schedule,
    start_on: formatDay(schedule.start_day),
    end_on: schedule.end_day === null ? null : formatDay(schedule.end_day),
    posted_on: formatDay(schedule.posted_day),
  }))
  // Service before the posting is recognised on the day of the posting, or on the first open day, which is read once for each book.
  const insert = sql`
    INSERT INTO revenue_schedule (${names(NEW_ROW)}, from_on, until_on)
    SELECT ${sql.literal(Object.keys(NEW_ROW).join(", "))}, from_on,
      CASE WHEN end_on IS NULL OR state = 'stopped' THEN from_on ELSE greatest(end_on, from_on + 1) END
    FROM (
      SELECT *, greatest(start_on, posted_on, max(open_from) OVER book) AS from_on
      FROM (
        SELECT *, CASE WHEN row_number() OVER book = 1 THEN open_revenue_day(account_id, livemode, test_clock_id, '-infinity') END AS open_from
        FROM ${rowsAsTable(rows, INPUT)} r WINDOW book AS (PARTITION BY account_id, livemode, test_clock_id)
      ) s WINDOW book AS (PARTITION BY account_id, livemode, test_clock_id)
    ) s`
  unit.add([["schedules_started", insert]])
}

/** Updates existing schedules. */
export const changeSchedules = (unit: UnitOfWork, changes: ReadonlyArray<ScheduleChange>): void => {
  const schedules = changes.flatMap((one) => (one.type === "change" ? [one.schedule] : []))
  if (schedules.length === 0) return
  const { sql } = unit
  const rows = schedules.map((schedule) => ({ ...schedule, until_on: formatDay(schedule.until_day) }))
  const update = sql`
    UPDATE revenue_schedule SET until_on = c.until_on, adjusted_kobo = c.adjusted_kobo, moved_kobo = c.moved_kobo, state = c.state
    FROM ${rowsAsTable(rows, CHANGED)} c
    WHERE (revenue_schedule.account_id, revenue_schedule.livemode, revenue_schedule.subscription_id, revenue_schedule.bill_no, revenue_schedule.part)
      = (c.account_id, c.livemode, c.subscription_id, c.bill_no, c.part)`
  unit.add([["schedules_changed", update]])
}

/** The newest schedule of a subscription, and the first day from which it can change. The day stays valid until the transaction ends. */
export interface OpenSchedule {
  readonly schedule: Schedule
  readonly day: number
}

/** Reads the newest schedules of locked subscriptions, by subscription ID, with the first open day from `day` on. */
export const readSchedules = Effect.fnUntraced(function* (
  subscriptions: ReadonlyArray<Ref & { readonly day: number }>,
) {
  if (subscriptions.length === 0) return new Map<string, OpenSchedule>()
  const sql = yield* SqlClient.SqlClient
  const rows = subscriptions.map((one) => ({ ...one, wanted: formatDay(one.day) }))
  const found = yield* sql<Schedule & { readonly open_day: number }>`
    SELECT s.account_id, s.livemode, s.subscription_id, s.bill_no, s.part, s.customer_id, s.plan_id, s.test_clock_id,
      s.price_kobo, s.amount_kobo, s.carried_kobo, s.vat_kobo, s.adjusted_kobo, s.moved_kobo, s.state,
      s.start_on - date '1970-01-01' AS start_day, s.end_on - date '1970-01-01' AS end_day, s.from_on - date '1970-01-01' AS from_day,
      s.until_on - date '1970-01-01' AS until_day,
      open_revenue_day(s.account_id, s.livemode, s.test_clock_id, r.wanted) - date '1970-01-01' AS open_day
    FROM ${rowsAsTable(rows, { ...REF_COLUMNS, wanted: "date" })} r
    CROSS JOIN LATERAL (
      SELECT * FROM revenue_schedule s
      WHERE (s.account_id, s.livemode, s.subscription_id) = (r.account_id, r.livemode, r.id)
      ORDER BY s.bill_no DESC, s.part DESC LIMIT 1
    ) s`
  return new Map(
    found.map(({ open_day: day, ...schedule }): [string, OpenSchedule] => [
      schedule.subscription_id,
      { schedule, day },
    ]),
  )
})
