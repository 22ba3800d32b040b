/** Tests Flutterwave's documented answers, and their results (decisions P9, P10). */
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import type { PagePayment, Rail, RailResult, TokenCharge } from "../../src/rails/rail/Rail.ts"
import { credentialsOf, KEYS, saying, useRailServer } from "../support/railServer.ts"

const server = useRailServer()
const credentials = credentialsOf("flutterwave")
const KEY = KEYS.flutterwave.secret_key!
const TOKEN = "flw-t1nf-f9b3bf384cd30d6fca42b6df9d27bd2f-m03k"

const META = { account: "acct_1", attempt: "1" }

const CHARGE: TokenCharge = {
  reference: "chg_01m7yyp0a6e08v7r97jkyz1pj0",
  amountKobo: 250_050,
  token: Redacted.make(TOKEN),
  email: "Ada@example.com",
  metadata: META,
}
const PAGE: PagePayment = {
  reference: CHARGE.reference,
  amountKobo: 250_050,
  email: "Ada@example.com",
  name: "Ada Obi",
  phone: "+2348031234567",
  returnUrl: "https://pay.example/checkout/cs_1/return",
  description: "Gym, monthly",
  metadata: META,
}

const CALLS = {
  charge: (rail: Rail) => rail.charge(CHARGE, credentials),
  openPage: (rail: Rail) => rail.openPage(PAGE, credentials),
  ask: (rail: Rail) => rail.ask(CHARGE.reference, credentials),
  refund: (rail: Rail) =>
    rail.refund({ reference: CHARGE.reference, railId: "277036749", amountKobo: 5_000 }, credentials),
  askRefund: (rail: Rail) => rail.askRefund("75923", credentials),
}
type CallName = keyof typeof CALLS

/** The result of a call with this answer, with the saved token as text. */
const resultOf = async (call: CallName, status: number, body: unknown) => {
  server.answer(saying(status, body))
  const found: RailResult = await server.resultOf<RailResult>("flutterwave", CALLS[call])
  if (found.kind !== "transaction" || found.saved === null) return found
  return { ...found, saved: { ...found.saved, token: Redacted.value(found.saved.token) } }
}

const CARD = {
  first_6digits: "553188",
  last_4digits: "2950",
  issuer: "MASTERCARD CREDIT",
  country: "NG",
  type: "MASTERCARD",
  expiry: "09/32",
  token: TOKEN,
}
const TRANSACTION = {
  id: 277036749,
  tx_ref: CHARGE.reference,
  flw_ref: "FLW253481676",
  amount: 2500.5,
  charged_amount: 2535.01,
  currency: "NGN",
  processor_response: "Approved",
  auth_model: "noauth",
  status: "successful",
  payment_type: "card",
  customer: { id: 252759, name: "Ada Obi", phone_number: null, email: "Ada@example.com" },
  card: CARD,
}
const transaction = (over: object, beside: object = {}) => ({
  status: "success",
  message: "Charge successful",
  data: { ...TRANSACTION, ...over },
  ...beside,
})
const error = (message: string) => ({ status: "error", message, data: null })

const SAVED = {
  token: TOKEN,
  email: "Ada@example.com",
  type: "card",
  brand: "mastercard",
  last4: "2950",
  bank_name: null,
  exp_month: 9,
  exp_year: 2032,
  signature: null,
}
const SUCCESS = {
  kind: "transaction",
  status: "succeeded",
  reference: CHARGE.reference,
  amountKobo: 250_050,
  currency: "NGN",
  railId: "277036749",
  code: null,
  message: "Approved",
  retryAt: null,
  saved: SAVED,
}
const failed = (code: string, message: string | null) => ({ ...SUCCESS, status: "failed", code, message, saved: null })
const PENDING = { ...SUCCESS, status: "pending", saved: null }
const refused = (code: string, message: string | null) => ({ kind: "refused", code, message })
const unclear = (message: string) => ({ kind: "unclear", message, reached: true })
const unreadable = (status: number) => unclear(`an answer that cannot be read (HTTP ${status})`)
const redirect = { authorization: { mode: "redirect", redirect: "https://ravesandboxapi.flutterwave.com/mockvbvpage" } }

type Row = readonly [what: string, call: CallName, status: number, body: unknown, heard: object]

