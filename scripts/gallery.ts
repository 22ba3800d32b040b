/** All hosted pages in all their states, with invented data: for the screenshots and for tests of pages. */

import { type Problem, problem } from "../src/base/problem.ts"
import { DAY_MS, HOUR_MS } from "../src/base/time.ts"
import { type Declined, declineInWords } from "../src/buying/payment_page/declines.ts"
import { noSuchPage } from "../src/buying/payment_page/routes.ts"
import { errorCodesPage } from "../src/http/documentation.ts"
import { refusedPage } from "../src/http/page.ts"
import { checkoutPage } from "../src/pages/checkout.ts"
import { cancelInstalmentsPage, instalmentPaymentPage, instalmentPlanPage } from "../src/pages/instalments.ts"
import { paymentLinkPage } from "../src/pages/paymentLink.ts"
import { messagePage, pendingPage } from "../src/pages/says.ts"
import { startPage } from "../src/pages/start.ts"
import type {
  CancelInstalmentsView,
  CheckoutView,
  Halt,
  InstalmentPaymentView,
  InstalmentView,
  MessageView,
  Offer,
  PaymentForm,
  PaymentLinkView,
  PendingView,
  SavedMethod,
  Upcoming,
} from "../src/pages/views.ts"
import { tooLate, upcoming } from "../src/pages/words.ts"

/** 10:00 in Lagos. */
const NOW = Date.UTC(2027, 2, 3, 9)
const SHOP = { business: "Mama Chidi Kitchen", simulated: true, now: NOW, onTestClock: false }

const VISA: SavedMethod = {
  id: "pm_01m7yyp0a6e08v7r97jkyz1pj0",
  type: "card",
  brand: "visa",
  last4: "4242",
  bank_name: null,
  exp_month: 12,
  exp_year: 2034,
  declinedAt: null,
}
const BANK: SavedMethod = {
  id: "pm_01m7yyp0a6e08v7r97jkyz1pj1",
  type: "bank_account",
  brand: null,
  last4: "6789",
  bank_name: "Test Bank",
  exp_month: null,
  exp_year: null,
  declinedAt: null,
}

const FORM: PaymentForm = {
  action: "/checkout/7Jx0m4Qe/complete",
  submission: "01m7yyp0a6e08v7r97jkyz1pj2",
  amountKobo: 500_000,
  purpose: "pay",
  chooses: null,
  details: null,
  email: null,
  saved: [],
  chosen: null,
  asksOtp: false,
  takesCards: true,
  errors: [],
  refusal: null,
}

const MONTHLY: Offer = {
  plan: "Lunch box",
  description: "A cooked lunch on every working day, brought to your office.",
  cycle: "monthly",
  priceKobo: 500_000,
  quantity: 1,
  unitKobo: null,
  startsAt: NOW,
  trialEndsAt: null,
  nextChargeAt: Date.UTC(2027, 3, 3, 9),
  isEnding: false,
}

const CHECKOUT: CheckoutView = {
  ...SHOP,
  offer: MONTHLY,
  saves: "default",
  customerName: "Ada Obi",
  expiresAt: NOW + DAY_MS,
  cancelUrl: "https://chidi.example/plans",
  dueKobo: FORM.amountKobo,
  alsoCharged: [],
  form: FORM,
}

const checkout = (
  form: Partial<PaymentForm> = {},
  offer: Partial<Offer> | null = {},
  rest: Partial<CheckoutView> = {},
): string => {
  const { amountKobo: dueKobo = FORM.amountKobo } = form
  const { alsoCharged = [] } = rest
  const amountKobo = alsoCharged.reduce((sum, owed) => sum + owed.amountKobo, dueKobo)
  return checkoutPage({
    ...CHECKOUT,
    ...rest,
    offer: offer === null ? null : { ...MONTHLY, ...offer },
    dueKobo,
    form: { ...FORM, ...form, amountKobo },
  })
}

