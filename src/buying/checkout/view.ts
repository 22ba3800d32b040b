/** Reads and renders the page of a checkout session, as the session's own tenant. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { boundary } from "../../../machines/calendar.ts"
import { DAY_MS } from "../../base/time.ts"
import { charges } from "../../billing/charge/charge.ts"
import { customers } from "../../billing/customer/customer.ts"
import { plans } from "../../billing/plan/plan.ts"
import { subscriptions } from "../../billing/subscription/subscription.ts"
import { ofTenant } from "../../db/tenant.ts"
import { checkoutPage } from "../../pages/checkout.ts"
import { messagePage } from "../../pages/says.ts"
import type { MessageView, Offer, PageContext } from "../../pages/views.ts"
import { cameAfterAll, day, paidBy, tooLate, upcoming, verified } from "../../pages/words.ts"
import { amountsDue, readDue, totalDue } from "../payment_page/amountDue.ts"
import { contextOf } from "../payment_page/context.ts"
import { useAtCheckout } from "../payment_page/entered.ts"
import { type FormState, formOf } from "../payment_page/form.ts"
import { savedMethods } from "../payment_page/saved.ts"
import { upcomingOf } from "../payment_page/upcoming.ts"
import { CheckoutLinks } from "./CheckoutLinks.ts"
import type { SessionRow } from "./checkout.ts"
import { dueNow } from "./completeSubmission.ts"
import { successUrl } from "./urls.ts"

/** Reads the payment in progress, on this page or on another page of the customer for the same plan. */
const readPaying = Effect.fnUntraced(function* (session: SessionRow) {
  if (session.status !== "open") return undefined
  const sql = yield* SqlClient.SqlClient
  const [row] =
    session.state === "open.paying"
      ? [session]
      : yield* sql<Pick<SessionRow, "charge_id">>`
          SELECT charge_id FROM checkout_session
          WHERE ${ofTenant(sql, session)} AND customer_id = ${session.customer_id} AND plan_id = ${session.plan_id}
            AND state = 'open.paying' AND plan_id IS NOT NULL`
  return row === undefined ? undefined : yield* charges.get(session, row.charge_id!)
})

/** Reads what every request for a session's page needs. */
export const readBasics = Effect.fnUntraced(function* (session: SessionRow) {
  const context = yield* contextOf(session, session.test_clock_id)
  const isKnown = session.customer_id !== null && !session.customer_is_new
  const hasEmail = isKnown && (yield* customers.get(session, session.customer_id!)).email !== null
  const path = `/checkout/${(yield* CheckoutLinks).token(session)}`
  const charge =
    session.status === "expired" && session.charge_id !== null
      ? yield* charges.get(session, session.charge_id)
      : undefined
  return {
    session,
    context,
    isKnown,
    hasEmail,
    path,
    late: charge?.status === "pending" ? charge : undefined,
    paying: yield* readPaying(session),
  }
})

export type Basics = Effect.Success<ReturnType<typeof readBasics>>

/** Reads everything that the pages of a session show. */
export const readSession = Effect.fnUntraced(function* (basics: Basics) {
  const { session, isKnown } = basics
  const plan = session.plan_id === null ? undefined : yield* plans.get(session, session.plan_id)
  const customer = session.customer_id === null ? undefined : yield* customers.get(session, session.customer_id)
  const subscription =
    session.subscription_id === null ? undefined : yield* subscriptions.get(session, session.subscription_id)
  const charge = session.charge_id === null ? undefined : yield* charges.get(session, session.charge_id)
  const saved = isKnown && session.status === "open" ? yield* savedMethods(customer!, basics.context.now) : []
  const overdue = customer !== undefined && session.status === "open" ? yield* readDue([customer]) : []
  const use = useAtCheckout(customer, overdue, basics.context.now)
  const overduePlans = yield* plans.find(
    session,
    use.charged.map(({ plan_id }) => plan_id),
  )
  return { ...basics, plan, customer, subscription, charge, saved, use, overduePlans }
})

export type ReadSession = Effect.Success<ReturnType<typeof readSession>>

