/** Renders the page behind a payment link. */

import { formatKobo } from "../../base/money.ts"
import type { ChargeRow } from "../../billing/charge/charge.ts"
import { paymentLinkPage } from "../../pages/paymentLink.ts"
import { messagePage } from "../../pages/says.ts"
import type { Halt, MessageView, Saves, Upcoming } from "../../pages/views.ts"
import { day, halt, paidBy, tooLate, upcoming } from "../../pages/words.ts"
import { amountsDue, totalDue } from "../payment_page/amountDue.ts"
import { type FormState, formOf } from "../payment_page/form.ts"
import { haltOf, upcomingOf } from "../payment_page/upcoming.ts"
import type { ReadLink } from "./read.ts"
import { consequencesOf, type LinkState } from "./status.ts"

const SAVED = "Your payment method is saved. It is used from now on."

/** Returns the further overdue bills that are charged to a saved method, if it becomes the default (decision E6). */
const alsoCharged = ({ linkState, use }: ReadLink) => (linkState.kind === "settled" ? use.charged : [])

/** Returns what a saved method is for: the link's subscription if that has its own method, else all later payments. */
const savesOf = ({ use, subscriptions: [own] }: ReadLink, planOf: (id: string) => string): Saves =>
  use.becomes === "own" ? { plan: planOf(own!.plan_id) } : "default"

/** Returns the remark above the form: a method was saved; or, on an older reminder, how the bill was paid since. */
const remarkOf = ({ nudge, linkState, latest, use }: ReadLink, saved: boolean): string | null => {
  if (saved && linkState.kind === "settled") {
    // Further bills that were charged to it, and declined.
    const declined = totalDue(use.charged)
    return declined === 0 ? SAVED : `${SAVED} ${formatKobo(declined)} that you owe is not paid with it.`
  }
  const staysHere = linkState.kind === "settled" && nudge.template !== "payment_due"
  return staysHere && latest?.status === "succeeded" ? `You paid ${paidBy(latest)}.` : null
}

const haltsOf = ({ subscriptions, plans }: ReadLink): ReadonlyArray<Halt> =>
  subscriptions.flatMap((row) => haltOf(row, plans.get(row.plan_id)!.name) ?? [])

/** Returns what happens next on the subscriptions that owe nothing. */
const upcomingIn = ({ subscriptions, plans }: ReadLink): ReadonlyArray<Upcoming> =>
  subscriptions.flatMap((row) => upcomingOf(row, plans.get(row.plan_id)!) ?? [])

/** Renders the page that takes a payment or, if nothing is due, a payment method. */
export const formPage = (read: ReadLink, path: string, state: FormState, saved: boolean): string => {
  const { nudge, context, customer, linkState, plans, subscriptions } = read
  const overdue = linkState.kind === "due" ? linkState.due : []
  const planOf = (id: string) => plans.get(id)?.name ?? "your plan"
  const amountKobo = linkState.kind === "due" ? linkState.totalKobo : 0
  const content = {
    amountKobo,
    purpose: amountKobo > 0 ? "pay" : "save",
    details: null,
    saved: read.saved,
    takesCards: context.simulated,
    asksEmail: !context.simulated && customer.email === null,
  } as const
  return paymentLinkPage({
    ...context,
    customerName: customer.name,
    about: nudge.subscription_id === null ? null : planOf(subscriptions[0]!.plan_id),
    owed: amountsDue(overdue, planOf),
    alsoCharged: amountsDue(alsoCharged(read), planOf),
    saves: savesOf(read, planOf),
    consequences: overdue
      .flatMap((row) => consequencesOf(row, customer, planOf(row.plan_id)))
      .toSorted((a, b) => a.at - b.at),
    halts: haltsOf(read),
    upcoming: linkState.kind === "settled" ? (upcomingIn(read)[0] ?? null) : null,
    remark: remarkOf(read, saved),
    form: formOf(path, content, state),
  })
}

type Over = Extract<LinkState, { readonly kind: "used" | "cancelled" | "expired" }>

/** Describes all payments that were made with a link, in one sentence. */
const paidInAll = (charges: ReadonlyArray<ChargeRow>, business: string): string => {
  const [first] = charges
  return charges.length === 1
    ? `You paid ${business} ${paidBy(first!)}.`
    : `You paid ${business} ${formatKobo(charges.reduce((sum, { amount_kobo }) => sum + amount_kobo, 0))} in ${charges.length} payments: ${charges.map(paidBy).join("; ")}.`
}

const overInWords = (linkState: Over, read: ReadLink): Pick<MessageView, "tone" | "title" | "paragraphs"> => {
  const { latest } = read
  const { business } = read.context
  switch (linkState.kind) {
    case "used":
      return {
        tone: "success",
        title: "Thank you: this is paid",
        paragraphs: [
          paidInAll(linkState.charges, business),
          ...haltsOf(read).map((one) => halt(one, business)),
          ...upcomingIn(read).map(upcoming),
          "Nothing is left to do. If something is owed again, the newest message has a link that takes it.",
        ],
      }
    case "cancelled": {
      // A payment that was in progress at the cancellation (decision E15).
      const late = latest === undefined ? null : tooLate(latest, business)
      return {
        tone: "info",
        title: "This subscription is cancelled",
        paragraphs: [
          `It was cancelled on ${day(linkState.at)}: nothing is owed on it any more.`,
          ...(late === null ? [] : [late]),
          `To begin again, contact ${business}.`,
        ],
      }
    }
    case "expired":
      return {
        tone: "warning",
        title: "This link has expired",
        paragraphs: [
          `It was good until ${day(linkState.at)}. Nothing was charged by opening it.`,
          `Use the link in the newest message, or ask ${business} for another one.`,
        ],
      }
  }
}

/** Renders the page of a link that accepts nothing any more. */
export const closedPage = (read: ReadLink): string =>
  messagePage({
    business: read.context.business,
    simulated: read.context.simulated,
    ...overInWords(read.linkState as Over, read),
    action: null,
    requestId: null,
  })
