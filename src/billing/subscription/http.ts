import { Effect, Exit } from "effect"
import type { Tenant } from "../../db/tenant.ts"
import { bind } from "../../http/Endpoint.ts"
import { equals, listOf } from "../../http/lists.ts"
import { timelineHandler } from "../../runtime/timeline.ts"
import { checkMethod } from "../payment_method/paymentMethods.ts"
import { recoverCharges } from "../payments/simulatorCharges.ts"
import { subscriptionApi } from "./api.ts"
import { createSubscriptions } from "./create.ts"
import { forecastApi } from "./forecastApi.ts"
import { forecastNew, forecastOf } from "./forecasts.ts"
import { REMINDER, renderSubscription, subscriptions } from "./subscription.ts"
import { cancelSubscriptions, pauseSubscriptions, resumeSubscriptions, updateSubscriptions } from "./subscriptions.ts"
import { finishReport, renderUnitRecord, reportAllUnits, unitRecords } from "./units.ts"

/** What its timers do. */
const MEANS = {
  start: "It starts, and the first payment is attempted.",
  trialWillEnd: "The trial is about to end: subscription.trial_will_end is sent.",
  trialEnd: "The trial ends, and the first payment is attempted.",
  periodEnd: "The period ends: the subscription renews, or ends if that was asked.",
  billPeriodEnd: "The period of the unpaid bill ends: the subscription ends, as was asked.",
  pausedPeriodEnd: "The period ends while it is paused: the subscription ends, as was asked.",
  resume: "The pause ends.",
  nextRetry: "The overdue bill is tried again.",
  unpaidTooLong: "The bill has been unpaid for too long: the subscription is cancelled.",
  [REMINDER]: "The customer is reminded.",
}

/** Finishes a request that charges a subscription after a crash, and reads its response. */
const staged = {
  kind: "two-phase",
  finish: (_: Tenant, id: string) => recoverCharges({ subscriptionId: id }),
  reply: (tenant: Tenant, id: string) => Effect.map(subscriptions.get(tenant, id), renderSubscription),
} as const

/** Requests on a subscription lock that subscription. */
const byId = { lockKey: ({ id }: { readonly id: string }) => id }

export const subscriptionEndpoints = [
  bind(subscriptionApi.create, {
    ...staged,
    check: checkMethod("payment_method"),
    lockKey: ({ body }) => body.customer,
    begin: (tenant, requests) =>
      createSubscriptions(
        tenant,
        requests.map(({ body }) => body),
      ),
  }),
  bind(subscriptionApi.list, {
    kind: "read",
    run: (request) => {
      const { customer, plan, status, test_clock } = request.query
      return listOf(subscriptions, request, renderSubscription, [
        equals("customer_id", customer),
        equals("plan_id", plan),
        equals("status", status),
        equals("test_clock_id", test_clock),
      ])
    },
  }),
  bind(subscriptionApi.get, {
    kind: "read",
    run: (request) => Effect.map(subscriptions.get(request, request.id), renderSubscription),
  }),
  bind(forecastApi.get, {
    kind: "read",
    run: (request) => forecastOf(request, request.id, request.query),
  }),
  bind(forecastApi.create, {
    kind: "read",
    check: checkMethod("payment_method"),
    run: (request) => forecastNew(request, request.body),
  }),
  bind(subscriptionApi.timeline, timelineHandler(subscriptions.get, MEANS)),
  bind(subscriptionApi.update, {
    ...staged,
    ...byId,
    check: checkMethod("payment_method"),
    begin: updateSubscriptions,
  }),
  bind(subscriptionApi.pause, {
    kind: "write",
    ...byId,
    run: (tenant, requests) =>
      Effect.map(pauseSubscriptions(tenant, requests), (all) => all.map(Exit.map(renderSubscription))),
  }),
  bind(subscriptionApi.resume, {
    ...staged,
    ...byId,
    begin: resumeSubscriptions,
  }),
  bind(subscriptionApi.cancel, {
    ...staged,
    ...byId,
    begin: cancelSubscriptions,
  }),
  bind(subscriptionApi.reportUnits, {
    kind: "two-phase",
    ...byId,
    begin: reportAllUnits,
    finish: finishReport,
    reply: (tenant, id) => Effect.map(unitRecords.get(tenant, id), renderUnitRecord),
  }),
]
