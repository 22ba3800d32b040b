/** Creates one-off charges (decisions F6, E16): outside any schedule; each failed one can be retried once. */
import { Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import type { Line } from "../../../machines/billing.ts"
import { type Metadata, mergeMetadata } from "../../base/metadata.ts"
import { checkBeforeStateError, problem } from "../../base/problem.ts"
import { dayOf } from "../../base/time.ts"
import { ofTenant, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { entriesOf } from "../../ledger/ledger.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { type NewEvent, previousAttributes } from "../../outbound/event/events.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { created } from "../../runtime/outcome.ts"
import type { ChargeCreate } from "../charge/api.ts"
import { type ChargeRow, chargeLifecycle, charges, newCharge, renderCharge } from "../charge/charge.ts"
import { clockTime } from "../clock/clocks.ts"
import { type CustomerRow, customers } from "../customer/customer.ts"
import {
  type AttachedMethod,
  findNamed,
  findPaymentMethods,
  methodKey,
  nameMethod,
  summaryOf,
} from "../payment_method/paymentMethods.ts"
import { commitAttempts } from "./commitAttempts.ts"
import type { Answered, PaymentSubject, Settle, Settlement } from "./PaymentSubjects.ts"
import { attachNew, type Payer, payingBy, readPayers } from "./payers.ts"
import { aboutCharge } from "./postings.ts"

interface OneOff {
  readonly customer: CustomerRow
  readonly amountKobo: number
  readonly lines: ReadonlyArray<Line>
  readonly description: string | null
  readonly metadata: Metadata
  readonly method: AttachedMethod
  readonly methodNamed: boolean
  readonly attemptNumber: number
  readonly retryOf: string | null
  /** Now, on the customer's clock. */
  readonly now: number
}

/** Creates the row of a one-off charge, to be attempted after its commit. */
const newOneOff = (tenant: Tenant, oneOff: OneOff, runner: number): ChargeRow =>
  newCharge({
    account_id: tenant.account_id,
    livemode: tenant.livemode,
    customer_id: oneOff.customer.id,
    subscription_id: null,
    test_clock_id: oneOff.customer.test_clock_id,
    bill_no: null,
    attempt_number: oneOff.attemptNumber,
    amount_kobo: oneOff.amountKobo,
    period_start_at: null,
    period_end_at: null,
    lines: oneOff.lines,
    purpose: "sale",
    hosted: false,
    payment_method: summaryOf(oneOff.method),
    payment_method_named: oneOff.methodNamed,
    retry_of: oneOff.retryOf,
    page_id: null,
    submission: null,
    rail: oneOff.method.rail,
    sent_at: oneOff.now,
    runner,
    description: oneOff.description,
    metadata: oneOff.metadata,
    created_at: oneOff.now,
  })

const commitOneOffs = (all: ReadonlyArray<ChargeRow>) =>
  commitAttempts(
    all.map((charge) => created(chargeLifecycle, undefined, charge)),
    all,
  )

const WITHOUT_METHOD = problem(
  "payment_method_required",
  "The customer has no default payment method: name one in payment_method.",
)

/** Returns the first of these payment methods that the customer still has; fails with `payment_method_required`. */
const firstAttached = Effect.fnUntraced(function* (customer: CustomerRow, ids: ReadonlyArray<string | null>) {
  const wanted = ids.filter((id) => id !== null)
  const found = yield* findPaymentMethods(wanted.map((method) => ({ ...refOf(customer), method })))
  const method = wanted.map((id) => found.get(methodKey(customer.id, id))).find((summary) => summary !== undefined)
  return method ?? (yield* WITHOUT_METHOD)
})

/** Decides one request for a charge. */
const decide = Effect.fnUntraced(function* (tenant: Tenant, input: ChargeCreate, payer: Payer, runner: number) {
  const customer = yield* payer.found
  const named = yield* payer.named
  const now = yield* payer.now
  const paying = payingBy(payer, named, customer, now)
  if (paying === undefined) return yield* WITHOUT_METHOD
  const description = input.description || null
  const line = { quantity: 1, unit_amount: input.amount, amount: input.amount }
  const oneOff: OneOff = {
    customer,
    amountKobo: input.amount,
    lines: [{ type: "one_off", description: description ?? "One-off charge", ...line }],
    description,
    metadata: yield* mergeMetadata({}, input.metadata),
    method: paying.method,
    methodNamed: input.payment_method !== undefined,
    attemptNumber: 1,
    retryOf: null,
    now,
  }
  return { charge: newOneOff(tenant, oneOff, runner), now, paying }
})

/** Commits one-off charges for requests that are processed together, to be collected afterwards; returns the result of each. */
export const createCharges = Effect.fn("charge.create")(function* (
  tenant: Tenant,
  inputs: ReadonlyArray<ChargeCreate>,
) {
  const { id: runner } = yield* ProcessLease
  const payers = yield* readPayers(tenant, inputs)
  const decided = yield* Effect.forEach(inputs, (input, at) => Effect.exit(decide(tenant, input, payers[at]!, runner)))
  const accepted = decided.filter(Exit.isSuccess).map(({ value }) => value)
  attachNew(
    yield* unitOfWork,
    accepted.map(({ paying }) => paying),
  )
  yield* commitOneOffs(accepted.map(({ charge }) => charge))
  return decided.map(Exit.map(({ charge, now }) => ({ charge, now })))
})

/** Locks and returns a failed one-off charge; fails if it was retried already. */
const lockRetriable = Effect.fnUntraced(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const row = yield* charges.lockOne(tenant, id)
  if (row.status !== "failed")
    return yield* problem("charge_not_retryable", `The charge is ${row.status}: only a failed one can be retried.`)
  const [retry] = yield* sql<{ id: string }>`SELECT id FROM charge WHERE ${ofTenant(sql, tenant)} AND retry_of = ${id}`
  if (retry !== undefined)
    return yield* problem("charge_not_retryable", `The charge was retried already, as ${retry.id}: retry that one.`)
  return row
})

/**
 * Commits a further attempt at a failed one-off charge: with the method named now, else with the method named before, else with the
 * customer's default.
 */
const retryOneOff = Effect.fn("charge.retry")(function* (tenant: Tenant, failed: ChargeRow, named: string | undefined) {
  const customerRef = { ...tenantOf(tenant), id: failed.customer_id }
  const methodCheck = named === undefined ? Effect.void : findNamed(customerRef, named, "payment_method")
  const now = yield* checkBeforeStateError(methodCheck, clockTime(tenant, failed.test_clock_id))
  const customer = yield* customers.lockOne(tenant, failed.customer_id, "SHARE")
  const chosen = named === undefined ? undefined : yield* nameMethod(customer, named, "payment_method", now)
  const before = yield* lockRetriable(tenant, failed.id)
  const used = before.payment_method?.id ?? null
  const candidates = before.payment_method_named
    ? [used, customer.default_payment_method_id]
    : [customer.default_payment_method_id, used]
  const method = chosen ?? (yield* firstAttached(customer, candidates))
  const oneOff: OneOff = {
    customer,
    amountKobo: before.amount_kobo,
    lines: before.lines,
    description: before.description,
    metadata: before.metadata,
    method,
    methodNamed: named !== undefined || (before.payment_method_named && method.id === used),
    attemptNumber: before.attempt_number + 1,
    retryOf: before.id,
    now,
  }
  const charge = newOneOff(tenant, oneOff, (yield* ProcessLease).id)
  yield* commitOneOffs([charge])
  return { charge, now }
})

/** The event about a settled charge. */
export const chargeEvent = (before: ChargeRow, after: ChargeRow, now: number): NewEvent => {
  const object = renderCharge(after)
  const { account_id, livemode, test_clock_id } = after
  return {
    account_id,
    livemode,
    type: after.status === "succeeded" ? "charge.succeeded" : "charge.failed",
    object,
    previous: previousAttributes(renderCharge(before), object),
    test_clock_id,
    at: now,
  }
}

/** The ledger entries and the event of a settled one-off charge. */
const settled = ({ before, after }: Answered, now: number, vatBps: number) => {
  const sale = { lines: after.lines, rail: after.rail, customerId: after.customer_id, vatBps }
  const entries = entriesOf("paid", after.id, aboutCharge(after, dayOf(now)), sale)
  return { entries: after.status === "succeeded" ? entries : [], events: [chargeEvent(before, after, now)] }
}

const settling =
  (vatBps: number): Settle =>
  (answered, nowOf) =>
    Effect.succeed({
      charges: new Map(
        answered
          .filter(({ before, after }) => before.status !== after.status)
          .map((one) => [one.after.id, settled(one, nowOf(one.after), vatBps)]),
      ),
      outcomes: [],
      attempts: [],
    } satisfies Settlement)

/** The payment subject of one-off charges: nothing else changes with them. */
export const oneOffSubject = Effect.map(
  VatRate,
  (vatBps): PaymentSubject => ({
    handles: ({ subscription_id, purpose }) => subscription_id === null && purpose === "sale",
    locksAtOnce: true,
    lock: () => Effect.succeed(settling(vatBps)),
    retry: retryOneOff,
  }),
)
