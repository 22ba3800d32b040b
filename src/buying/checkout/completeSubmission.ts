/** Completes submissions of open sessions, of any buyers in one batch: decides on each, then writes all results with the payments to attempt. */
import { Effect, Exit } from "effect"
import type { CheckoutEvent } from "../../../machines/checkout.ts"
import { newId } from "../../base/ids.ts"
import { noSuch } from "../../base/problem.ts"
import type { NowOf } from "../../base/time.ts"
import { type ChargeRow, chargeLifecycle } from "../../billing/charge/charge.ts"
import { type CustomerRow, customers } from "../../billing/customer/customer.ts"
import {
  type AttachedMethod,
  attachMethods,
  findPaymentMethods,
  methodKey,
  newTestMethod,
} from "../../billing/payment_method/paymentMethods.ts"
import { commitAttempts } from "../../billing/payments/commitAttempts.ts"
import type { Codes } from "../../billing/payments/simulatorCharges.ts"
import type { PlanRow } from "../../billing/plan/plan.ts"
import { plansToBegin } from "../../billing/plan/plans.ts"
import { newSubscription } from "../../billing/subscription/create.ts"
import {
  type SubscriptionRow,
  type SubscriptionTransition,
  subscriptionLifecycle,
  subscriptions,
} from "../../billing/subscription/subscription.ts"
import { readTerms } from "../../billing/subscription/terms.ts"
import { outcomesOf } from "../../billing/subscription/transition.ts"
import { type Ref, refOf, type Tenant, tenantOf } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { LOCKED, WaitForLocks } from "../../postgres/lockWait.ts"
import { PIPELINED } from "../../postgres/pipelining.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { commit } from "../../runtime/commit.ts"
import { advance } from "../../runtime/lifecycle.ts"
import { created, NewestRows } from "../../runtime/outcome.ts"
import { readDue, totalDue } from "../payment_page/amountDue.ts"
import { checkCode, checkShown, codesFor, MAX_ATTEMPTS, tooManyAttempts } from "../payment_page/checks.ts"
import { useAtCheckout } from "../payment_page/entered.ts"
import { countTries, newVerification } from "../payment_page/hosted.ts"
import type { Submission } from "../payment_page/submission.ts"
import { checkoutLifecycle, type SessionRow, sessions } from "./checkout.ts"
import { subscriptionRefs } from "./closing.ts"
import { complete } from "./completion.ts"
import { type Notes, sessionOutcome } from "./outcome.ts"

/** A submission of a session's page, with the session as it was found. */
export interface SessionClaim {
  readonly found: SessionRow
  readonly submitted: Submission
  readonly hostedBy: OutsideRail | null
}

/** A claim with its current session, locked together with the customer and the customer's other open sessions. */
export interface Locked {
  readonly claim: SessionClaim
  readonly session: SessionRow
  readonly existing: CustomerRow | undefined
  readonly siblings: (of: SessionRow) => ReadonlyArray<SessionRow>
  /** The subscriptions that completing may change: its own, those of sessions that it closes, those that a new default may pay. */
  readonly concerned: ReadonlyArray<Ref>
  /** Whether the customer has subscriptions that may be billed. */
  readonly isBilled: boolean
  /** The time of the customer's clock. */
  readonly now: number
}

/** The committed result of a submission, with the charges to attempt. */
export interface Completed {
  /** The session as committed. */
  readonly session: SessionRow
  /** The payment on the page, if something is due. */
  readonly charge: ChargeRow | undefined
  readonly attempts: ReadonlyArray<ChargeRow>
  readonly codes: Codes
  readonly now: number
}

/** Returns what the purchase costs when the page is submitted (kobo). Further overdue bills may be charged besides. */
export const dueNow = (session: SessionRow, subscription: SubscriptionRow | undefined): number =>
  session.plan_id === null ||
  (subscription === undefined ? session.trial_days! > 0 : subscription.trial_end_at !== null)
    ? 0
    : session.price_kobo! * (subscription?.quantity ?? session.quantity!)

/** Returns the customer of a session: unchanged, created from the typed details, or corrected by them. */
const customerOf = ({ claim, session, existing, now }: Locked): CustomerRow => {
  const { details, email } = claim.submitted
  if (existing === undefined)
    return {
      ...tenantOf(session),
      id: newId("customer"),
      ...details!,
      default_payment_method_id: null,
      test_clock_id: null,
      metadata: {},
      created_at: now,
    }
  // Only a customer that the page created is corrected by it.
  const customer = session.customer_is_new && details !== null ? { ...existing, ...details } : existing
  return email !== null && customer.email === null ? { ...customer, email } : customer
}

/** Builds the subscription of a session whose buyer was not identified before. */
const subscriptionFor = (session: SessionRow, plan: PlanRow, customer: CustomerRow, now: number) =>
  newSubscription({
    ...tenantOf(session),
    customer,
    planId: plan.id,
    billingCycle: plan.billing_cycle,
    priceKobo: session.price_kobo!,
    trialDays: session.trial_days!,
    quantity: session.quantity!,
    startAt: now,
    methodId: null,
    metadata: {},
    checkout: true,
    now,
  })