const offerOf = ({ session, plan, subscription, context: { now } }: ReadSession): Offer | null => {
  if (plan === undefined) return null
  const trialMs = (session.trial_days ?? 0) * DAY_MS
  const trialEndsAt = trialMs === 0 ? null : now + trialMs
  const cycle = plan.billing_cycle
  const isEnding = subscription?.cancel_at_period_end ?? false
  return {
    plan: plan.name,
    description: plan.description,
    cycle,
    priceKobo: session.price_kobo!,
    quantity: subscription?.quantity ?? session.quantity!,
    // Units of the last period are billed when it ends (decision E34); those of a trial are free.
    unitKobo: cycle === "per_delivery" || (isEnding && trialEndsAt !== null) ? null : plan.overage_per_unit_kobo,
    startsAt: now,
    trialEndsAt,
    isEnding,
    nextChargeAt: trialEndsAt ?? (cycle === "per_delivery" ? null : boundary(cycle, now, 1)),
  }
}

/** Renders the page that takes the payment. */
export const formPage = (read: ReadSession, state: FormState = {}): string => {
  const { session, context, subscription, saved, isKnown, customer, path } = read
  const { becomes, charged } = read.use
  const dueKobo = dueNow(session, subscription)
  const prefilled = { name: customer?.name ?? "", email: customer?.email ?? "", phone: customer?.phone ?? "" }
  const content = {
    amountKobo: dueKobo + totalDue(charged),
    purpose: dueKobo > 0 ? "pay" : session.mode === "setup" ? "save" : "start_trial",
    details: isKnown ? null : prefilled,
    saved,
    takesCards: context.simulated,
    asksEmail: !context.simulated && isKnown && customer!.email === null,
  } as const
  return checkoutPage({
    ...context,
    offer: offerOf(read),
    saves: becomes === "default" ? "default" : "beside",
    customerName: isKnown ? customer!.name : null,
    expiresAt: session.expires_at,
    cancelUrl: session.cancel_url,
    dueKobo,
    alsoCharged: amountsDue(charged, (id) => read.overduePlans.get(id)?.name ?? "another plan"),
    form: formOf(path, content, state),
  })
}

/** Renders the page of a session that is over. */
export const overPage = (read: ReadSession): string => {
  const { session, context, charge, plan, subscription } = read
  const message = (
    tone: MessageView["tone"],
    title: string,
    paragraphs: ReadonlyArray<string>,
    action: MessageView["action"],
  ) => messagePage({ ...base(context), tone, title, paragraphs, action, requestId: null })
  const back = { label: `Go back to ${context.business}`, href: session.cancel_url }
  if (session.status === "completed") {
    const isSale = charge?.purpose === "sale"
    const paid = isSale && charge.status === "succeeded" ? `You paid ${paidBy(charge)}.` : undefined
    const check = charge === undefined || isSale ? null : verified(charge)
    const next = subscription === undefined || plan === undefined ? undefined : upcomingOf(subscription, plan)
    const done = session.mode === "setup" ? "Your payment method is saved" : "You are subscribed already"
    return message(
      "success",
      paid === undefined ? done : "This is paid already",
      [
        paid ?? `This was completed on ${day(session.completed_at!)}.`,
        ...(check === null ? [] : [check]),
        "Nothing more is charged on this page.",
        ...(next === undefined ? [] : [upcoming(next)]),
      ],
      { label: `Continue to ${context.business}`, href: successUrl(session.success_url, session.id) },
    )
  }
  if (session.replaced_by !== null)
    return message(
      "info",
      "You are subscribed already",
      [
        "You opened this checkout more than once and completed another one, so this one is closed. Nothing was charged here.",
      ],
      back,
    )
  const [title, ...paragraphs] = expiredInWords(read)
  return message("warning", title, paragraphs, back)
}

/** Explains an expired session, and the result of a payment that was in progress (decision E15). */
const expiredInWords = ({
  session,
  charge,
  context: { business },
}: ReadSession): readonly [string, ...Array<string>] => {
  const until = `It was open until ${day(session.expires_at)} at the latest.`
  const again = `To go on, begin again at ${business}.`
  const late = charge === undefined ? null : tooLate(charge, business)
  if (late !== null)
    return [
      charge!.refund_due || cameAfterAll(charge!) ? "Your payment came too late" : "This checkout has expired",
      until,
      late,
    ]
  return ["This checkout has expired", `${until} Nothing was charged.`, again]
}

const base = ({ business, simulated }: PageContext) => ({ business, simulated })
