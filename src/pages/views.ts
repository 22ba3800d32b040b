/** The views of the pages that buyers see: plain data. Each page is a pure function of its view. */
import type { BillingCycle } from "../../machines/calendar.ts"
import type { EscalationAction } from "../../machines/dunning.ts"
import type { PaymentMethodSummary } from "../rails/rail/PaymentRail.ts"

/** What every page needs: its merchant, its environment and its clock. */
export interface PageContext {
  readonly business: string
  /** Payments are simulated: a banner says so, and test cards are offered. */
  readonly simulated: boolean
  /** Now in the customer's clock (ms since the epoch). */
  readonly now: number
  /** The customer has a test clock: nothing counts down. */
  readonly onTestClock: boolean
}

/** A payment method that a buyer may choose. */
export interface SavedMethod extends PaymentMethodSummary {
  /** When the newest payment with it was declined; null: it was not. */
  readonly declinedAt: number | null
}

/** The fields of the form, by the names that it posts (decision G8). */
export const FORM_FIELDS = [
  "name",
  "email",
  "phone",
  "payment_method",
  "card_number",
  "card_expiry",
  "card_cvc",
  "otp",
  "amount",
] as const
export type FormField = (typeof FORM_FIELDS)[number]

/** What is wrong with a field, in words for the buyer. */
export interface FieldError {
  readonly field: FormField
  readonly message: string
}

/** The buyer's own details, as typed so far. */
export interface TypedDetails {
  readonly name: string
  readonly email: string
  readonly phone: string
}

/** How much a buyer may pay: the field is in naira, the rest in kobo. */
export interface AmountChoice {
  /** The content of the field. */
  readonly value: string
  readonly leastKobo: number
  readonly mostKobo: number
  /** The amount already paid when the page was made; posted as `seen`. */
  readonly seenKobo: number
}

export interface PaymentForm {
  /** Where it posts to: a path such as `/checkout/…/complete`. */
  readonly action: string
  /** The submission number, by which a form that is sent twice is recognised; posted as `submission`. */
  readonly submission: string
  /** The amount that the buyer is shown (kobo), 0 if a payment method is only saved; posted as `amount`. */
  readonly amountKobo: number
  /** The purpose, apart from other overdue bills. */
  readonly purpose: "pay" | "start_trial" | "save"
  /** For buyers who choose the amount; null: they pay the amount shown. */
  readonly chooses: AmountChoice | null
  /** null: the customer exists already. */
  readonly details: TypedDetails | null
  /** The e-mail address of an existing customer, if the rail needs one; null: it is not asked for. */
  readonly email: string | null
  /** Payment methods to choose from besides a new one; `chosen` is one of them. */
  readonly saved: ReadonlyArray<SavedMethod>
  /** The ID of the selected method; null: a new card. */
  readonly chosen: string | null
  /** The chosen method needs a one-time code, and the form asks for nothing else. */
  readonly asksOtp: boolean
  /** Whether the form takes cards; if not, the rail's own page does. */
  readonly takesCards: boolean
  readonly errors: ReadonlyArray<FieldError>
  /** The result of the last try, such as a declined card. */
  readonly refusal: string | null
}

/** What is bought. All amounts in kobo. */
export interface Offer {
  readonly plan: string
  readonly description: string | null
  readonly cycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  /** The price of a reported unit, on top; null: nothing. */
  readonly unitKobo: number | null
  /** When the first period, or the trial, begins. */
  readonly startsAt: number
  /** null: no trial. */
  readonly trialEndsAt: number | null
  /** The next charge after today's; null: it has no calendar. */
  readonly nextChargeAt: number | null
  /** It ends at `nextChargeAt` without another charge, as requested. */
  readonly isEnding: boolean
}

/** What is charged to a saved payment method: all later payments, one plan's, or nothing while there is another method. */
export type Saves = "default" | "beside" | { readonly plan: string }

/** `offer` null: only a payment method is saved. */
export interface CheckoutView extends PageContext {
  readonly offer: Offer | null
  readonly saves: Saves
  readonly customerName: string | null
  readonly expiresAt: number
  readonly cancelUrl: string
  /** The price of the purchase (kobo). The form's amount is this and all that is `alsoCharged`. */
  readonly dueKobo: number
  /** Overdue bills of other plans, which are charged to the payment method as well. */
  readonly alsoCharged: ReadonlyArray<Owed>
  readonly form: PaymentForm
}

/** One overdue bill. */
export interface Owed {
  readonly plan: string
  readonly amountKobo: number
  /** When the payment failed first. */
  readonly since: number
}

/** What happens if the buyer does nothing, in order of time. */
export interface Consequence {
  readonly at: number
  readonly what: "retry" | "pause" | "restrict" | "hold" | "cancel"
  readonly plan: string
}