const EMPTY_DETAILS = { name: "", email: "", phone: "" }
const TRIAL: Partial<Offer> = { trialEndsAt: NOW + 14 * DAY_MS, nextChargeAt: NOW + 14 * DAY_MS }
const DELIVERY: Partial<Offer> = {
  plan: "Gas refill",
  description: "A 12.5 kg cylinder, brought when you run low.",
  cycle: "per_delivery",
  unitKobo: 5_000,
  nextChargeAt: null,
}
const SAVING: Partial<PaymentForm> = { purpose: "save", amountKobo: 0 }

const NO_METHOD = "This payment method is no longer there: choose another."

const LINK: PaymentLinkView = {
  ...SHOP,
  customerName: "Ada Obi",
  about: "Lunch box",
  saves: "default",
  alsoCharged: [],
  owed: [{ plan: "Lunch box", amountKobo: 500_000, since: NOW - 4 * DAY_MS }],
  consequences: [
    { at: NOW + DAY_MS, what: "retry", plan: "Lunch box" },
    { at: NOW + 3 * DAY_MS, what: "restrict", plan: "Lunch box" },
    { at: NOW + 10 * DAY_MS, what: "cancel", plan: "Lunch box" },
  ],
  halts: [],
  upcoming: null,
  remark: null,
  form: {
    ...FORM,
    action: "/pay/7Jx0m4Qe/complete",
    saved: [BANK, { ...VISA, declinedAt: NOW - 4 * DAY_MS }],
  },
}

const TWO_BILLS: Partial<PaymentLinkView> = {
  owed: [...LINK.owed, { plan: "Gas refill", amountKobo: 1_250_000, since: NOW - DAY_MS }],
  consequences: [
    ...LINK.consequences,
    { at: NOW + 12 * DAY_MS, what: "hold", plan: "Gas refill" },
    { at: NOW + 20 * DAY_MS, what: "pause", plan: "Gas refill" },
  ],
  form: { ...LINK.form, amountKobo: 1_750_000 },
}
const RENEWS: Upcoming = { plan: "Lunch box", what: "charge", at: Date.UTC(2027, 3, 2, 9) }
const NOTHING_OWED: Partial<PaymentLinkView> = {
  owed: [],
  consequences: [],
  upcoming: RENEWS,
  form: { ...LINK.form, ...SAVING },
}
const PAUSED: Halt = { plan: "Lunch box", what: "pause", since: NOW - DAY_MS, ends: "by_paying" }
/** The errors of a form that was sent without a card. */
const NO_CARD: Partial<PaymentForm> = {
  errors: [
    { field: "card_number", message: "Enter the card number." },
    { field: "card_expiry", message: "Enter the expiry date." },
    { field: "card_cvc", message: "Enter the security code." },
  ],
}

const link = (rest: Partial<PaymentLinkView> = {}): string => paymentLinkPage({ ...LINK, ...rest })

const PENDING_PATH = "/checkout/7Jx0m4Qe/return"
/** The address that a pending page polls; the gallery's server answers it. */
export const LOOK_PATH = `${PENDING_PATH}?look`

const PENDING: PendingView = {
  ...SHOP,
  amountKobo: 500_000,
  method: BANK,
  goOn: null,
  received: null,
  since: NOW - HOUR_MS,
  returnPath: PENDING_PATH,
}

const message = (rest: Partial<MessageView> & Pick<MessageView, "title" | "tone">): string =>
  messagePage({ business: SHOP.business, simulated: true, paragraphs: [], action: null, requestId: null, ...rest })

const DECLINED: Declined = { code: "insufficient_funds", paidKobo: 0, pendingKobo: 0, failedKobo: 500_000 }

/** The page for a refused request. */
const refused = (refusal: Problem, path: string): string =>
  Buffer.from(refusedPage({ refusal, requestId: REQUEST_ID, headers: { accept: "text/html" }, path })!.body).toString()

const BACK = { label: "Go back to Mama Chidi Kitchen", href: "https://chidi.example/" }
const REQUEST_ID = "req_01m7yyp0a6e08v7r97jkyz1pj0"

