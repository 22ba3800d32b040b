/** The buyer's page of an instalment plan (decision L8): its progress, the next payment, and how to cancel. */
import { Effect } from "effect"
import { isSaving, PENDING_MS } from "../../../machines/instalment.ts"
import { dueKobo, type Instalment, missedKobo, nextOf } from "../../../machines/instalment_schedule.ts"
import { formatKobo } from "../../base/money.ts"
import { Problem } from "../../base/problem.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { tenantOf } from "../../db/tenant.ts"
import { page, refusedPage, seeOther, wantsJson } from "../../http/page.ts"
import { publicRoute } from "../../http/publicRoutes.ts"
import { cancelInstalmentsPage, instalmentPlanPage } from "../../pages/instalments.ts"
import { messagePage } from "../../pages/says.ts"
import type { InstalmentView } from "../../pages/views.ts"
import { day, tooLate } from "../../pages/words.ts"
import { answer, readFields } from "../payment_page/fields.ts"
import { depositedKobo, type InstalmentPlanRow, instalmentPlans, refundKobo, renderInstalmentPlan } from "./plan.ts"
import { cancelPlan } from "./plans.ts"
import { type ReadPlan, readPlan } from "./read.ts"

/** Returns the deadline of the first payment; null: none is awaited, or it is in progress (decision L5). */
export const beginBy = ({ status, created_at, paying_charge_id }: InstalmentPlanRow, now: number): number | null =>
  status === "pending" && paying_charge_id === null && now < created_at + PENDING_MS ? created_at + PENDING_MS : null

/** Explains a cancellation that was not requested. */
const reasonOf = (plan: InstalmentPlanRow): string =>
  depositedKobo(plan) === 0 && plan.cancelled_at === plan.created_at + PENDING_MS
    ? ", as no first payment had been made within a day"
    : ""

/** Renders the page of a cancelled plan. */
export const cancelledDocument = (read: ReadPlan): string => {
  const { plan, context, charge } = read
  const { business, simulated } = context
  const late = charge === undefined ? null : tooLate(charge, business)
  const back = refundKobo(plan)
  const paid = depositedKobo(plan)
  return messagePage({
    business,
    simulated,
    tone: "info",
    title: "This plan is cancelled",
    paragraphs: [
      `Your plan for ${plan.product_name} was cancelled on ${day(plan.cancelled_at!)}${reasonOf(plan)}.`,
      ...(paid > 0 ? [`You had paid ${formatKobo(paid)}, of which ${formatKobo(back)} is owed back to you.`] : []),
      ...(late === null ? [] : [late]),
      `If you have a question about it, contact ${business}.`,
    ],
    action: null,
    requestId: null,
  })
}

const NEXT: Readonly<Record<"completed" | "shipped" | "delivered", (business: string) => string>> = {
  completed: (business) => `${business} gets it ready for you now.`,
  shipped: () => "It is on its way to you.",
  delivered: () => "It was delivered.",
}

/** Renders the page of a fully paid plan. */
export const completedDocument = ({ plan, context: { business, simulated } }: ReadPlan): string => {
  const { status, refund_window_ends_at: until } = plan
  return messagePage({
    business,
    simulated,
    tone: "success",
    title: `${plan.product_name} is yours`,
    paragraphs: [
      `You have paid all of ${formatKobo(plan.target_kobo)}. Well done.`,
      NEXT[status as keyof typeof NEXT](business),
      ...(until === null ? [] : [`You can bring it back until ${day(until)}: contact ${business} about that.`]),
    ],
    action: null,
    requestId: null,
  })
}

const shownStatus = ({ status }: Instalment): InstalmentView["schedule"][number]["status"] =>
  status === "paid_early" ? "paid" : status

