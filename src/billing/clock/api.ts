/** Defines the wire schemas and endpoints of test clocks. */
import { Schema } from "effect"
import { CLOCK_STATUSES } from "../../../machines/clock.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { instant, textOrNull } from "../../http/parameters.ts"
import { common, Deleted, exampleId, instant as instantShown } from "../../http/response.ts"

const { Int, Literals, NullOr, String: Text } = Schema

export const TestClock = Schema.Struct({
  ...common("test_clock"),
  name: NullOr(Text),
  frozen_time: instantShown,
  status: Literals(CLOCK_STATUSES),
  customer_count: Int,
  deletes_at: instantShown,
}).annotate({
  identifier: "test_clock",
  examples: [
    {
      id: exampleId("test_clock"),
      object: "test_clock",
      livemode: false,
      created_at: "2026-11-01T09:00:00.000Z",
      name: "A year of renewals",
      frozen_time: "2026-11-01T09:00:00.000Z",
      status: "ready",
      customer_count: 1,
      deletes_at: "2026-12-01T09:00:00.000Z",
    },
  ],
})

const ClockCreate = Schema.Struct({ frozen_time: instant, name: Schema.optionalKey(textOrNull(100)) })
const ClockAdvance = Schema.Struct({ frozen_time: instant })

const sandbox = { access: "secret", right: "develop", sandboxOnly: true } as const

export const clockApi = {
  create: declare({
    method: "POST",
    path: "/test/clocks",
    summary: "Create a test clock",
    ...sandbox,
    body: ClockCreate,
    example: { frozen_time: "2026-01-31T09:00:00Z", name: "A year of renewals" },
    status: 201,
    success: TestClock,
  }),
  list: declare({
    method: "GET",
    path: "/test/clocks",
    summary: "List test clocks",
    ...sandbox,
    query: Schema.Struct(pageFields),
    status: 200,
    success: TestClock,
    list: true,
  }),
  get: declare({
    method: "GET",
    path: "/test/clocks/:id",
    summary: "Get a test clock",
    ...sandbox,
    status: 200,
    success: TestClock,
    codes: ["resource_missing"],
  }),
  advance: declare({
    method: "POST",
    path: "/test/clocks/:id/advance",
    summary: "Advance a test clock",
    notes:
      "frozen_time must be later than the clock's frozen_time, by one year at most. The response is returned immediately; the event test_clock.ready is sent when the clock has reached frozen_time.",
    ...sandbox,
    body: ClockAdvance,
    example: { frozen_time: "2026-02-28T09:00:00Z" },
    status: 202,
    success: TestClock,
    codes: ["resource_missing", "test_clock_advancing", "test_clock_not_ready"],
  }),
  delete: declare({
    method: "DELETE",
    path: "/test/clocks/:id",
    summary: "Delete a test clock and its customers",
    ...sandbox,
    status: 200,
    success: Deleted,
    codes: ["resource_missing", "test_clock_advancing"],
  }),
}
