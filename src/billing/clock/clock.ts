/** A test clock: its table, its lifecycle, and how the API shows it. */
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

/** What messages call one. */
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
    /** While it advances: where the window ends that begins at `frozen_at`, and when that was opened, by the wall clock. */
    window_to_at: mutable(column.nullable(column.instant)),
    window_opened_at: mutable(column.nullable(column.instant)),
    /** The process that moves it. */
    runner: mutable(column.nullable(column.integer)),
    /** When it was last put in the queue of those that are to be moved. */
    waiting_since: mutable(column.nullable(column.instant)),
    customer_count: mutable(column.integer),
  },
)

export type ClockRow = RowOf<typeof clocks>

const isKnown = ({ state }: ClockRow): boolean => state !== "deleting"

/** The clocks that the API knows: one that is being deleted is gone. */
export const knownClocks: Pick<Table<ClockRow>, "find" | "get" | "lock" | "lockOne"> = {
  find: (tenant, ids) =>
    Effect.map(clocks.find(tenant, ids), (found) => new Map([...found].filter(([, row]) => isKnown(row)))),
  get: (tenant, id) => Effect.filterOrFail(clocks.get(tenant, id), isKnown, () => noSuch(CLOCK_NOUN, id)),
  lockOne: (tenant, id, mode) =>
    Effect.filterOrFail(clocks.lockOne(tenant, id, mode), isKnown, () => noSuch(CLOCK_NOUN, id)),
  lock: (refs, mode) => Effect.map(clocks.lock(refs, mode), (rows) => rows.filter(isKnown)),
}

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
  // One that is being deleted is shown to nobody.
  status: row.state as ClockStatus,
  customer_count: row.customer_count,
  deletes_at: formatInstant(row.deletes_at),
})
