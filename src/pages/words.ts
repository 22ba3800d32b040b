/** Builds the sentences for buyers, in plain English. Amounts in kobo, instants in milliseconds; days are Nigeria's. */
import type { BillingCycle } from "../../machines/calendar.ts"
import { formatKobo } from "../base/money.ts"
import { DAY_MS } from "../base/time.ts"
import type { PaymentMethodSummary } from "../rails/rail/PaymentRail.ts"
import type { Consequence, Halt, Offer, Owed, Saves, Upcoming } from "./views.ts"

const LAGOS = { timeZone: "Africa/Lagos" } as const
const days = new Intl.DateTimeFormat("en-GB", { ...LAGOS, day: "numeric", month: "long", year: "numeric" })
const hours = new Intl.DateTimeFormat("en-GB", { ...LAGOS, hour: "2-digit", minute: "2-digit", hourCycle: "h23" })

/** Such as "3 March 2027". */
export const day = (at: number): string => days.format(at)

/** Such as "3 March 2027, 10:00". */
export const dayAndHour = (at: number): string => `${day(at)}, ${hours.format(at)}`

const EVERY: Readonly<Record<BillingCycle, string>> = {
  daily: "every day",
  weekly: "every week",
  monthly: "every month",
  quarterly: "every 3 months",
  per_delivery: "for each delivery",
}

/** Returns how often, such as "every 3 months". */
export const every = (cycle: BillingCycle): string => EVERY[cycle]

/** Such as "₦5,000.00", or "2 × ₦5,000.00" of more than one. */
export const price = ({ priceKobo, quantity }: Pick<Offer, "priceKobo" | "quantity">): string =>
  quantity === 1 ? formatKobo(priceKobo) : `${quantity} × ${formatKobo(priceKobo)}`

const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

/** Describes the price and the start of an offer, in a sentence or two. */
export const terms = (offer: Offer): string => {
  const often = `${price(offer)} ${every(offer.cycle)}`
  if (offer.trialEndsAt === null && offer.isEnding)
    return `${price(offer)}, from ${day(offer.startsAt)}${offer.nextChargeAt === null ? "" : ` to ${day(offer.nextChargeAt)}`}`
  if (offer.trialEndsAt === null) return `${often}, from ${day(offer.startsAt)}`
  const length = counted(Math.round((offer.trialEndsAt - offer.startsAt) / DAY_MS), "day")
  const free = `Free until ${day(offer.trialEndsAt)} (${length}).`
  return offer.isEnding ? free : `${free} Then ${often}.`
}

/** Describes the price of reported units, such as "plus ₦50.00 for each unit used". */
export const units = (unitKobo: number): string => `plus ${formatKobo(unitKobo)} for each unit used`

/** Describes what is charged later without an action of the buyer. */
const later = ({ cycle, trialEndsAt, nextChargeAt, isEnding, unitKobo }: Offer): string => {
  const often = every(cycle)
  if (isEnding) {
    const when = nextChargeAt === null ? "" : ` on ${day(nextChargeAt)}`
    return unitKobo === null
      ? `It ends automatically${when}, and nothing more is charged.`
      : `It ends automatically${when}: only what you have used by then is still charged.`
  }
  if (trialEndsAt === null)
    return nextChargeAt === null
      ? `You are charged again ${often}, until it is cancelled.`
      : `It renews automatically on ${day(nextChargeAt)} and ${often} after that, until it is cancelled.`
  const first =
    nextChargeAt === null ? `${often} after ${day(trialEndsAt)}` : `on ${day(nextChargeAt)} and ${often} after that`
  return `Nothing is charged for it today. You are charged ${first}, until it is cancelled.`
}

/** Describes how a subscription renews, and how it ends. */
export const renewal = (business: string, offer: Offer): string =>
  `${later(offer)} To cancel, contact ${business}: nothing more is charged then, and what was paid is not refunded automatically.`

/** Describes the use of a payment method that is only saved. `chargesNow`: something is charged now, if only to check it (decision P8). */
export const saving = (business: string, chargesNow: boolean, saves: Saves): string => {
  const until = `until you ask ${business} to remove it.`
  const use =
    saves === "beside"
      ? `It is kept beside the payment method that ${business} charges now: ask ${business} to have it charged instead.`
      : saves === "default"
        ? `Later payments to ${business} are charged to this payment method, ${until}`
        : `Later payments for ${saves.plan} are charged to this payment method, ${until}`
  return `${chargesNow ? "" : "Nothing is charged now. "}${use}`
}

/** Describes the later use of a payment method that pays a bill. */
export const kept = (business: string): string =>
  `The payment method that you pay with is kept for your later payments to ${business}.`

const BRANDS: Readonly<Record<string, string>> = { visa: "Visa", mastercard: "Mastercard", verve: "Verve" }

/** Such as "Visa •••• 4242", "Test Bank •••• 6789" or "USSD, Test Bank". */
export const paymentMethod = ({ type, brand, last4, bank_name }: PaymentMethodSummary): string => {
  if (type === "ussd") return bank_name === null ? "USSD" : `USSD, ${bank_name}`
  const name = type === "card" ? (BRANDS[brand ?? ""] ?? brand ?? "Card") : (bank_name ?? "Bank account")
  return last4 === null ? name : `${name} •••• ${last4}`
}

