/** The sandbox payment methods: the card details and the behaviour of each `pm_test_` ID. No randomness, no wall clock. */
import { HOUR_MS, MINUTE_MS } from "../../../base/time.ts"
import { FAILURE_CODES, type FailureCode, type PaymentMethodSummary } from "../PaymentRail.ts"

export type Outcome =
  | { readonly status: "succeeded" }
  | { readonly status: "failed"; readonly code: FailureCode }
  | { readonly status: "not_found" }

export interface Behaviour {
  /** How the rail answers the attempt: with the outcome, with "pending", or not at all. */
  readonly answers: "at_once" | { readonly afterMs: number } | "only_when_asked"
  /** `uses` counts the customer's earlier charges with this method; `code` is the code that the buyer typed; null: no buyer is present. */
  readonly outcome: (attemptNumber: number, uses: number, code: string | null) => Outcome
  /** The method asks for a one-time code. */
  readonly asksCode?: true
}

const SUCCEEDED: Outcome = { status: "succeeded" }
const failed = (code: FailureCode): Outcome => ({ status: "failed", code })
const always = (outcome: Outcome, answers: Behaviour["answers"] = "at_once"): Behaviour => ({
  answers,
  outcome: () => outcome,
})

const untilAttempt = (n: number): Behaviour => ({
  answers: "at_once",
  outcome: (attempt) => (attempt >= n ? SUCCEEDED : failed("insufficient_funds")),
})

/** ID prefix of the methods whose outcome depends on earlier uses. The index `simulator_attempt_used` has only their attempts. */
export const COUNTED = "pm_test_success_then_"

export const countsUses = (id: string): boolean => id.startsWith(COUNTED)

const onceThen = (code: FailureCode): Behaviour => ({
  answers: "at_once",
  outcome: (_, uses) => (uses === 0 ? SUCCEEDED : failed(code)),
})

/** The correct one-time code. */
const TEST_CODE = "123456"

/** Returns why a one-time code is not accepted; null: it is. */
const codeObjection = (code: string | null): FailureCode | null =>
  code === null ? "authentication_required" : code === TEST_CODE ? null : "authentication_failed"

const withCode: Behaviour = {
  answers: "at_once",
  outcome: (_, __, code) => {
    const objection = codeObjection(code)
    return objection === null ? SUCCEEDED : failed(objection)
  },
  asksCode: true,
}

const CARD = { type: "card", bank_name: null, exp_month: 12, exp_year: 2034 } as const
const BANK = { type: "bank_account", brand: null, bank_name: "Test Bank", exp_month: null, exp_year: null } as const
const USSD = { type: "ussd", brand: null, last4: null, exp_month: null, exp_year: null } as const

interface TestMethod {
  readonly looks: Omit<PaymentMethodSummary, "id">
  readonly behaviour: Behaviour
  /** The behaviour in words. */
  readonly does: string
}

const card = (last4: string, does: string, behaviour: Behaviour, brand = "visa"): TestMethod => ({
  looks: { ...CARD, brand, last4 },
  behaviour,
  does,
})

/** The last four digits of the card that is declined with a code: its ISO 8583 response code, if it has one. */
const DECLINED_LAST4: Readonly<Record<FailureCode, `0${string}`>> = {
  insufficient_funds: "0051",
  limit_exceeded: "0061",
  do_not_honor: "0005",
  unknown_decline: "0006",
  issuer_unavailable: "0091",
  processor_error: "0096",
  card_throttled: "0065",
  rail_rate_limited: "0429",
  expired_card: "0054",
  lost_card: "0041",
  stolen_card: "0043",
  pick_up_card: "0004",
  restricted_card: "0062",
  account_closed: "0046",
  invalid_card: "0014",
  not_permitted: "0057",
  suspected_fraud: "0059",
  authorization_revoked: "0071",
  payment_method_inactive: "0078",
  authentication_required: "0070",
  authentication_failed: "0055",
  amount_invalid: "0013",
  customer_abandoned: "0017",
  rail_misconfigured: "0003",
}

/** The last four digits of the card that pays once and is then declined with a code: the first 0 becomes 1. */
const paysOnceLast4 = (code: FailureCode): string => `1${DECLINED_LAST4[code].slice(1)}`

const ASKED = "The rail does not answer; asked about the charge, it says"

