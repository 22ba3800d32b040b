/** Reads what forecasts start from (decision S2), and renders them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addMonths } from "../../../machines/calendar.ts"
import { isCharging, waitsForCheckout } from "../../../machines/status.ts"
import { asReference, invalid } from "../../base/problem.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { type Addressees, addresseesOf, readAddressees } from "../../outbound/nudge/create.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { LOCKED } from "../../postgres/lockWait.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { charges } from "../charge/charge.ts"
import { clockTimeSql } from "../clock/clocks.ts"
import { plans } from "../plan/plan.ts"
import { checkStart, newSubscription } from "./create.ts"
import { type ForecastFacts, type ForecastStart, type WaitingTimer, walkAhead } from "./forecast.ts"
import type { ForecastCreate, ForecastQuery } from "./forecastApi.ts"
import { subscriptions } from "./subscription.ts"
import { type RulesOfPlans, readRules, readTerms, type Terms } from "./terms.ts"

const DEFAULT_MONTHS = 12
const MAX_MONTHS = 36

/** The facts of one subscription's forecast. */
const factsOf = Effect.fnUntraced(function* (id: string, terms: Terms, rules: RulesOfPlans, addressees: Addressees) {
  const { quietOf, token } = yield* Nudging
  return {
    terms: new Map([[id, terms]]),
    details: new Map(),
    pages: new Map(),
    found: new Map(),
    methods: new Map(),
    closed: new Map(),
    schedules: new Map(),
    vatBps: yield* VatRate,
    rules,
    addressees,
    quietOf,
    token,
    runner: (yield* ProcessLease).id,
  } satisfies ForecastFacts
})

const forecast = Effect.fnUntraced(function* (
  subscription: string | null,
  life: ForecastStart,
  facts: ForecastFacts,
  from: number,
  { until, assume = "success" }: ForecastQuery,
) {
  const end = until === undefined ? addMonths(from, DEFAULT_MONTHS) : parseInstant(until)!
  const latest = addMonths(from, MAX_MONTHS)
  if (end <= from || end > latest)
    return yield* invalid(
      "until",
      `until must be later than now and at most 3 years ahead: between ${formatInstant(from)} and ${formatInstant(latest)}.`,
    )
  return {
    object: "forecast" as const,
    subscription,
    from: formatInstant(from),
    until: formatInstant(end),
    assume,
    ...walkAhead(life, facts, { from, until: end, assume }),
  }
})

/** Reads a subscription, with what waits for it; undefined if it changed meanwhile. */
const readStart = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const row = yield* subscriptions.get(tenant, id)
  const [clock] = yield* sql<{ at: number | null }>`
    SELECT ${clockTimeSql(sql, "s", "k")} AS at FROM subscription s
    LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (s.account_id, s.livemode, s.test_clock_id)
    WHERE (s.account_id, s.livemode, s.id) = (${row.account_id}, ${row.livemode}, ${id})`
  const timers = yield* sql<WaitingTimer>`
    SELECT name, event, due_at, rank FROM timer WHERE (account_id, livemode, actor_id) = (${row.account_id}, ${row.livemode}, ${id})`
  const expiry = waitsForCheckout(row.state)
    ? yield* sql<WaitingTimer>`
        SELECT 'checkout' AS name, 'checkout_expired' AS event, t.due_at, t.rank FROM checkout_session c
        JOIN timer t ON (t.account_id, t.livemode, t.actor_id, t.name) = (c.account_id, c.livemode, c.id, 'expiry')
        WHERE (c.account_id, c.livemode, c.subscription_id) = (${row.account_id}, ${row.livemode}, ${id})`
    : []
  const newest =
    isCharging(row.state) && row.latest_charge_id !== null
      ? yield* charges.get(tenant, row.latest_charge_id)
      : undefined
  const { version } = yield* subscriptions.get(tenant, id)
  if (version !== row.version) return undefined
  // A buyer who is on a rail's page may never pay.
  const pending = newest?.status === "pending" && !newest.hosted ? newest : undefined
  return { row, timers: [...timers, ...expiry], pending, now: clock?.at ?? currentTime() }
})

/** How often a subscription is read that changes all the time. */
const TRIES = 5

/** Forecasts a subscription from its current state. */
export const forecastOf = Effect.fn("subscription.forecast")(function* (
  tenant: Tenant,
  id: string,
  query: ForecastQuery,
) {
  const found = yield* Effect.repeat(readStart(tenant, id), { until: (one) => one !== undefined, times: TRIES })
  if (found === undefined) return yield* LOCKED
  const { now, ...start } = found
  const { row } = start
  const terms = yield* readTerms([refOf(row)])
  const rules = yield* readRules([row])
  const addressees = yield* readAddressees([{ ...row, customerId: row.customer_id, planId: row.plan_id }])
  const facts = yield* factsOf(id, terms.get(id)!, rules, addressees)
  return yield* forecast(id, start, facts, now, query)
})

/** Stands for whatever the customer would pay with. */
const ANY_METHOD: PaymentMethodSummary = {
  id: "pm_any",
  type: "card",
  brand: null,
  last4: null,
  bank_name: null,
  exp_month: null,
  exp_year: null,
}

/** Forecasts a new subscription of a customer who can be reached by every channel. */
export const forecastNew = Effect.fn("subscription.forecastNew")(function* (tenant: Tenant, input: ForecastCreate) {
  const plan = yield* asReference(plans.get(tenant, input.plan), "plan")
  const now = currentTime()
  const { quantity, startAt } = yield* checkStart(input, plan, now)
  const customer = { id: "", test_clock_id: null }
  const first = newSubscription({
    ...tenantOf(tenant),
    customer,
    planId: plan.id,
    billingCycle: plan.billing_cycle,
    priceKobo: plan.amount_kobo,
    trialDays: input.trial_days ?? plan.trial_days,
    quantity,
    startAt,
    methodId: null,
    metadata: {},
    now,
  })
  const { id } = first.row
  const terms: Terms = { ...plan, id, payment_method: ANY_METHOD, rail: "simulator" }
  const addressees = addresseesOf([
    {
      customer_id: customer.id,
      plan_id: plan.id,
      name: "",
      phone: "",
      email: "",
      business_name: "",
      plan: plan.name,
      plan_channels: plan.reminders.channels,
    },
  ])
  const facts = yield* factsOf(id, terms, new Map([[plan.id, plan]]), addressees)
  return yield* forecast(null, { first }, facts, now, input)
})