const CHARGES: ReadonlyArray<Row> = [
  ["success", "charge", 200, transaction({}), SUCCESS],
  [
    "a decline",
    "charge",
    200,
    transaction({ status: "failed", processor_response: "Insufficient Funds" }),
    failed("insufficient_funds", "Insufficient Funds"),
  ],
  [
    "a decline without words",
    "charge",
    200,
    transaction({ status: "failed", processor_response: undefined }),
    failed("unknown_decline", null),
  ],
  ["pending", "charge", 200, transaction({ status: "pending" }), PENDING],
  [
    "a challenge, in the transaction",
    "charge",
    200,
    transaction({ status: "pending", meta: redirect }),
    failed("authentication_required", "Approved"),
  ],
  [
    "a challenge, beside the transaction",
    "charge",
    200,
    transaction({ status: "pending" }, { meta: redirect }),
    failed("authentication_required", "Approved"),
  ],
  [
    "a challenge without more details of the charge",
    "charge",
    200,
    { status: "success", data: { status: "pending" }, meta: redirect },
    { ...failed("authentication_required", null), railId: null },
  ],
  ["a success that was challenged", "charge", 200, transaction({ meta: redirect }), SUCCESS],
  ["another amount", "charge", 200, transaction({ amount: 1 }), { ...SUCCESS, amountKobo: 100 }],
  [
    "a decline without more details of the charge",
    "charge",
    200,
    transaction({ status: "failed", processor_response: "Expired card", amount: undefined, currency: undefined }),
    { ...failed("expired_card", "Expired card"), amountKobo: null, currency: null },
  ],
  [
    "a success without an amount",
    "charge",
    200,
    transaction({ amount: undefined }),
    { ...SUCCESS, amountKobo: "unreadable" },
  ],
  ["a success without a currency", "charge", 200, transaction({ currency: undefined }), { ...SUCCESS, currency: null }],
  ["a currency in small letters", "charge", 200, transaction({ currency: "ngn" }), SUCCESS],
  ["another currency", "charge", 200, transaction({ currency: "USD" }), { ...SUCCESS, currency: "USD" }],
  ["another reference", "charge", 200, transaction({ tx_ref: "other" }), { ...SUCCESS, reference: "other" }],
  ["no number", "charge", 200, transaction({ id: undefined }), { ...SUCCESS, railId: null }],
  ...(
    [
      ["2500.50", 250_050],
      ["2500.5", 250_050],
      ["2500", 250_000],
      [0.07, 7],
      [1.15, 115],
      [0, 0],
      [90_000_000_000, 9_000_000_000_000],
    ] as const
  ).map(
    ([amount, amountKobo]): Row => [
      `the amount ${JSON.stringify(amount)}`,
      "charge",
      200,
      transaction({ amount }),
      { ...SUCCESS, amountKobo },
    ],
  ),
  ...[2500.505, "2500.505", -1, "-1", "1e3", "1,000", "", " 1", null, undefined, true, [1], 1e21, 9e15].map(
    (amount): Row => [
      `the amount ${JSON.stringify(amount)}`,
      "charge",
      200,
      transaction({ amount }),
      { ...SUCCESS, amountKobo: "unreadable" },
    ],
  ),
  [
    "an infinite amount",
    "charge",
    200,
    JSON.stringify(transaction({})).replace("2500.5", "1e999"),
    { ...SUCCESS, amountKobo: "unreadable" },
  ],
  ["an unknown status", "charge", 200, transaction({ status: "success" }), unreadable(200)],
  ["no reference", "charge", 200, transaction({ tx_ref: undefined }), unreadable(200)],
  ["an error with 200", "charge", 200, error("Declined"), unreadable(200)],
  ["401", "charge", 401, error("Authorization required"), refused("rail_misconfigured", "Authorization required")],
  ["403", "charge", 403, error("Forbidden"), refused("rail_misconfigured", "Forbidden")],
  ["JSON of another server, 403", "charge", 403, { message: "forbidden" }, unreadable(403)],
  ...[
    "Duplicate transaction reference",
    "Oops! Duplicate transaction reference. Please check and try again",
    "Transaction with tx_ref chg_1 already exists",
    "tx_ref has already been used",
  ].map((message): Row => ["a duplicate reference", "charge", 400, error(message), unclear(message)]),
  ...[
    ["Wrong token or email passed", "payment_method_inactive"],
    ["Token has expired", "payment_method_inactive"],
    ["Invalid token", "payment_method_inactive"],
    ["Token not found", "payment_method_inactive"],
    ["Amount does not meet minimum amount allowed", "amount_invalid"],
    ["Currency not supported", "rail_misconfigured"],
    ["merchant secret key required", "rail_misconfigured"],
    ["Merchant is not enabled for tokenized charges", "rail_misconfigured"],
    ["Insufficient Funds", "insufficient_funds"],
    ["Something else", "unknown_decline"],
  ].map(([message, code]): Row => ["an error", "charge", 400, error(message!), refused(code!, message!)]),
]

const saved = (over: object) => ({ ...SUCCESS, saved: { ...SAVED, ...over } })
const card = (over: object) => transaction({ card: { ...CARD, ...over } })

