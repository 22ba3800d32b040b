/**
 * What happens when a buyer submits a checkout page (decisions G2, G3, G8). One transaction claims the session and commits the
 * charge; the rail is called after it; what the rail says comes back in through the charge's owner (owner.ts). Others who
 * submit meanwhile wait for the outcome, and are told of it.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { CheckoutEvent } from "../../machines/checkout.ts"
import { type ChargeRow, charges } from "../charge/charge.ts"
import { standingTime } from "../clock/clocks.ts"
import type { Codes } from "../collecting/collect.ts"
import { Payments } from "../collecting/Payments.ts"
import { type CustomerRow, customers } from "../customer/customer.ts"
import { retryingDeadlocks } from "../db/deadlock.ts"
import { sent } from "../db/pipelining.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { refOf, type Tenant, tenantOf } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { checkCode, checkShown, codesFor, MAX_ATTEMPTS, tooManyAttempts } from "../paying/checks.ts"
import { countTries, methodOf, verify, withEmail } from "../paying/hosted.ts"
import { pageWaitingLimit, waitForCharge } from "../paying/settled.ts"
import type { Details, Submission } from "../paying/submission.ts"
import { plans } from "../plan/plan.ts"
import { noSuch } from "../problem.ts"
import type { OutsideRail } from "../rail/Rail.ts"
import { commit } from "../runtime/commit.ts"
import { advance } from "../runtime/lifecycle.ts"
import { hashOf } from "../secret/linkTokens.ts"
import { newSubscription } from "../subscription/create.ts"
import { move, outcomesOf } from "../subscription/move.ts"
import { type SubscriptionRow, subscriptions } from "../subscription/subscription.ts"
import { readTerms } from "../subscription/terms.ts"
import { sameForAll } from "../time.ts"
import { checkoutLifecycle, type SessionRow, sessions } from "./checkout.ts"
import { closeSessions } from "./closing.ts"
import { complete, lockSessions, siblingsOf } from "./completion.ts"
import { type Notes, sessionOutcome } from "./outcome.ts"

/** What the first transaction of a submission finds or makes. */
type Begun =
  /** The session is over, or this very form was decided before. */
  | { readonly kind: "over"; readonly again: boolean }
  /** A payment is under way. `own`: it is what this very form was submitted for. */
  | { readonly kind: "under_way"; readonly chargeId: string; readonly own: boolean }
  /** The customer was made by another submission this instant. */
  | { readonly kind: "once_more" }
  | {
      readonly kind: "begun"
      /** The payment on the page, where something is due. */
      readonly chargeId?: string
      readonly attempts: ReadonlyArray<ChargeRow>
      readonly codes: Codes
      readonly now: number
    }

/** How a submission ended. */
export interface Completed {
  readonly session: SessionRow
  /** The newest payment on the page, where there is one. */
  readonly charge: ChargeRow | undefined
  /** Whether this submission made it so, or repeats the one that did. */
  readonly own: boolean
  /** Somebody else's payment, which has been under way for as long as anybody waits. */
  readonly busyWith?: ChargeRow
}

/** What is charged when the page is submitted (kobo). */
export const dueNow = (session: SessionRow, subscription: SubscriptionRow | undefined): number =>
  session.plan_id === null ||
  (subscription === undefined ? session.trial_days! > 0 : subscription.trial_end_at !== null)
    ? 0
    : session.price_kobo! * (subscription?.quantity ?? session.quantity!)

const createCustomer = Effect.fnUntraced(function* (tenant: Tenant, details: Details, now: number) {
  const customer: CustomerRow = {
    ...tenantOf(tenant),
    id: newId("customer"),
    ...details,
    default_payment_method_id: null,
    test_clock_id: null,
    metadata: {},
    created_at: now,
  }
  yield* sent(customers.inserting(yield* SqlClient.SqlClient, [customer]))
  return customer
})

