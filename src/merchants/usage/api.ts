/** The wire schemas and endpoints of usage. */
import { Schema } from "effect"
import { API_PLANS } from "../../base/apiPlans.ts"
import { declare } from "../../http/Endpoint.ts"
import { pageFields } from "../../http/lists.ts"
import { instant } from "../../http/parameters.ts"
import { instant as instantShown, kobo } from "../../http/response.ts"
import { THRESHOLDS } from "./allowances.ts"

const { Boolean: Bool, Int, Literal, Literals, NullOr, Struct } = Schema

export const Usage = Struct({
  object: Literal("usage"),
  livemode: Bool,
  plan: Literals(API_PLANS),
  period: Struct({ start: instantShown, end: instantShown }),
  write_requests: Struct({
    used: Int,
    included: NullOr(Int).annotate({ description: "null: unlimited" }),
    remaining: NullOr(Int),
    overage: Int,
    overage_rate_per_1000: NullOr(kobo),
    projected_overage_amount: kobo.annotate({ description: "The price of the overage so far (kobo)" }),
  }),
  read_requests: Struct({ used: Int, metered: Literal(false) }),
  nudges: Struct({
    used: Int,
    included: NullOr(Int),
    overage: Int,
    overage_rate: NullOr(kobo),
    overage_amount: kobo,
    overage_cap: NullOr(kobo),
  }),
  updated_at: instantShown,
}).annotate({
  identifier: "usage",
  examples: [
    {
      object: "usage",
      livemode: true,
      plan: "starter",
      period: { start: "2026-11-01T00:00:00.000Z", end: "2026-12-01T00:00:00.000Z" },
      write_requests: {
        used: 5_001,
        included: 5_000,
        remaining: 0,
        overage: 1,
        overage_rate_per_1000: 10,
        projected_overage_amount: 10,
      },
      read_requests: { used: 18_250, metered: false },
      nudges: { used: 12, included: 50, overage: 0, overage_rate: 5_000, overage_amount: 0, overage_cap: null },
      updated_at: "2026-11-01T09:00:00.000Z",
    },
  ],
})

/** The object of the event `usage.threshold_reached`. */
export const UsageThreshold = Struct({
  object: Literal("usage_threshold"),
  metric: Literals(["write_requests", "nudges"]),
  threshold: Literals(THRESHOLDS).annotate({ description: "Percent of the month's included amount" }),
  used: Int,
  included: Int,
}).annotate({
  identifier: "usage_threshold",
  examples: [{ object: "usage_threshold", metric: "write_requests", threshold: 80, used: 4_000, included: 5_000 }],
})

const shared = { method: "GET", access: "usage", status: 200, success: Usage } as const

export const usageApi = {
  get: declare({ ...shared, path: "/usage", summary: "Get this month's usage" }),
  history: declare({
    ...shared,
    path: "/usage/history",
    summary: "List the usage of past months",
    query: Struct({ limit: pageFields.limit, starting_after: Schema.optionalKey(instant) }),
    list: true,
  }),
}