const METHODS: ReadonlyArray<Row> = [
  ["a year of four digits", "ask", 200, card({ expiry: "9/2032" }), SUCCESS],
  ["an invalid month", "ask", 200, card({ expiry: "13/32" }), saved({ exp_month: null })],
  ["no expiry", "ask", 200, card({ expiry: null }), saved({ exp_month: null, exp_year: null })],
  ["invalid texts", "ask", 200, card({ type: 7, last_4digits: {} }), saved({ brand: null, last4: null })],
  ["no token", "ask", 200, card({ token: undefined }), { ...SUCCESS, saved: null }],
  ["an empty token", "ask", 200, card({ token: "" }), { ...SUCCESS, saved: null }],
  ["a token that is too long", "ask", 200, card({ token: "t".repeat(501) }), { ...SUCCESS, saved: null }],
  ["no card", "ask", 200, transaction({ card: undefined, payment_type: "bank_transfer" }), { ...SUCCESS, saved: null }],
  ["no e-mail", "ask", 200, transaction({ customer: null }), { ...SUCCESS, saved: { ...SUCCESS.saved, email: null } }],
]

const refund = (over: object) => ({
  status: "success",
  message: "Transaction refund initiated",
  data: { id: 75923, tx_id: 277036749, amount_refunded: 50, status: "completed", ...over },
})
const refundResult = (status: string) => ({ kind: "refund", status, refundId: "75923", message: null })
const NONE = "No transaction was found for this id"
const page = (link: unknown) => ({ status: "success", message: "Hosted Link", data: { link } })

const OTHERS: ReadonlyArray<Row> = [
  ["a verified payment", "ask", 200, transaction({}), SUCCESS],
  ["a payment in progress", "ask", 200, transaction({ status: "pending", meta: redirect }), PENDING],
  ["an unknown reference, 400", "ask", 400, error(NONE), { kind: "unknown_reference" }],
  ["an unknown reference, 404", "ask", 404, error(NONE), { kind: "unknown_reference" }],
  ["an unknown reference, 200", "ask", 200, error(NONE), { kind: "unknown_reference" }],
  ["an unknown reference, in other words", "ask", 404, error("Nothing here"), { kind: "unknown_reference" }],
  [
    "words beside the transaction",
    "charge",
    200,
    { ...transaction({ status: "failed", processor_response: undefined }), message: "Insufficient Funds" },
    failed("insufficient_funds", "Insufficient Funds"),
  ],
  [
    "a text beside the transaction without its details",
    "ask",
    200,
    {
      ...transaction({ status: "failed", processor_response: undefined }),
      message: "Transaction fetched successfully",
    },
    failed("unknown_decline", null),
  ],
  ["a 404 of another server", "ask", 404, { error: "not found" }, unreadable(404)],
  ["a refused question: the payment's state is unknown", "ask", 400, error("Declined"), unclear("Declined")],
  [
    "a question with a wrong key",
    "ask",
    401,
    error("Invalid authorization key"),
    refused("rail_misconfigured", "Invalid authorization key"),
  ],
  [
    "a page",
    "openPage",
    200,
    page("https://checkout.flutterwave.com/v3/hosted/pay/ab12"),
    { kind: "page", url: "https://checkout.flutterwave.com/v3/hosted/pay/ab12" },
  ],
  [
    "a page on this machine",
    "openPage",
    200,
    page("http://localhost:9/p"),
    { kind: "page", url: "http://localhost:9/p" },
  ],
  ...["http://checkout.flutterwave.com/x", "data:text/html,x", `https://x/${"x".repeat(2_000)}`, null].map(
    (link): Row => [`a page at ${String(link).slice(0, 40)}`, "openPage", 200, page(link), unreadable(200)],
  ),
  ["a page for a reference used before", "openPage", 400, error("Duplicate tx_ref"), unclear("Duplicate tx_ref")],
  ...(
    [
      ["completed", "returned"],
      ["completed-mpgs", "returned"],
      ["pending", "pending"],
      ["pending-momo", "pending"],
      ["new", "pending"],
      ["failed", "failed"],
    ] as const
  ).flatMap(
    ([status, meaning]): ReadonlyArray<Row> => [
      [`a refund that is ${status}`, "refund", 200, refund({ status }), refundResult(meaning)],
      [`a verified refund that is ${status}`, "askRefund", 200, refund({ status }), refundResult(meaning)],
    ],
  ),
  ["a refund in an unknown state", "refund", 200, refund({ status: "incomplete" }), unreadable(200)],
  [
    "a refund of a returned payment",
    "refund",
    400,
    error("Transaction has already been refunded"),
    { kind: "refund", status: "returned", refundId: null, message: "Transaction has already been refunded" },
  ],
  [
    "a refund refused",
    "refund",
    400,
    error("Insufficient balance"),
    refused("insufficient_funds", "Insufficient balance"),
  ],
  ["an unknown refund", "askRefund", 400, error("No refund was found"), { kind: "unknown_reference" }],
]

