/** Defines the wire schemas and endpoints of forecasts (decision S2). */
import { Schema } from "effect"
import { ASSUMPTIONS } from "../../http/DryRun.ts"
import { declare } from "../../http/Endpoint.ts"
import { byDefault, INSTANT, instant, oneOf } from "../../http/parameters.ts"
import { exampleId, instant as instantShown, kobo } from "../../http/response.ts"
import { Line } from "../charge/api.ts"
import { SubscriptionCreate } from "./api.ts"

const {
  Array: ArrayOf,
  Boolean: Bool,
  Int,
  Literal,
  Literals,
  NullOr,
  optionalKey,
  String: Text,
  Struct,
  Union,
} = Schema

/** The fields of a forecast's query and body. */
const forecastFields = {
  until: optionalKey(
    instant.annotate({ description: `${INSTANT}: later than now, at most 3 years ahead; by default a year ahead` }),
  ),
  assume: byDefault(oneOf(ASSUMPTIONS), "success"),
}
const ForecastQuery = Struct(forecastFields)
export type ForecastQuery = typeof ForecastQuery.Type

const { customer: _, ...withoutCustomer } = SubscriptionCreate.fields
export const ForecastCreate = Struct({ ...withoutCustomer, ...forecastFields })
export type ForecastCreate = typeof ForecastCreate.Type

const foreseen = <const Kind extends string, Fields extends Schema.Struct.Fields>(kind: Kind, fields: Fields) =>
  Struct({ at: instantShown, kind: Literal(kind), ...fields })

export const Forecast = Struct({
  object: Literal("forecast"),
  subscription: NullOr(Text),
  from: instantShown,
  until: instantShown,
  assume: Literals(ASSUMPTIONS),
  items: ArrayOf(
    Union([
      foreseen("charge", {
        amount: kobo,
        lines: ArrayOf(Line),
        period_start: NullOr(instantShown),
        period_end: NullOr(instantShown),
        attempt_number: Int,
        outcome: Literals(["succeeded", "failed"]),
      }),
      foreseen("event", { type: Text }),
      foreseen("nudge", { template: Text, channel: Text }),
      foreseen("status", { from: NullOr(Text), to: Text }),
      foreseen("cancellation", { reason: NullOr(Text) }),
    ]),
  ),
  truncated: Bool,
  totals: Struct({ charges: Int, amount: kobo }),
}).annotate({
  identifier: "forecast",
  examples: [
    {
      object: "forecast",
      subscription: exampleId("subscription"),
      from: "2026-11-01T09:00:00.000Z",
      until: "2026-12-01T09:00:00.000Z",
      assume: "success",
      items: [
        {
          at: "2026-12-01T09:00:00.000Z",
          kind: "charge",
          amount: 500_000,
          lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: 500_000, amount: 500_000 }],
          period_start: "2026-12-01T09:00:00.000Z",
          period_end: "2027-01-01T09:00:00.000Z",
          attempt_number: 1,
          outcome: "succeeded",
        },
        { at: "2026-12-01T09:00:00.000Z", kind: "event", type: "subscription.renewed" },
      ],
      truncated: false,
      totals: { charges: 1, amount: 500_000 },
    },
  ],
})

export type ForecastItem = (typeof Forecast.Type)["items"][number]

const shared = { access: "subscriptions", status: 200, success: Forecast } as const

export const forecastApi = {
  get: declare({
    method: "GET",
    path: "/subscriptions/:id/forecast",
    summary: "Forecast a subscription",
    notes:
      "The charges, events, nudges and changes of status to come, by the plan's terms and the units reported so far, if all payments end as assumed. At most 1,000 items; totals are of the charges in them that succeed.",
    ...shared,
    query: ForecastQuery,
    codes: ["resource_missing"],
  }),
  create: declare({
    method: "POST",
    path: "/forecasts",
    changesNothing: true,
    summary: "Forecast a subscription that does not exist",
    notes:
      "What a subscription to this plan would bring if a customer began it now. Changes nothing and is not counted.",
    ...shared,
    body: ForecastCreate,
    example: { plan: exampleId("plan"), quantity: 2 },
    codes: ["resource_missing", "plan_archived"],
  }),
}