/** The data that decisions on submissions need. */
interface Facts {
  /** Locked. */
  readonly subscriptions: ReadonlyMap<string, SubscriptionRow>
  /** Overdue subscriptions, by customer ID. */
  readonly due: ReadonlyMap<string, ReadonlyArray<SubscriptionRow>>
  readonly methods: ReadonlyMap<string, AttachedMethod>
  readonly plans: ReadonlyMap<string, PlanRow>
  /** Payments that were started on a session's page, by session ID. */
  readonly tries: ReadonlyMap<string, number>
}

const readFacts = Effect.fnUntraced(function* (tenant: Tenant, all: ReadonlyArray<Locked>) {
  const waits = yield* WaitForLocks
  // Without waiting, all rows that may be needed are locked now. Otherwise later rows are locked when they are needed.
  const needed = all.flatMap(({ session, concerned }) => (waits ? subscriptionRefs([session]) : concerned))
  const byId = new Map(needed.map((ref) => [ref.id, ref]))
  const planIds = all.flatMap(({ session }) => (session.subscription_id === null ? (session.plan_id ?? []) : []))
  const named = all.flatMap(({ existing, claim: { submitted } }) =>
    existing === undefined || submitted.methodId === null ? [] : [{ ...refOf(existing), method: submitted.methodId }],
  )
  const onRail = all.filter(({ claim: { submitted, hostedBy } }) => submitted.methodId === null && hostedBy !== null)
  const billed = all.flatMap(({ existing, isBilled }) => (existing !== undefined && isBilled ? [refOf(existing)] : []))
  const [rows, overdue, methods, planRows, tries] = yield* Effect.all(
    [
      subscriptions.lock([...byId.values()], waits ? "UPDATE" : "UPDATE SKIP LOCKED"),
      readDue(billed),
      findPaymentMethods(named),
      plansToBegin(tenant, planIds),
      countTries(onRail.map(({ session }) => session)),
    ],
    PIPELINED,
  )
  return {
    subscriptions: new Map(rows.map((row) => [row.id, row])),
    due: Map.groupBy(overdue, ({ customer_id }) => customer_id),
    methods,
    plans: planRows,
    tries,
  } satisfies Facts
})

/** Decides on a submission. Writes nothing yet. */
const decide = Effect.fnUntraced(function* (locked: Locked, facts: Facts) {
  const { claim, session, existing, now } = locked
  const { submitted, hostedBy } = claim
  const { subscription_id: waitingId, plan_id: planId } = session
  const waiting = waitingId === null ? undefined : facts.subscriptions.get(waitingId)
  const waits = yield* WaitForLocks
  if (waitingId !== null && waiting === undefined) return yield* waits ? noSuch("subscription", waitingId) : LOCKED
  const dueKobo = dueNow(session, waiting)
  const { charged } = useAtCheckout(existing, facts.due.get(existing?.id ?? "") ?? [], now)
  yield* checkShown(submitted.amountKobo, dueKobo + totalDue(charged))
  yield* checkCode(submitted, dueKobo)
  const customer = customerOf(locked)
  const { methodId } = submitted
  const attached = methodId === null ? undefined : facts.methods.get(methodKey(customer.id, methodId))
  const newMethod =
    methodId === null || attached !== undefined
      ? undefined
      : yield* newTestMethod(customer, methodId, "payment_method", submitted.simulated)
  // On the rail's page, the rail takes a verification charge to save the method.
  const verifiedBy = methodId === null && dueKobo === 0 ? hostedBy : null
  if (verifiedBy !== null && (facts.tries.get(session.id) ?? 0) >= MAX_ATTEMPTS) return yield* tooManyAttempts
  const plan = planId === null || waiting !== undefined ? undefined : facts.plans.get(planId)
  if (planId !== null && waiting === undefined && plan === undefined) return yield* noSuch("plan", planId)
  const creation = plan === undefined ? undefined : subscriptionFor(session, plan, customer, now)
  const subscription = waiting ?? creation?.row
  if (verifiedBy === null && (subscription?.bill?.attempt ?? 0) >= MAX_ATTEMPTS) return yield* tooManyAttempts
  // It completes immediately, which also changes the other subscriptions.
  const completes = dueKobo === 0 && verifiedBy === null
  if (!waits && completes && locked.concerned.some(({ id }) => !facts.subscriptions.has(id))) return yield* LOCKED
  const notes: Notes = {
    customer_id: customer.id,
    customer_is_new: session.customer_is_new || existing === undefined,
    payment_method_id: methodId,
    submission: submitted.number,
    ...(subscription === undefined ? {} : { subscription_id: subscription.id }),
  }
  return { ...locked, customer, newMethod, verifiedBy, creation, subscription, notes }
})

type Decided = Effect.Success<ReturnType<typeof decide>>