/** Payments continue on the rail's own page. */
const HOSTED: Partial<PaymentForm> = { takesCards: false }
const LIVE = { simulated: false }

const SAVING_FOR: InstalmentView = {
  ...SHOP,
  goods: "Chest freezer",
  customerName: "Ada Obi",
  status: "active",
  paidKobo: 16_000_000,
  targetKobo: 24_000_000,
  missedKobo: 0,
  feeKobo: 0,
  dueKobo: 8_000_000,
  dueAt: Date.UTC(2027, 2, 31, 9),
  deadlineAt: Date.UTC(2027, 3, 30, 9),
  beginBy: null,
  schedule: [
    { index: 1, dueAt: Date.UTC(2027, 0, 31, 9), amountKobo: 8_000_000, status: "paid", isNext: false },
    { index: 2, dueAt: Date.UTC(2027, 1, 28, 9), amountKobo: 8_000_000, status: "paid", isNext: false },
    { index: 3, dueAt: Date.UTC(2027, 2, 31, 9), amountKobo: 8_000_000, status: "scheduled", isNext: true },
  ],
  paidNowKobo: null,
  isPaying: false,
  payPath: "/save/7Jx0m4Qe/pay",
  cancelPath: "/save/7Jx0m4Qe/cancel",
}
const savings = (over: Partial<InstalmentView> = {}): string => instalmentPlanPage({ ...SAVING_FOR, ...over })
const LATE = SAVING_FOR.schedule.map((one) =>
  one.index === 2 ? { ...one, status: "missed" as const, isNext: true } : { ...one, isNext: false },
)
const SAVINGS_FORM: PaymentForm = {
  ...FORM,
  action: "/save/7Jx0m4Qe/pay/complete",
  amountKobo: 8_000_000,
  chooses: { value: "80000", leastKobo: 8_000_000, mostKobo: 16_000_000, seenKobo: 8_000_000 },
}
const savingsPayment = (form: Partial<PaymentForm> = {}, over: Partial<InstalmentPaymentView> = {}): string =>
  instalmentPaymentPage({
    ...SHOP,
    goods: "Chest freezer",
    customerName: "Ada Obi",
    paidKobo: 8_000_000,
    targetKobo: 24_000_000,
    feeKobo: 0,
    beginBy: null,
    due: "₦80,000.00 is due on 31 March 2027. You can pay more, up to the rest.",
    backPath: "/save/7Jx0m4Qe",
    ...over,
    form: { ...SAVINGS_FORM, ...form },
  })
const savingsCancel = (over: Partial<CancelInstalmentsView> = {}): string =>
  cancelInstalmentsPage({
    ...SHOP,
    goods: "Chest freezer",
    paidKobo: 16_000_000,
    feeKobo: 0,
    refundKobo: 16_000_000,
    hasChanged: false,
    isPaying: false,
    action: "/save/7Jx0m4Qe/cancel",
    backPath: "/save/7Jx0m4Qe",
    ...over,
  })

