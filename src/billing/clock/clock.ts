/** Declares the test clock's table and lifecycle, and renders clocks for the API. */
import { Effect } from "effect"
import {
  CLOCK_STATES,
  type ClockContext,
  type ClockState,
  type ClockStatus,
  clockMachine,
} from "../../../machines/clock.ts"
import { noSuch } from "../../base/problem.ts"
import { formatInstant } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf, type Table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lease } from "../../process/lease.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import type { TestClock } from "./api.ts"

const { immutable, mutable } = columnsOf<ClockContext>()

/** The noun for a clock in messages. */
export const CLOCK_NOUN = "test clock"

export const clocks = actorTable<ClockContext>()(
  "test_clock",
  { noun: CLOCK_NOUN, ids: "test_clock" },
  {
    name: immutable(column.nullable(column.text)),
    created_at: immutable(column.instant),
    deletes_at: immutable(column.instant),
    state: mutable(column.oneOf(CLOCK_STATES), (state) => state as ClockState),
    target_at: mutable(column.nullable(column.instant), "targetAt"),
    failed_steps: mutable(column.integer, "failedSteps"),
    frozen_at: mutable(column.instant),
    /** While the clock advances: the end of the window that begins at `frozen_at`, and the wall-clock time at which it was opened. */
    window_to_at: mutable(column.nullable(column.instant)),
    window_opened_at: mutable(column.nullable(column.instant)),
    /** The process that advances the clock. */
    runner: mutable(column.nullable(column.integer)),
    /** When the clock last joined the queue of clocks to advance. */
    waiting_since: mutable(column.nullable(column.instant)),
    customer_count: mutable(column.integer),
  },
)

export type ClockRow = RowOf<typeof clocks>

const isVisible = ({ state }: ClockRow): boolean => state !== "deleting"

/** The clocks that the API shows: all but those being deleted. */
export const visibleClocks: Pick<Table<ClockRow>, "find" | "get" | "lock" | "lockOne"> = {
  find: (tenant, ids) =>
    Effect.map(clocks.find(tenant, ids), (found) => new Map([...found].filter(([, row]) => isVisible(row)))),
  get: (tenant, id) => Effect.filterOrFail(clocks.get(tenant, id), isVisible, () => noSuch(CLOCK_NOUN, id)),
  lockOne: (tenant, id, mode) =>
    Effect.filterOrFail(clocks.lockOne(tenant, id, mode), isVisible, () => noSuch(CLOCK_NOUN, id)),
  lock: (refs, mode) => Effect.map(clocks.lock(refs, mode), (rows) => rows.filter(isVisible)),
}

/** The lease of the process that advances a clock. */
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
  // A clock being deleted is never rendered.
  status: row.state as ClockStatus,
  customer_count: row.customer_count,
  deletes_at: formatInstant(row.deletes_at),
})
