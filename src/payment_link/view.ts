/** What the page behind a payment link shows. Pure. */

import type { ChargeRow } from "../charge/charge.ts"
import { formatKobo } from "../money.ts"
import { paymentLinkPage } from "../pages/paymentLink.ts"
import { messagePage, pendingPage } from "../pages/says.ts"
import { day, paymentMethod } from "../pages/words.ts"
import { type FormState, formOf } from "../paying/form.ts"
import type { ReadLink } from "./read.ts"
import { consequencesOf, type Standing } from "./standing.ts"

const paidInWords = ({ amount_kobo, paid_at, payment_method }: ChargeRow): string =>
  `${formatKobo(amount_kobo)} on ${day(paid_at!)}${payment_method === null ? "" : ` with ${paymentMethod(payment_method)}`}`

/** The page that takes a payment, or, where nothing is owed, a payment method. */
export const formPage = (read: ReadLink, path: string, state: FormState = {}, remark?: string): string => {
  const { setting, customer, standing, plans, saved, latest } = read
  const owing = standing.kind === "owing" ? standing.owing : []
  const planOf = (id: string) => plans.get(id)?.name ?? "your plan"
  const amountKobo = standing.kind === "owing" ? standing.totalKobo : 0
  // Reminders of something owed are opened after it was paid by a retry, or by another page.
  const settled =
    amountKobo === 0 && read.nudge.template !== "payment_due" && latest?.status === "succeeded"
      ? `You paid ${paidInWords(latest)}.`
      : null
  return paymentLinkPage({
    ...setting,
    customerName: customer.name,
    owed: owing.map(({ plan_id, bill, dunning }) => ({
      plan: planOf(plan_id),
      amountKobo: bill!.amountKobo,
      since: dunning!.firstFailedAt,
    })),
    consequences: owing.flatMap((row) => consequencesOf(row, planOf(row.plan_id))).toSorted((a, b) => a.at - b.at),
    remark: remark ?? settled,
    form: formOf(
      path,
      {
        amountKobo,
        purpose: amountKobo > 0 ? "pay" : "save",
        details: null,
        saved,
        takesCards: setting.simulated,
      },
      state,
    ),
  })
}

/** The page of a payment whose outcome is not known yet. */
export const waitingPage = ({ setting }: ReadLink, path: string, charge: ChargeRow): string =>
  pendingPage({
    ...setting,
    amountKobo: charge.amount_kobo,
    method: charge.payment_method!,
    since: charge.created_at,
    returnPath: `${path}/return`,
  })

const WORDS = {
  used: (standing: Extract<Standing, { readonly kind: "used" }>, business: string) => ({
    tone: "success" as const,
    title: "Thank you: this is paid",
    paragraphs: [
      `You paid ${business} ${paidInWords(standing.charge)}.`,
      "Nothing is left to do. If something is owed again, the newest message has a link of its own.",
    ],
  }),
  cancelled: (
    standing: Extract<Standing, { readonly kind: "cancelled" }>,
    business: string,
    latest: ChargeRow | undefined,
  ) => ({
    tone: "info" as const,
    title: "This subscription is cancelled",
    paragraphs: [
      // A payment that was under way then (decision E15).
      ...(latest?.refund_due === true
        ? [`Your payment of ${formatKobo(latest.amount_kobo)} arrived after that, and is owed back to you.`]
        : []),
      `It was cancelled on ${day(standing.at)}: nothing is owed on it, and nothing is charged any more.`,
      `To begin again, contact ${business}.`,
    ],
  }),
  expired: (standing: Extract<Standing, { readonly kind: "expired" }>, business: string) => ({
    tone: "warning" as const,
    title: "This link has expired",
    paragraphs: [
      `It was good until ${day(standing.at)}. Nothing was charged by opening it.`,
      `Use the link in the newest message, or ask ${business} for another one.`,
    ],
  }),
}

/** The page of a link that takes nothing any more; undefined where it does. */
export const closedPage = ({ setting, standing, latest }: ReadLink): string | undefined => {
  const { business, simulated } = setting
  const said =
    standing.kind === "used"
      ? WORDS.used(standing, business)
      : standing.kind === "cancelled"
        ? WORDS.cancelled(standing, business, latest)
        : standing.kind === "expired"
          ? WORDS.expired(standing, business)
          : undefined
  return said === undefined ? undefined : messagePage({ business, simulated, ...said, action: null, requestId: null })
}