/** Returns until when a card is valid, such as "expires 12/2034"; null if it has no date. */
export const expiry = ({ exp_month, exp_year }: PaymentMethodSummary): string | null =>
  exp_month === null || exp_year === null ? null : `expires ${String(exp_month).padStart(2, "0")}/${exp_year}`

/** Returns when a payment method was declined, such as "declined on 3 March 2027"; null: it was not. */
export const declinedOn = (at: number | null): string | null => (at === null ? null : `declined on ${day(at)}`)

/** Describes what was paid, when and how, such as "₦5,000.00 on 3 March 2027 with Visa •••• 4242". */
export const paidBy = (charge: {
  readonly amount_kobo: number
  readonly paid_at: number | null
  readonly payment_method: PaymentMethodSummary | null
}): string => {
  const { amount_kobo, paid_at, payment_method } = charge
  const when = paid_at === null ? "" : ` on ${day(paid_at)}`
  return `${formatKobo(amount_kobo)}${when}${payment_method === null ? "" : ` with ${paymentMethod(payment_method)}`}`
}

interface Taken {
  readonly amount_kobo: number
  readonly status: string
  readonly purpose: string
  readonly refund_due: boolean
  readonly contradictions: ReadonlyArray<{ readonly answer: string }>
}

/** Whether a payment succeeded after it was declined (decision P10). */
export const cameAfterAll = ({ status, contradictions }: Pick<Taken, "status" | "contradictions">): boolean =>
  status === "failed" && contradictions.some(({ answer }) => answer === "succeeded")

/** Describes the result of a verification charge (decision P8); null: it failed. */
export const verified = (charge: Pick<Taken, "amount_kobo" | "status" | "contradictions">): string | null => {
  const amount = formatKobo(charge.amount_kobo)
  if (charge.status === "pending")
    return `A payment of ${amount}, to check your payment method, was still under way: if your bank makes it after all, it is sent back to you.`
  return charge.status === "succeeded" || cameAfterAll(charge)
    ? `${amount} was taken to check your payment method, and is sent back to you.`
    : null
}

/** Describes a payment that was in progress when its purpose ended (decision E15); null: it failed. */
export const tooLate = (charge: Taken, business: string): string | null => {
  if (charge.purpose === "verification") return verified(charge)
  const amount = formatKobo(charge.amount_kobo)
  if (charge.status === "pending")
    return `Your payment of ${amount} was still under way: if your bank makes it after all, it is owed back to you.`
  return charge.refund_due || cameAfterAll(charge)
    ? `Your payment of ${amount} arrived after that, and is owed back to you: contact ${business} about it.`
    : null
}

const list = (names: ReadonlyArray<string>): string =>
  names.length < 2 ? names.join("") : `${names.slice(0, -1).join(", ")} and ${names.at(-1)}`

/** Says that other overdue bills are charged to the payment method as well. */
export const alsoCharged = (owed: ReadonlyArray<Owed>): string => {
  const total = owed.reduce((sum, { amountKobo }) => sum + amountKobo, 0)
  return `${formatKobo(total)} that you owe for ${list(owed.map(({ plan }) => plan))} is charged to this payment method now as well.`
}

const HALTED: Readonly<Record<Halt["what"], (plan: string) => readonly [halted: string, paying: string]>> = {
  pause: (plan) => [`${plan} has been paused`, "Paying resumes it."],
  restrict: (plan) => [`Access to ${plan} has been restricted`, "Paying restores it."],
  hold: (plan) => [`Deliveries of ${plan} have been held`, "Paying starts them again."],
}

/** Says why a subscription is not served in full, since when, and what ends that. */
export const halt = ({ what, plan, since, ends }: Halt, business: string): string => {
  const [halted, paying] = HALTED[what](plan)
  const sentence = `${halted} since ${day(since)}`
  if (ends === "by_paying") return `${sentence}. ${paying}`
  return ends.at === null
    ? `${sentence}: to resume it, contact ${business}.`
    : `${sentence}, and resumes on ${day(ends.at)}.`
}

/** Says when a subscription is charged next, or how it ends. */
export const upcoming = (next: Upcoming): string => {
  const { plan, what, at } = next
  if (what === "cancelled") return `${plan} was cancelled on ${day(at)}: nothing more is charged for it.`
  const when = at === null ? "with your next delivery" : `on ${day(at)}`
  if (what === "charge") return `The next charge for ${plan} comes ${when}.`
  return next.billsUnits
    ? `${plan} ends ${when}: only what you have used by then is still charged.`
    : `${plan} ends ${when}, and nothing more is charged for it.`
}

/** Describes what happens if the buyer does nothing. */
export const consequence = ({ what, plan }: Consequence): string =>
  ({
    retry: "We try your saved payment method again",
    pause: `${plan} is paused`,
    restrict: `Access to ${plan} is restricted`,
    hold: `Deliveries of ${plan} are held`,
    cancel: `${plan} is cancelled`,
  })[what]
