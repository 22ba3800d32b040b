/** What the pages that buyers see are made from: plain data. Each page is a pure function of its view. */
import type { BillingCycle } from "../../machines/calendar.ts"
import type { EscalationAction } from "../../machines/dunning.ts"
import type { PaymentMethodSummary } from "../rails/rail/PaymentRail.ts"

/** Whose page it is, and in which world. */
export interface Setting {
  readonly business: string
  /** Payments are simulated: a banner says so, and test cards are offered. */
  readonly simulated: boolean
  /** Now in the customer's clock (ms since the epoch). */
  readonly now: number
  /** The customer's time stands still: nothing counts down. */
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

/** The buyer's own details, as they were typed so far. */
export interface TypedDetails {
  readonly name: string
  readonly email: string
  readonly phone: string
}

/** How much a buyer may pay: the field is in naira, the rest in kobo. */
export interface AmountChoice {
  /** What is in the field. */
  readonly value: string
  readonly leastKobo: number
  readonly mostKobo: number
  /** What had been paid when the page was made; posted as `seen`. */
  readonly seenKobo: number
}

export interface PaymentForm {
  /** Where it posts to: a path such as `/checkout/…/complete`. */
  readonly action: string
  /** Numbers this page, so that one that is sent twice is known by it; posted as `submission`. */
  readonly submission: string
  /** What the buyer is shown to pay now (kobo), 0 where a payment method is only saved; posted as `amount`. */
  readonly amountKobo: number
  /** What it is for, apart from what is overdue elsewhere. */
  readonly purpose: "pay" | "start_trial" | "save"
  /** Where buyers choose how much they pay; null: what they are shown. */
  readonly chooses: AmountChoice | null
  /** null: the customer is known. */
  readonly details: TypedDetails | null
  /** The e-mail address of a known customer, asked for where the rail needs one; null: it is not asked for. */
  readonly email: string | null
  /** Payment methods to choose from beside a new one, `chosen` among them. */
  readonly saved: ReadonlyArray<SavedMethod>
  /** The ID of the one that is ticked; null: a new card. */
  readonly chosen: string | null
  /** The chosen method wants a one-time code: that is the one field asked for. */
  readonly asksOtp: boolean
  /** Whether it takes cards here; where it does not, the rail's own page does. */
  readonly takesCards: boolean
  readonly errors: ReadonlyArray<FieldError>
  /** What became of the last try, such as a declined card. */
  readonly refusal: string | null
}

/** What is bought. All amounts in kobo. */
export interface Offer {
  readonly plan: string
  readonly description: string | null
  readonly cycle: BillingCycle
  readonly priceKobo: number
  readonly quantity: number
  /** What a reported unit costs on top; null: nothing. */
  readonly unitKobo: number | null
  /** When the first period, or the trial, begins. */
  readonly startsAt: number
  /** null: no trial. */
  readonly trialEndsAt: number | null
  /** When it is charged next after what is paid now; null where that has no calendar. */
  readonly nextChargeAt: number | null
  /** It ends by then, without another charge: it was asked to. */
  readonly isEnding: boolean
}

/** What is charged to a payment method that is saved: all that comes, the plan's payments, or nothing while there is another. */
export type Saves = "default" | "beside" | { readonly plan: string }

/** `offer` null: only a payment method is saved. */
export interface CheckoutView extends Setting {
  readonly offer: Offer | null
  readonly saves: Saves
  readonly customerName: string | null
  readonly expiresAt: number
  readonly cancelUrl: string
  /** What is paid for what is bought (kobo). The form's amount is that and all that is `alsoCharged`. */
  readonly dueKobo: number
  /** What the customer owes for other plans, which is charged to the payment method as well. */
  readonly alsoCharged: ReadonlyArray<Owed>
  readonly form: PaymentForm
}

/** One bill that is owed. */
export interface Owed {
  readonly plan: string
  readonly amountKobo: number
  /** When payment first failed. */
  readonly since: number
}

/** What happens by itself if nothing is done, in order of time. */
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
  /** What ends it: paying what is owed, or time (`at` null: the merchant, when it is asked). */
  readonly ends: "by_paying" | { readonly at: number | null }
}