/** All pages, by the state that they show. */
export const gallery = (): ReadonlyMap<string, string> =>
  new Map([
    ["checkout-monthly", checkout()],
    ["checkout-live", checkout(HOSTED, {}, LIVE)],
    [
      "checkout-live-trial",
      checkout({ ...HOSTED, purpose: "start_trial", amountKobo: 0, details: EMPTY_DETAILS }, TRIAL, LIVE),
    ],
    ["checkout-live-saved", checkout({ ...HOSTED, saved: [VISA], chosen: VISA.id }, {}, LIVE)],
    ["link-live-email", link({ ...NOTHING_OWED, ...LIVE, form: { ...LINK.form, ...SAVING, ...HOSTED, email: "" } })],
    ["pending-live", pendingPage({ ...PENDING, ...LIVE, method: null, goOn: "https://checkout.rail.example/4bd0" })],
    ["checkout-trial", checkout({ purpose: "start_trial", amountKobo: 0 }, TRIAL)],
    ["checkout-delivery", checkout({}, DELIVERY)],
    ["checkout-setup", checkout(SAVING, null)],
    ["checkout-quantity", checkout({ amountKobo: 1_500_000 }, { quantity: 3, cycle: "quarterly" })],
    ["checkout-unknown-customer", checkout({ details: EMPTY_DETAILS }, {}, { customerName: null })],
    [
      "checkout-errors",
      checkout(
        {
          details: { name: "", email: "ada@example", phone: "" },
          errors: [
            { field: "name", message: "Write your name." },
            { field: "email", message: "Write the whole e-mail address, such as ada@example.com." },
            { field: "card_number", message: "This is no card number: look for a digit too many or too few." },
            { field: "card_expiry", message: "This card has expired." },
          ],
        },
        {},
        { customerName: null },
      ),
    ],
    ["checkout-empty", checkout(NO_CARD)],
    ["checkout-empty-saved", checkout({ ...NO_CARD, saved: [BANK] })],
    ["checkout-declined", checkout({ refusal: declineInWords(DECLINED) })],
    ["checkout-otp", checkout({ asksOtp: true, chosen: "pm_test_requires_otp", details: EMPTY_DETAILS })],
    [
      "checkout-otp-wrong",
      checkout({
        asksOtp: true,
        chosen: "pm_test_requires_otp",
        errors: [{ field: "otp", message: "This is not the code that your bank sent." }],
      }),
    ],
    ["checkout-saved", checkout({ saved: [VISA, BANK], chosen: VISA.id })],
    ["checkout-saved-another", checkout({ saved: [VISA, BANK], chosen: null })],
    [
      "checkout-saved-error",
      checkout({ saved: [VISA, BANK], chosen: VISA.id, errors: [{ field: "payment_method", message: NO_METHOD }] }),
    ],
    ["checkout-test-method", checkout({ errors: [{ field: "payment_method", message: NO_METHOD }] })],
    ["checkout-test-clock", checkout({}, {}, { onTestClock: true })],
    [
      "checkout-long-names",
      checkout(
        {},
        { plan: "Everything that the kitchen cooks, breakfast included", description: null },
        { business: "Oluwaseun Adebayo-Ogunbanjo & Daughters Catering and Events Nigeria Limited" },
      ),
    ],
    ["link-one", link()],
    ["link-live", link({ ...LIVE, form: { ...LINK.form, ...HOSTED } })],
    ["link-declined", link({ form: { ...LINK.form, saved: [BANK], refusal: declineInWords(DECLINED) } })],
    ["link-paused", link({ halts: [PAUSED], consequences: LINK.consequences.slice(2) })],
    [
      "link-two-halted",
      link({
        ...TWO_BILLS,
        consequences: TWO_BILLS.consequences!.filter(({ what }) => what === "cancel"),
        halts: [
          { ...PAUSED, what: "restrict" },
          { ...PAUSED, plan: "Gas refill", what: "hold" },
        ],
      }),
    ],
    ["link-paused-by-request", link({ ...NOTHING_OWED, upcoming: null, halts: [{ ...PAUSED, ends: { at: null } }] })],
    ["link-two", link(TWO_BILLS)],
    ["link-nothing", link(NOTHING_OWED)],
    ["link-remark", link({ ...NOTHING_OWED, remark: "Lunch box was paid on 2 March 2027 with Visa •••• 4242." })],
    ["pending", pendingPage(PENDING)],
    ["checkout-also-charged", checkout({ saved: [VISA], chosen: VISA.id }, {}, { alsoCharged: TWO_BILLS.owed! })],
    ["checkout-setup-also-charged", checkout(SAVING, null, { alsoCharged: LINK.owed })],
    [
      "link-partly-paid",
      link({
        form: { ...LINK.form, refusal: declineInWords({ ...DECLINED, paidKobo: 1_250_000, failedKobo: 500_000 }) },
      }),
    ],
    [
      "message-completed",
      message({
        tone: "success",
        title: "This is paid already",
        paragraphs: [
          "You paid ₦5,000.00 on 3 March 2027 with Visa •••• 4242.",
          "Nothing more is charged on this page.",
          upcoming(RENEWS),
        ],
        action: { ...BACK, label: "Continue to Mama Chidi Kitchen" },
      }),
    ],
    [
      "message-replaced",
      message({
        tone: "info",
        title: "You are subscribed already",
        paragraphs: [
          "You opened this checkout more than once and completed another one, so this one is closed. Nothing was charged here.",
        ],
        action: BACK,
      }),
    ],
    [
      "message-expired",
      message({
        tone: "warning",
        title: "This checkout has expired",
        paragraphs: [
          "It was open until 3 March 2027 at the latest. Nothing was charged.",
          "To go on, begin again at Mama Chidi Kitchen.",
        ],
        action: BACK,
      }),
    ],
    [
      "message-too-late",
      message({
        tone: "warning",
        title: "Your payment came too late",
        paragraphs: [
          "It was open until 3 March 2027 at the latest.",
          tooLate(
            { amount_kobo: 500_000, status: "succeeded", purpose: "sale", refund_due: true, contradictions: [] },
            SHOP.business,
          )!,
        ],
        action: BACK,
      }),
    ],
    [
      "message-link-used",
      message({
        tone: "success",
        title: "Thank you: this is paid",
        paragraphs: [
          "You paid Mama Chidi Kitchen ₦5,000.00 on 3 March 2027 with Visa •••• 4242.",
          upcoming(RENEWS),
          "Nothing is left to do. If something is owed again, the newest message has a link of its own.",
        ],
      }),
    ],
    [
      "message-link-cancelled",
      message({
        tone: "info",
        title: "This subscription is cancelled",
        paragraphs: [
          "It was cancelled on 3 March 2027: nothing is owed on it any more.",
          tooLate(
            { amount_kobo: 500_000, status: "pending", purpose: "sale", refund_due: false, contradictions: [] },
            SHOP.business,
          )!,
          "To begin again, contact Mama Chidi Kitchen.",
        ],
      }),
    ],
    ["savings", savings({ paidNowKobo: 8_000_000 })],
    [
      "savings-late",
      savings({
        paidKobo: 8_000_000,
        missedKobo: 8_000_000,
        feeKobo: 200_000,
        dueKobo: 8_200_000,
        schedule: LATE,
        status: "overdue",
      }),
    ],
    ["savings-flexible", savings({ dueKobo: null, schedule: [], isPaying: true })],
    ["savings-begun", savings({ paidKobo: 0, status: "pending" })],
    ["savings-pay", savingsPayment()],
    ["savings-pay-live", savingsPayment(HOSTED, LIVE)],
    [
      "savings-pay-wrong",
      savingsPayment({
        errors: [
          { field: "amount", message: "Enter how much you want to pay, in whole naira, such as 5000." },
          ...NO_CARD.errors!,
        ],
        chooses: { ...SAVINGS_FORM.chooses!, value: "" },
      }),
    ],
    ["savings-pay-otp", savingsPayment({ asksOtp: true, chosen: "pm_test_requires_otp" })],
    ["savings-cancel", savingsCancel()],
    ["savings-cancel-fee", savingsCancel({ feeKobo: 200_000, refundKobo: 15_800_000, isPaying: true })],
    ["savings-cancel-nothing", savingsCancel({ paidKobo: 0, refundKobo: 0 })],
    ["message-404", refused(noSuchPage, "/checkout")],
    ["message-429", refused(problem("rate_limited", "Too many requests: try again in 3 s."), "/pay/7Jx0m4Qe/complete")],
    ["message-500", refused(problem("internal_error", "Something went wrong on our side."), "/pay/7Jx0m4Qe/complete")],
    ["start", startPage({ origin: "https://billing.example", demoKey: null })],
    ["start-demo", startPage({ origin: "http://127.0.0.1:3000", demoKey: "sk_test_7Jx0m4Qe1s8V2nB5kD9fT3wZ6yC0hRuL" })],
    ["errors", errorCodesPage()],
  ])