const viewOf = (read: ReadPlan, justPaid: boolean): InstalmentView => {
  const { plan, customer, context, path, charge } = read
  const savings = instalmentPlans.contextOf(plan)
  const next = nextOf(savings)
  const isFlexible = plan.mode === "flexible"
  return {
    ...context,
    goods: plan.product_name,
    customerName: customer.name,
    status: plan.status,
    paidKobo: plan.paid_kobo,
    targetKobo: plan.target_kobo,
    missedKobo: missedKobo(savings),
    feeKobo: plan.pending_fee_kobo,
    dueKobo: isFlexible && missedKobo(savings) === 0 ? null : dueKobo(plan.mode, savings),
    dueAt: isFlexible ? plan.deadline_at : (next?.dueAt ?? plan.deadline_at),
    deadlineAt: plan.deadline_at,
    beginBy: beginBy(plan, context.now),
    schedule: isFlexible
      ? []
      : plan.instalments.map((one, n) => ({
          index: n + 1,
          dueAt: one.dueAt,
          amountKobo: one.amountKobo,
          status: shownStatus(one),
          isNext: n === next?.index,
        })),
    paidNowKobo: justPaid && charge?.status === "succeeded" ? charge.amount_kobo : null,
    isPaying: plan.paying_charge_id !== null,
    payPath: `${path}/pay`,
    cancelPath: `${path}/cancel`,
  }
}

/** Renders the present page of a plan. */
const planDocument = (read: ReadPlan, justPaid: boolean): { readonly status: number; readonly document: string } => {
  const { plan } = read
  if (plan.status === "cancelled") return { status: 410, document: cancelledDocument(read) }
  if (!isSaving(plan.state)) return { status: 200, document: completedDocument(read) }
  return { status: 200, document: instalmentPlanPage(viewOf(read, justPaid)) }
}

const cancelDocument = (read: ReadPlan, hasChanged = false): string => {
  const { plan, context, path } = read
  return cancelInstalmentsPage({
    ...context,
    goods: plan.product_name,
    paidKobo: depositedKobo(plan),
    feeKobo: Math.min(plan.pending_fee_kobo, depositedKobo(plan)),
    refundKobo: refundKobo(plan),
    isPaying: plan.paying_charge_id !== null,
    hasChanged,
    // The refund that the buyer confirms: if it changes, the page asks again.
    action: `${path}/cancel?back=${refundKobo(plan)}`,
    backPath: path,
  })
}

const options = { refused: refusedPage }

export const instalmentPageRoutes = [
  publicRoute(
    "/save/:token",
    /^\/save\/([^/]+)$/,
    {
      GET: Effect.fnUntraced(function* ({ parts: [token], search, headers }) {
        const read = yield* readPlan(token!)
        if (wantsJson(headers)) return answer(renderInstalmentPlan(read.plan))
        const { status, document } = planDocument(read, search.has("paid"))
        return page(status, document)
      }),
    },
    options,
  ),
  publicRoute(
    "/save/:token/cancel",
    /^\/save\/([^/]+)\/cancel$/,
    {
      GET: Effect.fnUntraced(function* ({ parts: [token] }) {
        const read = yield* readPlan(token!)
        return isSaving(read.plan.state) ? page(200, cancelDocument(read)) : seeOther(read.path)
      }),
      POST: Effect.fnUntraced(function* (request) {
        const token = request.parts[0]!
        // Refuses a form from another site.
        yield* readFields(request)
        const { plan, path } = yield* readPlan(token)
        const { writing } = yield* TenantDatabase
        const cancelling = writing(tenantOf(plan), cancelPlan(token, request.search.get("back")))
        // A repeated request shows the cancelled plan.
        if (plan.status === "cancelled") return seeOther(path)
        return yield* Effect.catchIf(
          Effect.as(cancelling, seeOther(path)),
          (error) => error instanceof Problem && error.code === "amount_changed",
          () => Effect.map(readPlan(token), (latest) => page(422, cancelDocument(latest, true))),
        )
      }),
    },
    options,
  ),
]
