/**
 * Carrying out submissions of open sessions, of any buyers at once: each is decided on, then all that is decided is written, with the
 * payments that are to be attempted.
 */
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

/** A submission of a session's page, as the session was found. */
export interface SessionClaim {
  readonly found: SessionRow
  readonly submitted: Submission
  readonly hostedBy: OutsideRail | null
}

/** A claim with its session as it is now, locked with the customer and with what else the customer has open. */
export interface Locked {
  readonly claim: SessionClaim
  readonly session: SessionRow
  readonly known: CustomerRow | undefined
  readonly siblings: (of: SessionRow) => ReadonlyArray<SessionRow>
  /** The subscriptions that completing it may change: its own, those of sessions that are closed by it, those that may be billed by a new default. */
  readonly concerned: ReadonlyArray<Ref>
  /** Whether the customer has subscriptions that may be billed. */
  readonly isBilled: boolean
  /** In the customer's clock. */
  readonly now: number
}

/** What is committed, to be attempted. */
export interface Completed {
  /** The session as it is committed. */
  readonly session: SessionRow
  /** The payment on the page, where something is due. */
  readonly charge: ChargeRow | undefined
  readonly attempts: ReadonlyArray<ChargeRow>
  readonly codes: Codes
  readonly now: number
}

/** What is charged for what is bought when the page is submitted (kobo); what is overdue elsewhere may be charged beside it. */
export const dueNow = (session: SessionRow, subscription: SubscriptionRow | undefined): number =>
  session.plan_id === null ||
  (subscription === undefined ? session.trial_days! > 0 : subscription.trial_end_at !== null)
    ? 0
    : session.price_kobo! * (subscription?.quantity ?? session.quantity!)

/** The customer of a session: as it is, made from the details, or corrected by what was typed. */
const customerOf = ({ claim, session, known, now }: Locked): CustomerRow => {
  const { details, email } = claim.submitted
  if (known === undefined)
    return {
      ...tenantOf(session),
      id: newId("customer"),
      ...details!,
      default_payment_method_id: null,
      test_clock_id: null,
      metadata: {},
      created_at: now,
    }
  // One that the page made is corrected by it.
  const customer = session.customer_is_new && details !== null ? { ...known, ...details } : known
  return email !== null && customer.email === null ? { ...customer, email } : customer
}

/** The subscription of a session whose customer was not known before. */
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

/** What is read before submissions are decided on. */
interface Facts {
  /** Locked. */
  readonly subscriptions: ReadonlyMap<string, SubscriptionRow>
  /** What is overdue, by customer ID. */
  readonly due: ReadonlyMap<string, ReadonlyArray<SubscriptionRow>>
  readonly methods: ReadonlyMap<string, AttachedMethod>
  readonly plans: ReadonlyMap<string, PlanRow>
  /** Payments that were begun on a session's page, by its ID. */
  readonly tries: ReadonlyMap<string, number>
}

const readFacts = Effect.fnUntraced(function* (tenant: Tenant, all: ReadonlyArray<Locked>) {
  const waits = yield* WaitForLocks
  // Where nobody is waited for, all that may be needed is had at once; else what is needed later is locked then.
  const needed = all.flatMap(({ session, concerned }) => (waits ? subscriptionRefs([session]) : concerned))
  const byId = new Map(needed.map((ref) => [ref.id, ref]))
  const planIds = all.flatMap(({ session }) => (session.subscription_id === null ? (session.plan_id ?? []) : []))
  const named = all.flatMap(({ known, claim: { submitted } }) =>
    known === undefined || submitted.methodId === null ? [] : [{ ...refOf(known), method: submitted.methodId }],
  )
  const onRail = all.filter(({ claim: { submitted, hostedBy } }) => submitted.methodId === null && hostedBy !== null)
  const billed = all.flatMap(({ known, isBilled }) => (known !== undefined && isBilled ? [refOf(known)] : []))
  const [rows, owing, methods, known, tries] = yield* Effect.all(
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
    due: Map.groupBy(owing, ({ customer_id }) => customer_id),
    methods,
    plans: known,
    tries,
  } satisfies Facts
})