/** Writes new and corrected customers, their new payment methods, and the new subscriptions that wait for sessions. */
const writeBuyers = Effect.fnUntraced(function* (all: ReadonlyArray<Decided>, nowOf: NowOf) {
  const unit = yield* unitOfWork
  const created = all.flatMap(({ existing, customer }) => (existing === undefined ? [customer] : []))
  const changed = all.flatMap(({ existing, customer }) =>
    existing === undefined || existing === customer ? [] : [{ before: existing, after: customer }],
  )
  unit.update(customers, changed)
  unit.insert(customers, created)
  attachMethods(
    unit,
    all.flatMap(({ customer, newMethod: method, now: at }) => (method === undefined ? [] : [{ customer, method, at }])),
  )
  const creations = all.flatMap(
    ({ creation }): ReadonlyArray<SubscriptionTransition> => (creation === undefined ? [] : [creation]),
  )
  const { outcomes } = yield* outcomesOf(creations, { nowOf, terms: new Map() }, true)
  yield* commit(outcomes)
})

/** Checks out subscriptions; returns their outcomes and the payments to attempt. */
const checkOut = Effect.fnUntraced(function* (all: ReadonlyArray<Decided>, nowOf: NowOf) {
  const commands = all.flatMap(({ claim, subscription: row, verifiedBy, session, notes, now }) => {
    if (row === undefined || verifiedBy !== null) return []
    const methodId = notes.payment_method_id ?? null
    const hostedBy = methodId === null ? claim.hostedBy : null
    const page = { id: session.id, hostedBy, submission: notes.submission ?? null }
    return [{ row, page, event: { type: "check_out" as const, at: now, methodId } }]
  })
  return yield* outcomesOf(advance(subscriptionLifecycle, commands), {
    nowOf,
    terms: yield* readTerms(commands.map(({ row }) => refOf(row))),
    pages: new Map(commands.map(({ row, page }) => [row.id, page])),
  })
})

/** Returns the outcome of the session's transition, with the notes of the submission. */
const sessionOutcomes = ({ session, now }: Decided, event: CheckoutEvent, notes: Notes) =>
  advance(checkoutLifecycle, [{ row: session, event }]).map((transition) => sessionOutcome(transition, notes, now))

/** Completes submissions of different buyers, on open and locked sessions; returns the result of each. */
export const completeSubmissions = Effect.fnUntraced(function* (tenant: Tenant, all: ReadonlyArray<Locked>) {
  if (all.length === 0) return []
  const facts = yield* readFacts(tenant, all)
  const exits = yield* Effect.forEach(all, (locked) => Effect.exit(decide(locked, facts)))
  const decided = exits.filter(Exit.isSuccess).map(({ value }) => value)
  const nows = new Map(decided.map(({ customer, now }) => [customer.id, now]))
  const nowOf: NowOf = ({ customer_id }) => nows.get(customer_id!)!
  yield* writeBuyers(decided, nowOf)
  const { outcomes, attempts } = yield* checkOut(decided, nowOf)
  const verifications = yield* Effect.forEach(decided, ({ customer, verifiedBy, session, notes, now }) =>
    verifiedBy === null
      ? Effect.succeed(undefined)
      : newVerification({ customer, rail: verifiedBy, pageId: session.id, submission: notes.submission ?? null, now }),
  )
  const bySubscription = new Map(attempts.map((charge) => [charge.subscription_id, charge]))
  const started = decided.map((one, at) => ({
    ...one,
    charge: verifications[at] ?? bySubscription.get(one.subscription?.id ?? null),
  }))
  const verificationCharges = verifications.filter((charge) => charge !== undefined)
  const sessionUpdates = started.flatMap((one) =>
    one.charge === undefined
      ? sessionOutcomes(one, { type: "complete", at: one.now }, one.notes)
      : sessionOutcomes(one, { type: "pay", at: one.now }, { ...one.notes, charge_id: one.charge.id }),
  )
  yield* commitAttempts(
    [
      ...outcomes,
      ...verificationCharges.map((charge) => created(chargeLifecycle, undefined, charge)),
      ...sessionUpdates,
    ],
    [...attempts, ...verificationCharges],
  )
  const defaultAttempts = yield* complete(
    started.flatMap(({ charge, session, customer, notes, siblings, now }) => {
      if (charge !== undefined) return []
      const completed = { ...session, ...notes }
      const methodId = notes.payment_method_id ?? null
      const completion = { customerId: customer.id, session: completed, methodId, siblings: siblings(completed) }
      return [{ ...completion, submittedAt: now, now }]
    }),
  )
  const newest = new NewestRows()
  newest.note(sessionUpdates)
  const results = started.map(({ claim, session, charge, customer, now }): Completed => {
    const toAttempt =
      charge === undefined ? defaultAttempts.filter(({ customer_id }) => customer_id === customer.id) : [charge]
    const committed = newest.get(sessions, session.id) ?? session
    return { session: committed, charge, attempts: toAttempt, codes: codesFor(toAttempt, claim.submitted), now }
  })
  let next = 0
  return exits.map(Exit.map(() => results[next++]!))
})
