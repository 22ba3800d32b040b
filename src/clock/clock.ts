/** A test clock: its table, its lifecycle, and how the API shows it. */
import { CLOCK_STATUSES, type ClockContext, type ClockStatus, clockMachine } from "../../machines/clock.ts"
import * as Kind from "../db/Kind.ts"
import { actorTable, columnsOf, type RowOf } from "../db/table.ts"
import { commonOf } from "../http/response.ts"
import type { Lease } from "../process/lease.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"
import { formatInstant } from "../time.ts"
import type { TestClock } from "./api.ts"

const { fixed, moving } = columnsOf<ClockContext>()

export const clocks = actorTable<ClockContext>()(
  "test_clock",
  { noun: "test clock" },
  {
    name: fixed(Kind.nullable(Kind.text)),
    created_at: fixed(Kind.instant),
    deletes_at: fixed(Kind.instant),
    // The machine's states are what the API shows.
    state: moving(Kind.oneOf(CLOCK_STATUSES), (state) => state as ClockStatus),
    target_at: moving(Kind.nullable(Kind.instant), "targetAt"),
    failed_steps: moving(Kind.integer, "failedSteps"),
    frozen_at: moving(Kind.instant),
    /** The process that moves it. */
    runner: moving(Kind.nullable(Kind.integer)),
    customer_count: moving(Kind.integer),
  },
)

export type ClockRow = RowOf<typeof clocks>

/** The process that moves a clock. */
export const clockLease: Lease = { name: "test_clock" }

export const clockLifecycle: Lifecycle<typeof clockMachine, ClockRow> = {
  kind: "test_clock",
  machine: clockMachine,
  machineVersion: 1,
  ranks: {},
  table: clocks,
}

export const renderClock = (row: ClockRow): typeof TestClock.Type => ({
  ...commonOf("test_clock", row),
  name: row.name,
  frozen_time: formatInstant(row.frozen_at),
  status: row.state,
  customer_count: row.customer_count,
  deletes_at: formatInstant(row.deletes_at),
})
