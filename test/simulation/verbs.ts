/** A merchant's requests to the service, as its endpoints do: each starts in one transaction. */
import { Effect, type Exit, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { Problem } from "../../src/base/problem.ts"
import { getCharge } from "../../src/billing/charge/charge.ts"
import { lockForChange, updateCustomer } from "../../src/billing/customer/customers.ts"
import { MethodUsers } from "../../src/billing/customer/MethodUsers.ts"
import { detach } from "../../src/billing/payment_method/paymentMethods.ts"
import { createCharges } from "../../src/billing/payments/createCharge.ts"
import { PaymentSubjects } from "../../src/billing/payments/PaymentSubjects.ts"
import { queueBuyerStatusCheck } from "../../src/billing/payments/statusChecks.ts"
import { waitForPayment } from "../../src/billing/payments/waitForPayment.ts"
import { createSubscriptions } from "../../src/billing/subscription/create.ts"
import {
  cancelSubscriptions,
  pauseSubscriptions,
  resumeSubscriptions,
} from "../../src/billing/subscription/subscriptions.ts"
import type { CheckoutCreate } from "../../src/buying/checkout/api.ts"
import { createSession } from "../../src/buying/checkout/checkouts.ts"
import { submitCheckout } from "../../src/buying/checkout/submit.ts"
import type { Submission } from "../../src/buying/payment_page/submission.ts"
import { TenantDatabase } from "../../src/db/TenantDatabase.ts"
import { type Ref, type Tenant, tenantOf } from "../../src/db/tenant.ts"
import { retryingDeadlocks } from "../../src/postgres/deadlock.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import type { Services } from "./service.ts"

/** Returns the code of the refusal. undefined: it was done. */
export type Request = Effect.Effect<string | undefined, SqlError.SqlError, Services>

interface StartedRequest {
  readonly after?: Effect.Effect<unknown, SqlError.SqlError, Services>
}

const asked = (begin: Effect.Effect<StartedRequest, Problem | SqlError.SqlError, Services>): Request =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { after } = yield* retryingDeadlocks(sql.withTransaction(begin))
    if (after !== undefined) yield* Effect.forkDetach(Effect.ignore(after))
    return undefined
  }).pipe(Effect.catchTag("Problem", ({ code }) => Effect.succeed<string | undefined>(code)))

/** The number of checks that a payment on a page has started. */
const LOOK_EVERY_MS = 10

const URLS = { success_url: "https://shop.example/welcome", cancel_url: "https://shop.example/plans" }

/** Only the payment method that the buyer enters on the rail's own page. */
const SUBMITTED: Submission = {
  details: null,
  methodId: null,
  email: null,
  code: null,
  simulated: false,
  number: null,
  amountKobo: null,
  seenKobo: null,
}

/** A session that a buyer submits immediately. Waits for the buyer only until the payment has started. */
const checkOut = (tenant: Tenant, input: CheckoutCreate, rail: OutsideRail): Request =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const session = yield* sql.withTransaction(createSession(tenant, input))
    const hasStarted = Effect.repeat(sql`SELECT 1 FROM charge WHERE page_id = ${session.id}`, {
      until: (found) => found.length > 0,
      schedule: Schedule.spaced(LOOK_EVERY_MS),
    })
    yield* Effect.raceFirst(submitCheckout(session, SUBMITTED, rail), hasStarted)
    return undefined
  }).pipe(Effect.catchTag("Problem", ({ code }) => Effect.succeed<string | undefined>(code)))

/** The result of a batch of one request. */
const only = <A, E, E2, R>(all: Effect.Effect<ReadonlyArray<Exit.Exit<A, E>>, E2, R>) =>
  Effect.flatMap(all, ([one]) => one!)

export const verbs = {
  checkOut: (tenant: Tenant, customer: string, plan: string, rail: OutsideRail) =>
    checkOut(tenant, { mode: "subscription", customer, plan, ...URLS }, rail),
  setUp: (tenant: Tenant, customer: string, rail: OutsideRail) =>
    checkOut(tenant, { mode: "setup", customer, ...URLS }, rail),
  comeBack: (ref: Ref): Request =>
    Effect.gen(function* () {
      const { writing } = yield* TenantDatabase
      yield* writing(tenantOf(ref), queueBuyerStatusCheck(ref, true))
      return undefined
    }).pipe(Effect.catchTag("Problem", ({ code }) => Effect.succeed<string | undefined>(code))),
  charge: (tenant: Tenant, customer: string, amount: number) =>
    asked(
      Effect.map(only(createCharges(tenant, [{ customer, amount, currency: "NGN" }])), ({ charge, now }) => ({
        after: waitForPayment([charge], now),
      })),
    ),
  subscribe: (tenant: Tenant, customer: string, plan: string) =>
    asked(only(createSubscriptions(tenant, [{ customer, plan }]))),
  retry: (tenant: Tenant, id: string) =>
    asked(
      Effect.gen(function* () {
        const failed = yield* getCharge(tenant, id)
        const owner = (yield* PaymentSubjects).find(({ handles }) => handles(failed))!
        const { charge, now } = yield* owner.retry(tenant, failed, undefined)
        return { after: waitForPayment([charge], now) }
      }),
    ),
  cancel: (tenant: Tenant, id: string, atPeriodEnd: boolean) =>
    asked(only(cancelSubscriptions(tenant, [{ id, body: { at_period_end: atPeriodEnd } }]))),
  pause: (tenant: Tenant, id: string) => asked(Effect.as(only(pauseSubscriptions(tenant, [{ id, body: {} }])), {})),
  resume: (tenant: Tenant, id: string) => asked(only(resumeSubscriptions(tenant, [{ id }]))),
  setCard: (tenant: Tenant, id: string, card: string) =>
    asked(
      Effect.gen(function* () {
        const { customer, now, newMethod } = yield* updateCustomer(tenant, id, { default_payment_method: card })
        const users = yield* MethodUsers
        return newMethod === undefined ? {} : { after: yield* users.methodSet(customer, newMethod, now) }
      }),
    ),
  removeCard: (tenant: Tenant, id: string, card: string) =>
    asked(
      Effect.gen(function* () {
        const { customer, now } = yield* lockForChange(tenant, id)
        yield* (yield* MethodUsers).methodRemoved(customer, card, now)
        yield* detach(customer, card)
        return {}
      }),
    ),
} as const
