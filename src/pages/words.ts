/** What pages say to buyers, in plain English. Amounts in kobo, instants in milliseconds; days are Nigeria's. */
import type { BillingCycle } from "../../machines/calendar.ts"
import { formatKobo } from "../money.ts"
import type { PaymentMethodSummary } from "../rail/PaymentRail.ts"
import { DAY_MS } from "../time.ts"
import type { Consequence, Offer } from "./views.ts"

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

/** How often, such as "every 3 months". */
export const every = (cycle: BillingCycle): string => EVERY[cycle]

/** Such as "₦5,000.00", or "2 × ₦5,000.00" of more than one. */
export const price = ({ priceKobo, quantity }: Pick<Offer, "priceKobo" | "quantity">): string =>
  quantity === 1 ? formatKobo(priceKobo) : `${quantity} × ${formatKobo(priceKobo)}`

const counted = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

/** What an offer costs and from when, in a sentence or two. */
export const terms = (offer: Offer): string => {
  const often = `${price(offer)} ${every(offer.cycle)}`
  if (offer.trialEndsAt === null) return `${often}, from ${day(offer.startsAt)}`
  const length = counted(Math.round((offer.trialEndsAt - offer.startsAt) / DAY_MS), "day")
  return `Free until ${day(offer.trialEndsAt)} (${length}). Then ${often}.`
}

/** What reported units cost on top, such as "plus ₦50.00 for each unit used". */
export const units = (unitKobo: number): string => `plus ${formatKobo(unitKobo)} for each unit used`

/** What is charged later, without anybody doing anything. */
const later = ({ cycle, trialEndsAt, nextChargeAt }: Offer): string => {
  const often = every(cycle)
  if (trialEndsAt === null)
    return nextChargeAt === null
      ? `You are charged again ${often}, until it is cancelled.`
      : `It renews by itself on ${day(nextChargeAt)} and ${often} after that, until it is cancelled.`
  const first =
    nextChargeAt === null ? `${often} after ${day(trialEndsAt)}` : `on ${day(nextChargeAt)} and ${often} after that`
  return `Nothing is charged today. You are charged ${first}, until it is cancelled.`
}

/** How it goes on, and how it ends. */
export const renewal = (business: string, offer: Offer): string =>
  `${later(offer)} To cancel, contact ${business}: nothing more is charged then, and what was paid is not refunded by itself.`

/** What happens to a payment method that is only saved. */
export const saving = (business: string): string =>
  `Nothing is charged now. Later payments to ${business} are charged to this payment method, until you ask ${business} to remove it.`

/** What happens to a payment method that pays what is owed. */
export const kept = (business: string): string =>
  `The payment method that you pay with is kept for your later payments to ${business}.`

/** Card schemes show that many characters of a merchant's name. */
const STATEMENT_CHARACTERS = 22

/** What the bank will call the payment. */
export const statement = (business: string): string =>
  `Your statement will show ${Array.from(business.toUpperCase()).slice(0, STATEMENT_CHARACTERS).join("").trim()}.`

const BRANDS: Readonly<Record<string, string>> = { visa: "Visa", mastercard: "Mastercard", verve: "Verve" }

/** Such as "Visa •••• 4242", "Test Bank •••• 6789" or "USSD, Test Bank". */
export const paymentMethod = ({ type, brand, last4, bank_name }: PaymentMethodSummary): string => {
  if (type === "ussd") return bank_name === null ? "USSD" : `USSD, ${bank_name}`
  const name = type === "card" ? (BRANDS[brand ?? ""] ?? brand ?? "Card") : (bank_name ?? "Bank account")
  return last4 === null ? name : `${name} •••• ${last4}`
}

/** Until when a card is good, such as "expires 12/2034"; null where it says nothing of it. */
export const expiry = ({ exp_month, exp_year }: PaymentMethodSummary): string | null =>
  exp_month === null || exp_year === null ? null : `expires ${String(exp_month).padStart(2, "0")}/${exp_year}`

/** What happens by itself where nothing is done. */
export const consequence = ({ what, plan }: Consequence): string =>
  ({
    retry: "We try your saved payment method again",
    pause: `${plan} is paused`,
    restrict: `Access to ${plan} is restricted`,
    hold: `Deliveries of ${plan} are held`,
    cancel: `${plan} is cancelled`,
  })[what]