/** What comes next of a subscription that owes nothing. */
export type Upcoming = { readonly plan: string } /** `at` null: with the next delivery. */ & (
  | { readonly what: "charge"; readonly at: number | null }
  /** It ends by then, or with the next delivery. `billsUnits`: what is used until then is charged then. */
  | { readonly what: "end"; readonly at: number | null; readonly billsUnits: boolean }
  | { readonly what: "cancelled"; readonly at: number }
)

/** `owed` empty: nothing is, and a payment method can be saved. */
export interface PaymentLinkView extends Setting {
  readonly customerName: string
  /** The plan that the link is about; null: all of the customer's. */
  readonly about: string | null
  readonly owed: ReadonlyArray<Owed>
  /** What the customer owes for other plans, which is charged to a method that is saved. */
  readonly alsoCharged: ReadonlyArray<Owed>
  readonly consequences: ReadonlyArray<Consequence>
  readonly halts: ReadonlyArray<Halt>
  /** Where nothing is owed: what comes next. */
  readonly upcoming: Upcoming | null
  readonly saves: Saves
  /** What was said in its place, such as that it was paid otherwise; null: nothing. */
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

/** A buyer's instalment plan that goes on. All amounts in kobo. */
export interface InstalmentView extends Setting {
  /** What is bought. */
  readonly goods: string
  readonly customerName: string
  readonly status: string
  readonly paidKobo: number
  readonly targetKobo: number
  readonly missedKobo: number
  /** Late fees that are not paid. */
  readonly feeKobo: number
  /** What is to be paid next, fees included; null: as much as the buyer likes. */
  readonly dueKobo: number | null
  readonly dueAt: number
  readonly deadlineAt: number
  /** By when the first payment is to be made; null: it was. */
  readonly beginBy: number | null
  /** Empty: there is none. */
  readonly schedule: ReadonlyArray<InstalmentShown>
  /** What the buyer has just paid; null: nothing. */
  readonly paidNowKobo: number | null
  /** A payment is under way. */
  readonly isPaying: boolean
  readonly payPath: string
  readonly cancelPath: string
}

export interface InstalmentPaymentView extends Setting {
  readonly goods: string
  readonly customerName: string
  readonly paidKobo: number
  readonly targetKobo: number
  /** Late fees that are not paid. */
  readonly feeKobo: number
  /** By when the first payment is to be made; null: it was. */
  readonly beginBy: number | null
  /** What is due now, in words. */
  readonly due: string
  readonly backPath: string
  readonly form: PaymentForm
}

/** Asks whether a plan is to be cancelled. */
export interface CancelInstalmentsView extends Setting {
  readonly goods: string
  readonly paidKobo: number
  /** What is kept of that. */
  readonly feeKobo: number
  /** What goes back. */
  readonly refundKobo: number
  /** It is not what it was when the buyer confirmed it. */
  readonly hasChanged: boolean
  readonly isPaying: boolean
  readonly action: string
  readonly backPath: string
}

/** A payment whose outcome is not known yet: the page looks again by itself. */
export interface PendingView extends Setting {
  readonly amountKobo: number
  /** null: whatever the buyer chooses on the rail's page. */
  readonly method: PaymentMethodSummary | null
  /** The rail's own page, on which the buyer may go on to pay; null: there is nothing left to do. */
  readonly goOn: string | null
  /** What the payment company received in place of that; null: nothing that differs. An amount that it does not name is null. */
  readonly received: { readonly amountKobo: number | null; readonly currency: string } | null
  readonly since: number
  /** The path that says what became of it: with `Accept: application/json`, `data.status` and `data.redirect_url`. */
  readonly returnPath: string
}

/** A page that only says something: finished, expired, cancelled, in error. */
export interface MessageView {
  /** null: nobody knows whose it is. */
  readonly business: string | null
  readonly simulated: boolean
  readonly tone: "success" | "info" | "warning" | "error"
  readonly title: string
  readonly paragraphs: ReadonlyArray<string>
  readonly action: { readonly label: string; readonly href: string } | null
  /** Of an error: what support asks for. */
  readonly requestId: string | null
}

export interface StartView {
  readonly origin: string
  /** In development only. */
  readonly demoKey: string | null
}
