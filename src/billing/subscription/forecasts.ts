/** Reads what forecasts start from (decision S2), and renders them. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { addMonths } from "../../../machines/calendar.ts"
import { isCharging, waitsForCheckout } from "../../../machines/status.ts"
import { asReference, invalid } from "../../base/problem.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { FairSemaphore } from "../../concurrency/FairSemaphore.ts"
import { refOf, type Tenant, tenantName, tenantOf } from "../../db/tenant.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { type Addressees, addresseesOf, readAddressees } from "../../outbound/nudge/create.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { LOCKED } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import type { PaymentMethodSummary } from "../../rails/rail/PaymentRail.ts"
import { charges } from "../charge/charge.ts"
import { clockTimeSql } from "../clock/clocks.ts"
import { plans } from "../plan/plan.ts"
import { beginningOf, newSubscription } from "./create.ts"
import { type ForecastFacts, type ForecastStart, type WaitingTimer, walkAhead } from "./forecast.ts"
import type { ForecastCreate, ForecastQuery } from "./forecastApi.ts"
import { subscriptions } from "./subscription.ts"
import { type RulesOfPlans, readRules, readTerms, type Terms } from "./terms.ts"
import { NO_FACTS } from "./transition.ts"

const DEFAULT_MONTHS = 12
const MAX_MONTHS = 36

/** The facts of one subscription's forecast. */
const factsOf = Effect.fnUntraced(function* (id: string, terms: Terms, rules: RulesOfPlans, addressees: Addressees) {
  const { quietOf, token } = yield* Nudging
  return {
    ...NO_FACTS,
    terms: new Map([[id, terms]]),
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

/**
 * How many forecasts are walked at the same time, in all and of one tenant. A walk takes up to 50 ms of the process's only thread, in slices, so
 * that other requests go on.
 */
const slots = new FairSemaphore(2, 1)

const forecast = Effect.fnUntraced(function* (
  tenant: Tenant,
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
    ...(yield* slots.within(tenantName(tenant), walkAhead(life, facts, { from, until: end, assume }))),
  }
})

/** Reads what a subscription's forecast needs, in two round trips; undefined if the subscription changed meanwhile. */
const readStart = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const row = yield* subscriptions.get(tenant, id)
  const key = sql`(${row.account_id}, ${row.livemode}, ${id})`
  const chargeId = isCharging(row.state) ? row.latest_charge_id : null
  // The version is read last: if it is the same, so is all that was read before it.
  const [clocks, timers, terms, rules, addressees, newest, { version }] = yield* Effect.all(
    [
      sql<{ at: number | null }>`
        SELECT ${clockTimeSql(sql, "s", "k")} AS at FROM subscription s
        LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (s.account_id, s.livemode, s.test_clock_id)
        WHERE (s.account_id, s.livemode, s.id) = ${key}`,
      // The checkout that it waits for has its own timer.
      sql<WaitingTimer>`
        SELECT name, event, due_at, rank FROM timer WHERE (account_id, livemode, actor_id) = ${key}
        UNION ALL SELECT 'checkout', 'checkout_expired', t.due_at, t.rank FROM checkout_session c
        JOIN timer t ON (t.account_id, t.livemode, t.actor_id, t.name) = (c.account_id, c.livemode, c.id, 'expiry')
        WHERE ${waitsForCheckout(row.state)} AND (c.account_id, c.livemode, c.subscription_id) = ${key}`,
      readTerms([refOf(row)]),
      readRules([row]),
      readAddressees([{ ...row, customerId: row.customer_id, planId: row.plan_id }]),
      chargeId === null ? Effect.succeed(undefined) : charges.get(tenant, chargeId),
      subscriptions.get(tenant, id),
    ],
    PIPELINED,
  )
  if (version !== row.version) return undefined
  // A buyer who is on a rail's page may never pay.
  const pending = newest?.status === "pending" && !newest.hosted ? newest : undefined
  const facts = yield* factsOf(id, terms.get(id)!, rules, addressees)
  return { start: { row, timers, pending }, facts, now: clocks[0]?.at ?? currentTime() }
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
  const { start, facts, now } = found
  return yield* forecast(tenant, id, start, facts, now, query)
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
  const beginning = yield* beginningOf(input, plan, now)
  const customer = { id: "", test_clock_id: null }
  const first = newSubscription({ ...tenantOf(tenant), ...beginning, customer, methodId: null, metadata: {} })
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
  return yield* forecast(tenant, null, { first }, facts, now, input)
})
