/** A test clock: its table, its lifecycle, and how the API shows it. */
import { CLOCK_STATUSES, type ClockContext, type ClockStatus, clockMachine } from "../../machines/clock.ts"
import { actorTable, columnsOf, instant, integer, nullable, oneOf, type RowOf, text } from "../db/table.ts"
import type { Lease } from "../process/lease.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"
import { formatInstant } from "../time.ts"
import type { TestClock } from "./api.ts"

const { fixed, moving } = columnsOf<ClockContext>()

export const clocks = actorTable<ClockContext>()(
  "test_clock",
  { noun: "test clock" },
  {
    name: fixed(nullable(text)),
    created_at: fixed(instant),
    deletes_at: fixed(instant),
    // The machine's states are what the API shows.
    state: moving(oneOf(CLOCK_STATUSES), (state) => state as ClockStatus),
    target_at: moving(nullable(instant), "targetAt"),
    failed_steps: moving(integer, "failedSteps"),
    frozen_at: moving(instant),
    /** The process that moves it. */
    runner: moving(nullable(integer)),
    customer_count: moving(integer),
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
  id: row.id,
  object: "test_clock",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
  name: row.name,
  frozen_time: formatInstant(row.frozen_at),
  status: row.state,
  customer_count: row.customer_count,
  deletes_at: formatInstant(row.deletes_at),
})