/** Every test method by ID, in the order of the API's list. No two look the same to a buyer. */
export const TEST_METHODS: ReadonlyMap<string, TestMethod> = new Map<string, TestMethod>([
  ["pm_test_success", card("4242", "Every charge succeeds.", always(SUCCEEDED))],
  ["pm_test_visa", card("1111", "Every charge succeeds.", always(SUCCEEDED))],
  ["pm_test_mastercard", card("4444", "Every charge succeeds.", always(SUCCEEDED), "mastercard")],
  ["pm_test_verve", card("5060", "Every charge succeeds.", always(SUCCEEDED), "verve")],
  ...[2, 3, 4].map(
    (n) =>
      [
        `pm_test_succeeds_on_attempt_${n}`,
        card(`200${n}`, `Of each bill, attempts before number ${n} are declined: insufficient_funds.`, untilAttempt(n)),
      ] as const,
  ),
  [
    "pm_test_pending_then_success",
    card("3001", "Pending, succeeds 1 hour later.", always(SUCCEEDED, { afterMs: HOUR_MS })),
  ],
  [
    "pm_test_pending_then_failed",
    card("3002", "Pending, fails 1 hour later: do_not_honor.", always(failed("do_not_honor"), { afterMs: HOUR_MS })),
  ],
  ["pm_test_timeout_then_success", card("3003", `${ASKED} succeeded.`, always(SUCCEEDED, "only_when_asked"))],
  [
    "pm_test_timeout_then_failed",
    card("3004", `${ASKED} failed: do_not_honor.`, always(failed("do_not_honor"), "only_when_asked")),
  ],
  [
    "pm_test_timeout_not_found",
    card(
      "3005",
      `${ASKED} that there is none, so it fails: processor_error.`,
      always({ status: "not_found" }, "only_when_asked"),
    ),
  ],
  [
    "pm_test_requires_otp",
    card(
      "6666",
      `Declined: authentication_required, unless the customer is present: on a page the code ${TEST_CODE} succeeds.`,
      withCode,
      "verve",
    ),
  ],
  [
    "pm_test_bank_account",
    {
      looks: { ...BANK, last4: "6789" },
      does: "Pending, succeeds 1 hour later.",
      behaviour: always(SUCCEEDED, { afterMs: HOUR_MS }),
    },
  ],
  [
    "pm_test_bank_account_insufficient_funds",
    {
      looks: { ...BANK, last4: "6751" },
      does: "Pending, fails 1 hour later: insufficient_funds.",
      behaviour: always(failed("insufficient_funds"), { afterMs: HOUR_MS }),
    },
  ],
  [
    "pm_test_ussd",
    {
      looks: { ...USSD, bank_name: "Test Bank" },
      does: "Pending, succeeds 10 minutes later.",
      behaviour: always(SUCCEEDED, { afterMs: 10 * MINUTE_MS }),
    },
  ],
  [
    "pm_test_ussd_timeout",
    {
      looks: { ...USSD, bank_name: "Slow Test Bank" },
      does: "Pending, fails 30 minutes later: customer_abandoned.",
      behaviour: always(failed("customer_abandoned"), { afterMs: 30 * MINUTE_MS }),
    },
  ],
  ...FAILURE_CODES.map(
    (code) =>
      [
        `pm_test_${code}`,
        card(DECLINED_LAST4[code], `Every charge is declined: ${code}.`, always(failed(code))),
      ] as const,
  ),
  ...FAILURE_CODES.map(
    (code) =>
      [
        `${COUNTED}${code}`,
        card(
          paysOnceLast4(code),
          `The customer's first charge with it succeeds, later ones are declined: ${code}.`,
          onceThen(code),
        ),
      ] as const,
  ),
])

/** Returns the summary of a test method; undefined if the ID is unknown. */
export const testMethod = (id: string): PaymentMethodSummary | undefined => {
  const found = TEST_METHODS.get(id)
  return found === undefined ? undefined : { id, ...found.looks }
}

/**
 * Card numbers of test methods on pages: the printed number, and the outcome of a payment (docs/sandbox.md). A submitted page is matched
 * with them; numbers are never stored.
 */
export const TEST_CARDS = [
  { number: "4242 4242 4242 4242", does: "pays", method: "pm_test_success" },
  { number: "4084 0800 0000 0051", does: "insufficient funds", method: "pm_test_insufficient_funds" },
  { number: "4084 0800 0000 0054", does: "expired card", method: "pm_test_expired_card" },
  { number: "4084 0800 0000 0005", does: "refused by the bank", method: "pm_test_do_not_honor" },
  { number: "5060 6666 6666 6666 666", does: "asks for a code: 123456", method: "pm_test_requires_otp" },
] as const
export type TestCard = (typeof TEST_CARDS)[number]

const METHODS_OF_CARDS: ReadonlyMap<string, string> = new Map(
  TEST_CARDS.map(({ number, method }) => [number.replaceAll(" ", ""), method]),
)

/** Returns the test method of a card number; undefined: not a test card. */
export const methodOfCard = (digits: string): string | undefined => METHODS_OF_CARDS.get(digits)

/** Returns why a buyer who is present cannot use a test method; null: the buyer can. */
export const objectionOf = (id: string, code: string | null): FailureCode | null =>
  TEST_METHODS.get(id)?.behaviour.asksCode === true ? codeObjection(code) : null