/** The customer of the session: as it is, made from the details, or corrected by them where the page made it. */
const customerFor = Effect.fnUntraced(function* (
  session: SessionRow,
  known: CustomerRow | undefined,
  details: Details | null,
  now: number,
) {
  if (known === undefined) return yield* createCustomer(session, details!, now)
  if (!session.customer_is_new || details === null) return known
  const corrected = { ...known, ...details }
  yield* sent(customers.updating(yield* SqlClient.SqlClient, [{ before: known, after: corrected }]))
  return corrected
})

/** The subscription that waits for a session whose customer was not known before. */
const makeSubscription = Effect.fnUntraced(function* (session: SessionRow, customer: CustomerRow, now: number) {
  const plan = yield* plans.get(session, session.plan_id!)
  const transition = newSubscription({
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
  const { outcomes } = yield* outcomesOf([transition], { nowOf: sameForAll(now), terms: new Map() }, true)
  yield* commit(outcomes)
  return transition.row
})

/** The session's transition, with what was submitted noted. */
const sessionMoved = (row: SessionRow, event: CheckoutEvent, notes: Notes, now: number) =>
  advance(checkoutLifecycle, [{ row, event }]).map((transition) => sessionOutcome(transition, notes, now))

interface Claimed {
  readonly session: SessionRow
  readonly known: CustomerRow | undefined
  readonly siblings: (session: SessionRow) => ReadonlyArray<SessionRow>
  readonly submitted: Submission
  readonly hostedBy: OutsideRail | null
  readonly now: number
}

/** Carries out what was submitted, on a session that is open and locked. */
const carryOut = Effect.fnUntraced(function* ({ session, known, siblings, submitted, hostedBy, now }: Claimed) {
  const waiting =
    session.subscription_id === null ? undefined : yield* subscriptions.lockOne(session, session.subscription_id)
  const dueKobo = dueNow(session, waiting)
  yield* checkShown(submitted.amountKobo, dueKobo)
  yield* checkCode(submitted, dueKobo)
  const customer = yield* withEmail(yield* customerFor(session, known, submitted.details, now), submitted.email)
  const methodId = yield* methodOf(customer, submitted, now)
  // Where the buyer gives it on the rail's page, the rail takes something to save it.
  const verifiedBy = methodId === null && dueKobo === 0 ? hostedBy : null
  const noted: Notes = {
    customer_id: customer.id,
    customer_is_new: session.customer_is_new || known === undefined,
    payment_method_id: methodId,
    submission: submitted.submission === null ? null : hashOf(submitted.submission),
  }
  const done = Effect.fnUntraced(function* (notes: Notes) {
    const completed = { ...session, ...notes }
    yield* commit(sessionMoved(session, { type: "complete", at: now }, notes, now))
    const its = { customerId: customer.id, session: completed, methodId, siblings: siblings(completed), now }
    const attempts = yield* complete([its])
    return { attempts, codes: codesFor(attempts, submitted) }
  })
  const pays = Effect.fnUntraced(function* (charge: ChargeRow, notes: Notes) {
    yield* commit(sessionMoved(session, { type: "pay", at: now }, { ...notes, charge_id: charge.id }, now))
    return { chargeId: charge.id, attempts: [charge], codes: codesFor([charge], submitted) }
  })
  const verifies = Effect.fnUntraced(function* (rail: OutsideRail, notes: Notes) {
    if ((yield* countTries(session)) >= MAX_ATTEMPTS) return yield* tooManyAttempts
    const charge = yield* verify({ customer, rail, pageId: session.id, submission: noted.submission ?? null, now })
    return yield* pays(charge, notes)
  })
  if (session.mode === "setup") return yield* verifiedBy === null ? done(noted) : verifies(verifiedBy, noted)

  const subscription = waiting ?? (yield* makeSubscription(session, customer, now))
  const notes: Notes = { ...noted, subscription_id: subscription.id }
  if (verifiedBy !== null) return yield* verifies(verifiedBy, notes)
  if ((subscription.bill?.attempt ?? 0) >= MAX_ATTEMPTS) return yield* tooManyAttempts
  const [charge] = yield* move([{ row: subscription, event: { type: "check_out", at: now, methodId } }], {
    nowOf: sameForAll(now),
    terms: yield* readTerms([refOf(subscription)]),
    pages: new Map([
      [
        subscription.id,
        { id: session.id, hostedBy: methodId === null ? hostedBy : null, submission: noted.submission ?? null },
      ],
    ]),
  })
  return yield* charge === undefined ? done(notes) : pays(charge, notes)
})

/** The first transaction: claims the session, and commits what is to be attempted. */
const begin = Effect.fnUntraced(function* (found: SessionRow, submitted: Submission, hostedBy: OutsideRail | null) {
  const now = yield* standingTime(found, found.test_clock_id)
  const known =
    found.customer_id === null ? undefined : yield* customers.lockOne(found, found.customer_id, "NO KEY UPDATE")
  const locked = yield* lockSessions([found])
  const session = locked.get(found.id)
  // Deleted with its clock, or with its sandbox.
  if (session === undefined) return yield* noSuch("checkout session", found.id)
  if (session.customer_id !== found.customer_id) return { kind: "once_more" } satisfies Begun
  const again = submitted.submission !== null && session.submission === hashOf(submitted.submission)
  if (session.status === "open" && session.expires_at <= now)
    yield* closeSessions([{ row: session, event: { type: "expire", at: session.expires_at } }], sameForAll(now))
  if (session.status !== "open" || session.expires_at <= now) return { kind: "over", again } satisfies Begun
  const siblings = (of: SessionRow) => siblingsOf(of, locked.values())
  const paying = [session, ...siblings(session)].find(({ state }) => state === "open.paying")
  if (paying !== undefined) {
    const own = again && paying.id === session.id
    return { kind: "under_way", chargeId: paying.charge_id!, own } satisfies Begun
  }
  if (again) return { kind: "over", again } satisfies Begun
  const begun = yield* carryOut({ session, known, siblings, submitted, hostedBy, now })
  return { kind: "begun", ...begun, now } satisfies Begun
})

/** The session as it is now, with the payment that is asked about, or its newest one. */
const readCompleted = Effect.fnUntraced(function* (tenant: Tenant, id: string, chargeId?: string) {
  const session = yield* sessions.get(tenant, id)
  const wanted = chargeId ?? session.charge_id
  const charge = wanted === null ? undefined : yield* charges.get(tenant, wanted)
  return { session, charge }
})

/** Submits the page of a session as it was found; returns how that ended, as far as it is known. */
export const submitCheckout = Effect.fn("checkout.submit")(function* (
  found: SessionRow,
  submitted: Submission,
  hostedBy: OutsideRail | null,
) {
  const { reading, writing } = yield* TenantDatabase
  const tenant = tenantOf(found)
  const limit = pageWaitingLimit()
  const read = (chargeId?: string) => reading(tenant, readCompleted(tenant, found.id, chargeId))
  for (let latest = found; ; latest = yield* reading(tenant, sessions.get(tenant, found.id))) {
    const begun: Begun = yield* retryingDeadlocks(writing(tenant, begin(latest, submitted, hostedBy)))
    if (begun.kind === "over") return { ...(yield* read()), own: begun.again } satisfies Completed
    if (begun.kind === "begun") {
      yield* (yield* Payments).collect(begun.attempts, begun.now, begun.codes)
      if (begun.chargeId === undefined) return { ...(yield* read()), own: true } satisfies Completed
      const charge = yield* waitForCharge(tenant, begun.chargeId, limit)
      const session = yield* reading(tenant, sessions.get(tenant, found.id))
      return { session, charge, own: true } satisfies Completed
    }
    if (begun.kind === "once_more") continue
    const charge = yield* waitForCharge(tenant, begun.chargeId, limit)
    if (begun.own) return { ...(yield* read(begun.chargeId)), own: true } satisfies Completed
    if (charge.status === "pending") return { ...(yield* read()), own: false, busyWith: charge } satisfies Completed
  }
})