/** What a submission comes to, of which nothing is written yet. */
const decide = Effect.fnUntraced(function* (locked: Locked, facts: Facts) {
  const { claim, session, known, now } = locked
  const { submitted, hostedBy } = claim
  const { subscription_id: waitingId, plan_id: planId } = session
  const waiting = waitingId === null ? undefined : facts.subscriptions.get(waitingId)
  const waits = yield* WaitForLocks
  if (waitingId !== null && waiting === undefined) return yield* waits ? noSuch("subscription", waitingId) : LOCKED
  const dueKobo = dueNow(session, waiting)
  const { charged } = useAtCheckout(known, facts.due.get(known?.id ?? "") ?? [], now)
  yield* checkShown(submitted.amountKobo, dueKobo + totalDue(charged))
  yield* checkCode(submitted, dueKobo)
  const customer = customerOf(locked)
  const { methodId } = submitted
  const attached = methodId === null ? undefined : facts.methods.get(methodKey(customer.id, methodId))
  const newMethod =
    methodId === null || attached !== undefined
      ? undefined
      : yield* newTestMethod(customer, methodId, "payment_method", submitted.simulated)
  // Where the buyer gives it on the rail's page, the rail takes something to save it.
  const verifiedBy = methodId === null && dueKobo === 0 ? hostedBy : null
  if (verifiedBy !== null && (facts.tries.get(session.id) ?? 0) >= MAX_ATTEMPTS) return yield* tooManyAttempts
  const plan = planId === null || waiting !== undefined ? undefined : facts.plans.get(planId)
  if (planId !== null && waiting === undefined && plan === undefined) return yield* noSuch("plan", planId)
  const made = plan === undefined ? undefined : subscriptionFor(session, plan, customer, now)
  const subscription = waiting ?? made?.row
  if (verifiedBy === null && (subscription?.bill?.attempt ?? 0) >= MAX_ATTEMPTS) return yield* tooManyAttempts
  // It completes at once, which changes the others, too.
  const completes = dueKobo === 0 && verifiedBy === null
  if (!waits && completes && locked.concerned.some(({ id }) => !facts.subscriptions.has(id))) return yield* LOCKED
  const notes: Notes = {
    customer_id: customer.id,
    customer_is_new: session.customer_is_new || known === undefined,
    payment_method_id: methodId,
    submission: submitted.number,
    ...(subscription === undefined ? {} : { subscription_id: subscription.id }),
  }
  return { ...locked, customer, newMethod, verifiedBy, made, subscription, notes }
})

type Decided = Effect.Success<ReturnType<typeof decide>>

/** Writes customers who are new or corrected, their new payment methods, and the subscriptions that wait for sessions from now on. */
const writeBuyers = Effect.fnUntraced(function* (all: ReadonlyArray<Decided>, nowOf: NowOf) {
  const unit = yield* unitOfWork
  const created = all.flatMap(({ known, customer }) => (known === undefined ? [customer] : []))
  const changed = all.flatMap(({ known, customer }) =>
    known === undefined || known === customer ? [] : [{ before: known, after: customer }],
  )
  unit.update(customers, changed)
  unit.insert(customers, created)
  attachMethods(
    unit,
    all.flatMap(({ customer, newMethod: method, now: at }) => (method === undefined ? [] : [{ customer, method, at }])),
  )
  const made = all.flatMap(({ made }): ReadonlyArray<SubscriptionTransition> => (made === undefined ? [] : [made]))
  const { outcomes } = yield* outcomesOf(made, { nowOf, terms: new Map() }, true)
  yield* commit(outcomes)
})

/** What checking out does to subscriptions, and the payments that it brings about; by subscription ID. */
const checkOut = Effect.fnUntraced(function* (all: ReadonlyArray<Decided>, nowOf: NowOf) {
  const its = all.flatMap(({ claim, subscription: row, verifiedBy, session, notes, now }) => {
    if (row === undefined || verifiedBy !== null) return []
    const methodId = notes.payment_method_id ?? null
    const hostedBy = methodId === null ? claim.hostedBy : null
    const page = { id: session.id, hostedBy, submission: notes.submission ?? null }
    return [{ row, page, event: { type: "check_out" as const, at: now, methodId } }]
  })
  return yield* outcomesOf(advance(subscriptionLifecycle, its), {
    nowOf,
    terms: yield* readTerms(its.map(({ row }) => refOf(row))),
    pages: new Map(its.map(({ row, page }) => [row.id, page])),
  })
})

/** The session's transition, with what was submitted noted. */
const sessionMoved = ({ session, now }: Decided, event: CheckoutEvent, notes: Notes) =>
  advance(checkoutLifecycle, [{ row: session, event }]).map((transition) => sessionOutcome(transition, notes, now))

/** Carries out submissions of different buyers, on sessions that are open and locked; for each what it comes to. */
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
  const begun = decided.map((one, at) => ({
    ...one,
    charge: verifications[at] ?? bySubscription.get(one.subscription?.id ?? null),
  }))
  const saving = verifications.filter((charge) => charge !== undefined)
  const moves = begun.flatMap((one) =>
    one.charge === undefined
      ? sessionMoved(one, { type: "complete", at: one.now }, one.notes)
      : sessionMoved(one, { type: "pay", at: one.now }, { ...one.notes, charge_id: one.charge.id }),
  )
  yield* commitAttempts(
    [...outcomes, ...saving.map((charge) => created(chargeLifecycle, undefined, charge)), ...moves],
    [...attempts, ...saving],
  )
  const following = yield* complete(
    begun.flatMap(({ charge, session, customer, notes, siblings, now }) => {
      if (charge !== undefined) return []
      const completed = { ...session, ...notes }
      const methodId = notes.payment_method_id ?? null
      const its = { customerId: customer.id, session: completed, methodId, siblings: siblings(completed) }
      return [{ ...its, submittedAt: now, now }]
    }),
  )
  const newest = new NewestRows()
  newest.note(moves)
  const results = begun.map(({ claim, session, charge, customer, now }): Completed => {
    const its = charge === undefined ? following.filter(({ customer_id }) => customer_id === customer.id) : [charge]
    const committed = newest.get(sessions, session.id) ?? session
    return { session: committed, charge, attempts: its, codes: codesFor(its, claim.submitted), now }
  })
  let place = 0
  return exits.map(Exit.map(() => results[place++]!))
})