describe("the result of", () => {
  it.each([...CHARGES, ...METHODS, ...OTHERS])("%s (%s, HTTP %i)", async (_, call, status, body, expected) => {
    expect(await resultOf(call, status, body)).toEqual(expected)
  })

  it("its texts without the secrets that they repeat", async () => {
    const refusal = await resultOf("charge", 401, error(`No key ${KEY}, no token ${TOKEN}`))
    expect(refusal).toEqual(refused("rail_misconfigured", "No key …, no token …"))
  })

  it("a refund of a transaction with an unknown number, without a call", async () => {
    const call = { reference: CHARGE.reference, railId: null, amountKobo: 5_000 }
    const found = await server.resultOf("flutterwave", (rail) => rail.refund(call, credentials))
    expect(found).toMatchObject({ kind: "refused", code: "processor_error" })
    expect(server.sent).toEqual([])
  })
})

describe("the request", () => {
  const sentBy = async (call: CallName) => {
    await resultOf(call, 500, {})
    const { method, path, headers, body } = server.sent.splice(0)[0]!
    expect(headers.authorization).toBe(`Bearer ${KEY}`)
    return [`${method} ${path}`, body === "" ? undefined : JSON.parse(body)]
  }

  it("for a charge", async () => {
    expect(await sentBy("charge")).toEqual([
      "POST /v3/tokenized-charges",
      {
        token: TOKEN,
        email: "Ada@example.com",
        currency: "NGN",
        country: "NG",
        amount: 2500.5,
        tx_ref: CHARGE.reference,
        meta: META,
      },
    ])
  })

  it("for a page", async () => {
    expect(await sentBy("openPage")).toEqual([
      "POST /v3/payments",
      {
        tx_ref: CHARGE.reference,
        amount: 2500.5,
        currency: "NGN",
        redirect_url: PAGE.returnUrl,
        payment_options: "card,account,ussd,banktransfer",
        customer: { email: "Ada@example.com", name: "Ada Obi", phonenumber: "+2348031234567" },
        customizations: { title: "Gym, monthly", description: "Gym, monthly" },
        configurations: { session_duration: 30, max_retry_attempt: 1 },
        meta: META,
      },
    ])
  })

  it("for a page that only saves a payment method, of a buyer without a phone: cards", async () => {
    const payment = { ...PAGE, amountKobo: 5_000, phone: null }
    await server.resultOf("flutterwave", (rail) => rail.openPage(payment, credentials))
    expect(JSON.parse(server.sent[0]!.body)).toMatchObject({
      amount: 50,
      payment_options: "card",
      customer: { email: "Ada@example.com", name: "Ada Obi" },
    })
    expect(server.sent[0]!.body).not.toContain("phonenumber")
  })

  it("for questions and refunds", async () => {
    expect(await sentBy("ask")).toEqual([
      `GET /v3/transactions/verify_by_reference?tx_ref=${CHARGE.reference}`,
      undefined,
    ])
    expect(await sentBy("refund")).toEqual(["POST /v3/transactions/277036749/refund", { amount: 50 }])
    expect(await sentBy("askRefund")).toEqual(["GET /v3/refunds/75923", undefined])
  })

  it("for a list, and the result", async () => {
    const listed = (body: unknown) => {
      server.answer(saying(200, body))
      const listing = { since: Date.UTC(2026, 0, 2), until: Date.UTC(2026, 0, 3), page: 3 }
      return server.resultOf("flutterwave", (rail) => rail.list(listing, credentials))
    }
    const meta = { account: "acct_1" }
    const data = [{ tx_ref: CHARGE.reference, meta, created_at: "2026-01-02T09:00:00.000Z" }, { tx_ref: 5 }]
    expect(await listed({ status: "success", data, meta: { page_info: { total_pages: 7 } } })).toEqual({
      kind: "listed",
      pages: 7,
      transactions: [{ reference: CHARGE.reference, metadata: meta, at: Date.UTC(2026, 0, 2, 9) }],
    })
    // Whole days in Lagos, with a day more on either side.
    expect(server.sent[0]!.path).toBe("/v3/transactions?from=2026-01-01&to=2026-01-04&page=3")
    expect(await listed({ status: "success", data: [] })).toEqual({ kind: "listed", pages: null, transactions: [] })
    expect(await listed({ status: "error", message: "Bad" })).toMatchObject({ kind: "unclear" })
  })
})