/** A subscription that is not served in full. */
export interface Halt {
  readonly plan: string
  readonly what: Exclude<EscalationAction, "none">
  readonly since: number
  /** What ends it: paying the debt, or time (`at` null: the merchant, on request). */
  readonly ends: "by_paying" | { readonly at: number | null }
}

/** What happens next on a subscription that owes nothing. */
export type Upcoming = { readonly plan: string } /** `at` null: with the next delivery. */ & (
  | { readonly what: "charge"; readonly at: number | null }
  /** It ends then, or with the next delivery. `billsUnits`: units used until then are charged then. */
  | { readonly what: "end"; readonly at: number | null; readonly billsUnits: boolean }
  | { readonly what: "cancelled"; readonly at: number }
)

/** `owed` empty: nothing is owed, and a payment method can be saved. */
export interface PaymentLinkView extends PageContext {
  readonly customerName: string
  /** The plan that the link is about; null: all of the customer's plans. */
  readonly about: string | null
  readonly owed: ReadonlyArray<Owed>
  /** Overdue bills of other plans, which are charged to a saved method. */
  readonly alsoCharged: ReadonlyArray<Owed>
  readonly consequences: ReadonlyArray<Consequence>
  readonly halts: ReadonlyArray<Halt>
  /** If nothing is owed: what happens next. */
  readonly upcoming: Upcoming | null
  readonly saves: Saves
  /** A remark above the form, such as that the bill was paid in another way; null: none. */
  readonly remark: string | null
  readonly form: PaymentForm
}

/** One instalment of a schedule. */
export interface InstalmentShown {
  readonly index: number
  readonly dueAt: number
  readonly amountKobo: number
  readonly status: "scheduled" | "paid" | "missed"
  /** The one to pay next. */
  readonly isNext: boolean
}

/** A buyer's instalment plan that is not paid up or cancelled. All amounts in kobo. */
export interface InstalmentView extends PageContext {
  /** The product. */
  readonly goods: string
  readonly customerName: string
  readonly status: string
  readonly paidKobo: number
  readonly targetKobo: number
  readonly missedKobo: number
  /** Unpaid late fees. */
  readonly feeKobo: number
  /** The next payment, fees included; null: any amount. */
  readonly dueKobo: number | null
  readonly dueAt: number
  readonly deadlineAt: number
  /** The deadline of the first payment; null: it is made. */
  readonly beginBy: number | null
  /** Empty: the plan has no schedule. */
  readonly schedule: ReadonlyArray<InstalmentShown>
  /** The payment that the buyer has just made; null: none. */
  readonly paidNowKobo: number | null
  /** A payment is in progress. */
  readonly isPaying: boolean
  readonly payPath: string
  readonly cancelPath: string
}

export interface InstalmentPaymentView extends PageContext {
  readonly goods: string
  readonly customerName: string
  readonly paidKobo: number
  readonly targetKobo: number
  /** Unpaid late fees. */
  readonly feeKobo: number
  /** The deadline of the first payment; null: it is made. */
  readonly beginBy: number | null
  /** The amount due now, in words. */
  readonly due: string
  readonly backPath: string
  readonly form: PaymentForm
}

/** Asks the buyer to confirm a cancellation. */
export interface CancelInstalmentsView extends PageContext {
  readonly goods: string
  readonly paidKobo: number
  /** The part of it that the merchant keeps. */
  readonly feeKobo: number
  /** The part that the buyer gets back. */
  readonly refundKobo: number
  /** The refund has changed since the buyer confirmed it. */
  readonly hasChanged: boolean
  readonly isPaying: boolean
  readonly action: string
  readonly backPath: string
}

/** A payment whose result is not known yet: the page polls for it. */
export interface PendingView extends PageContext {
  readonly amountKobo: number
  /** null: the buyer chooses one on the rail's page. */
  readonly method: PaymentMethodSummary | null
  /** The rail's own page, if the buyer can still pay there; null: nothing is left to do. */
  readonly goOn: string | null
  /** The received amount if it differs from the requested one; null: it does not. `amountKobo` null: the rail names no amount. */
  readonly received: { readonly amountKobo: number | null; readonly currency: string } | null
  readonly since: number
  /** The path that returns the result: with `Accept: application/json`, `data.status` and `data.redirect_url`. */
  readonly returnPath: string
}

/** A page with only a message: finished, expired, cancelled, in error. */
export interface MessageView {
  /** null: the merchant is unknown. */
  readonly business: string | null
  readonly simulated: boolean
  readonly tone: "success" | "info" | "warning" | "error"
  readonly title: string
  readonly paragraphs: ReadonlyArray<string>
  readonly action: { readonly label: string; readonly href: string } | null
  /** Of an error: the number that support asks for. */
  readonly requestId: string | null
}

export interface StartView {
  readonly origin: string
  /** In development only. */
  readonly demoKey: string | null
}
