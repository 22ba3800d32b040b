/** Tests Paystack's documented answers, and their results (decisions P9, P10). */
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import type { PagePayment, Rail, RailResult, TokenCharge } from "../../src/rails/rail/Rail.ts"
import { credentialsOf, KEYS, saying, useRailServer } from "../support/railServer.ts"

const server = useRailServer()
const credentials = credentialsOf("paystack")
const KEY = KEYS.paystack.secret_key!

const META = { account: "acct_1", attempt: "1" }

const CHARGE: TokenCharge = {
  reference: "chg_01m7yyp0a6e08v7r97jkyz1pj0",
  amountKobo: 250_000,
  token: Redacted.make("AUTH_uh8bcl3zbn"),
  email: "Ada@example.com",
  metadata: META,
}
const SENT = "chg-01m7yyp0a6e08v7r97jkyz1pj0"
const PAGE: PagePayment = {
  reference: CHARGE.reference,
  amountKobo: 250_000,
  email: "Ada@example.com",
  name: "Ada Obi",
  phone: null,
  returnUrl: "https://pay.example/checkout/cs_1/return",
  description: "Gym, monthly",
  metadata: META,
}

const CALLS = {
  charge: (rail: Rail) => rail.charge(CHARGE, credentials),
  openPage: (rail: Rail) => rail.openPage(PAGE, credentials),
  ask: (rail: Rail) => rail.ask(CHARGE.reference, credentials),
  refund: (rail: Rail) =>
    rail.refund({ reference: CHARGE.reference, railId: "4099490251", amountKobo: 5_000 }, credentials),
  askRefund: (rail: Rail) => rail.askRefund("3018284", credentials),
}
type CallName = keyof typeof CALLS

/** The result of a call with this answer, with the saved token as text. */
const resultOf = async (call: CallName, status: number, body: unknown, headers = {}) => {
  server.answer(saying(status, body, headers))
  const found: RailResult = await server.resultOf<RailResult>("paystack", CALLS[call])
  if (found.kind !== "transaction" || found.saved === null) return found
  return { ...found, saved: { ...found.saved, token: Redacted.value(found.saved.token) } }
}

const AUTHORIZATION = {
  authorization_code: "AUTH_uh8bcl3zbn",
  bin: "408408",
  last4: "4081",
  exp_month: "12",
  exp_year: "2030",
  channel: "card",
  card_type: "visa ",
  bank: "TEST BANK",
  country_code: "NG",
  brand: "Visa ",
  reusable: true,
  signature: "SIG_yEXu7dLBeqG0kU7g95Ke",
  account_name: null,
}
const TRANSACTION = {
  id: 4099490251,
  status: "success",
  reference: SENT,
  amount: 250_000,
  currency: "NGN",
  gateway_response: "Approved",
  message: null,
  channel: "card",
  authorization: AUTHORIZATION,
  customer: { email: "Ada@example.com", customer_code: "CUS_1rkzaqsv4rrhqo6" },
}
const transaction = (over: object) => ({ status: true, message: "Charge attempted", data: { ...TRANSACTION, ...over } })
const refusal = (message: string, over: object = {}) => ({ status: false, message, ...over })

const SAVED = {
  token: "AUTH_uh8bcl3zbn",
  email: "Ada@example.com",
  type: "card",
  brand: "visa",
  last4: "4081",
  bank_name: "TEST BANK",
  exp_month: 12,
  exp_year: 2030,
  signature: "SIG_yEXu7dLBeqG0kU7g95Ke",
}
const SUCCESS = {
  kind: "transaction",
  status: "succeeded",
  reference: CHARGE.reference,
  amountKobo: 250_000,
  currency: "NGN",
  railId: "4099490251",
  code: null,
  message: "Approved",
  retryAt: null,
  saved: SAVED,
}
const failed = (code: string, message: string | null, over: object = {}) => ({
  ...SUCCESS,
  status: "failed",
  code,
  message,
  saved: null,
  ...over,
})
const open = (status: string, message: string | null) => ({ ...SUCCESS, status, message, saved: null })
const refused = (code: string, message: string | null) => ({ kind: "refused", code, message })
const unclear = (message: string, reached = true) => ({ kind: "unclear", message, reached })
const unreadable = (status: number) => unclear(`an answer that cannot be read (HTTP ${status})`)
/** Not derived from a transaction of Paystack's. */
const unmade = { railId: null }

type Row = readonly [what: string, call: CallName, status: number, body: unknown, heard: object]

const CHARGES: ReadonlyArray<Row> = [
  ["success", "charge", 200, transaction({}), SUCCESS],
  [
    "a decline",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: "Insufficient Funds" }),
    failed("insufficient_funds", "Insufficient Funds"),
  ],
  [
    "a decline in other words",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: "Declined", message: "Expired card" }),
    failed("expired_card", "Declined"),
  ],
  [
    "a decline without words",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: null }),
    failed("unknown_decline", null),
  ],
  ["ongoing", "charge", 200, transaction({ status: "ongoing" }), open("ongoing", "Approved")],
  ...["pending", "processing", "queued"].map(
    (status): Row => [status, "charge", 200, transaction({ status }), open("pending", "Approved")],
  ),
  ["abandoned", "charge", 200, transaction({ status: "abandoned" }), open("abandoned", "Approved")],
  [
    "reversed",
    "charge",
    200,
    transaction({ status: "reversed" }),
    { ...failed("processor_error", "Reversed at Paystack: Approved"), reversed: true, saved: SUCCESS.saved },
  ],
  [
    "fees on top: the requested amount counts",
    "charge",
    200,
    transaction({ amount: 261_500, requested_amount: 250_000 }),
    SUCCESS,
  ],
  ["no requested amount", "charge", 200, transaction({ requested_amount: null }), SUCCESS],
  ["another amount", "charge", 200, transaction({ amount: 100 }), { ...SUCCESS, amountKobo: 100 }],
  ["an amount in quotes", "charge", 200, transaction({ amount: "250000" }), SUCCESS],
  [
    "a decline without more details of the charge",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: "Expired card", amount: undefined, currency: undefined }),
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
  ["another currency", "charge", 200, transaction({ currency: "GHS" }), { ...SUCCESS, currency: "GHS" }],
  [
    "another reference",
    "charge",
    200,
    transaction({ reference: "T685312322670591" }),
    { ...SUCCESS, reference: "T685312322670591" },
  ],
  ["no number", "charge", 200, transaction({ id: null }), { ...SUCCESS, railId: null }],
  [
    "a challenge",
    "charge",
    200,
    {
      status: true,
      message: "Please, redirect your customer to the authorization url provided",
      data: {
        authorization_url: "https://checkout.paystack.com/resume/0744ub5",
        reference: SENT,
        access_code: "0744ub5",
        paused: true,
      },
    },
    failed("authentication_required", "Please, redirect your customer to the authorization url provided", unmade),
  ],
  [
    "a challenge in a transaction in progress",
    "charge",
    200,
    transaction({ status: "ongoing", paused: true }),
    failed("authentication_required", "Charge attempted", unmade),
  ],
  ["a success that was challenged", "charge", 200, transaction({ paused: true }), SUCCESS],
  [
    "a throttled card, in a transaction",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: "Declined", retry_by: "2026-11-23T04:00:00.000Z" }),
    failed("card_throttled", "Declined", { retryAt: Date.UTC(2026, 10, 23, 4) }),
  ],
  [
    "a throttled card, refused",
    "charge",
    400,
    refusal("Charge cannot be fulfilled until 300 minutes", { data: { retry_by: "2026-11-23 4:00:00" } }),
    failed("card_throttled", "Charge cannot be fulfilled until 300 minutes", {
      ...unmade,
      retryAt: Date.UTC(2026, 10, 23, 4),
    }),
  ],
  [
    "a throttled card, in words only",
    "charge",
    400,
    refusal("Charge attempt cannot be fulfilled until 12 minutes", { data: null }),
    failed("card_throttled", "Charge attempt cannot be fulfilled until 12 minutes", unmade),
  ],
  [
    "a duplicate reference by its code",
    "charge",
    400,
    refusal("Oops", { type: "validation_error", code: "duplicate_reference" }),
    unclear("Oops"),
  ],
  [
    "a duplicate reference in words",
    "charge",
    400,
    refusal("Duplicate Transaction Reference"),
    unclear("Duplicate Transaction Reference"),
  ],
  ["401", "charge", 401, refusal("Invalid key"), refused("rail_misconfigured", "Invalid key")],
  ["403", "charge", 403, refusal("IP address not allowed"), refused("rail_misconfigured", "IP address not allowed")],
  ["a wrong key, as documented", "charge", 400, refusal("Invalid key"), refused("rail_misconfigured", "Invalid key")],
  [
    "a status in quotes, as documented",
    "charge",
    400,
    { status: "false", message: "Invalid key" },
    refused("rail_misconfigured", "Invalid key"),
  ],
  ...[
    ["Email does not match Authorization code. Please confirm", "payment_method_inactive"],
    ["Authorization code does not exist or has been deactivated", "payment_method_inactive"],
    ["This authorization is not reusable", "payment_method_inactive"],
    ["Invalid Amount Sent", "amount_invalid"],
    ["Amount must be a positive integer", "amount_invalid"],
    ["Currency not supported by merchant", "rail_misconfigured"],
    ["Currency is not enabled for this integration", "rail_misconfigured"],
    ["Something else", "unknown_decline"],
  ].map(([message, code]): Row => [message!, "charge", 400, refusal(message!), refused(code!, message!)]),
  ...["processor_error", "api_error"].map(
    (type): Row => [type, "charge", 400, refusal("No luck", { type }), refused("processor_error", "No luck")],
  ),
  [
    "a validation error",
    "charge",
    422,
    refusal("No luck", { type: "validation_error" }),
    refused("unknown_decline", "No luck"),
  ],
  ["status false with 200", "charge", 200, refusal("Charge attempted"), unreadable(200)],
  ["JSON of another server, 403", "charge", 403, { error: "forbidden" }, unreadable(403)],
  ["an unknown status", "charge", 200, transaction({ status: "settled" }), unreadable(200)],
  ...[-1, 1.5, "2500.00", null, undefined, "", 2 ** 53].map(
    (amount): Row => [
      `the amount ${amount}`,
      "charge",
      200,
      transaction({ amount }),
      { ...SUCCESS, amountKobo: "unreadable" },
    ],
  ),
  [
    "an invalid requested amount",
    "charge",
    200,
    transaction({ requested_amount: "?" }),
    { ...SUCCESS, amountKobo: "unreadable" },
  ],
  ["no reference", "charge", 200, transaction({ reference: undefined }), unreadable(200)],
]

const saved = (over: object) => ({ ...SUCCESS, saved: { ...SAVED, ...over } })
const authorization = (over: object) => transaction({ authorization: { ...AUTHORIZATION, ...over } })

const METHODS: ReadonlyArray<Row> = [
  [
    "numbers for the expiry",
    "ask",
    200,
    authorization({ exp_month: 1, exp_year: 2031 }),
    saved({ exp_month: 1, exp_year: 2031 }),
  ],
  [
    "an invalid expiry",
    "ask",
    200,
    authorization({ exp_month: "13", exp_year: "30" }),
    saved({ exp_month: null, exp_year: null }),
  ],
  ["no brand, but a type", "ask", 200, authorization({ brand: null, card_type: "verve " }), saved({ brand: "verve" })],
  ["a longer number", "ask", 200, authorization({ last4: "408408" }), saved({ last4: "4084" })],
  [
    "a long brand and bank",
    "ask",
    200,
    authorization({ brand: "v".repeat(40), bank: "b".repeat(200) }),
    saved({ brand: "v".repeat(30), bank_name: "b".repeat(100) }),
  ],
  [
    "a bank account",
    "ask",
    200,
    authorization({ channel: "direct_debit", brand: "Zenith Emandate", exp_month: "12" }),
    saved({ type: "bank_account", brand: null, exp_month: null, exp_year: null }),
  ],
  [
    "a bank account by its other name",
    "ask",
    200,
    authorization({ channel: "bank" }),
    saved({ type: "bank_account", brand: null, exp_month: null, exp_year: null }),
  ],
  [
    "invalid texts",
    "ask",
    200,
    authorization({ bank: 7, last4: {}, signature: [] }),
    saved({ bank_name: null, last4: null, signature: null }),
  ],
  ...[false, null, "true"].map(
    (reusable): Row => [`reusable: ${reusable}`, "ask", 200, authorization({ reusable }), { ...SUCCESS, saved: null }],
  ),
  ["not marked as reusable or not", "ask", 200, authorization({ reusable: undefined }), SUCCESS],
  ["no authorization", "ask", 200, transaction({ authorization: null }), { ...SUCCESS, saved: null }],
  [
    "a token that is too long",
    "ask",
    200,
    authorization({ authorization_code: "A".repeat(501) }),
    { ...SUCCESS, saved: null },
  ],
  ["no e-mail", "ask", 200, transaction({ customer: {} }), { ...SUCCESS, saved: { ...SUCCESS.saved, email: null } }],
]

const REFUND = { id: 3018284, status: "pending", amount: 5_000, currency: "NGN", transaction: { reference: SENT } }
const refund = (over: object) => ({ status: true, message: "Refund has been queued", data: { ...REFUND, ...over } })
const refundResult = (status: string) => ({ kind: "refund", status, refundId: "3018284", message: null })

const OTHERS: ReadonlyArray<Row> = [
  ["a verified payment", "ask", 200, transaction({}), SUCCESS],
  [
    "a 64-bit number",
    "ask",
    200,
    JSON.stringify(transaction({})).replace("4099490251", "18446744073709551615"),
    { ...SUCCESS, railId: "18446744073709551615" },
  ],
  ["an unknown reference, 404", "ask", 404, refusal("Transaction reference not found."), { kind: "unknown_reference" }],
  [
    "an unknown reference, 400",
    "ask",
    400,
    refusal("Transaction not found", { type: "validation_error", code: "transaction_not_found" }),
    { kind: "unknown_reference" },
  ],
  ["another 404 of Paystack's", "ask", 404, refusal("Route unknown"), unclear("Route unknown")],
  ["an unknown reference, in other words", "ask", 404, refusal("No such thing here"), { kind: "unknown_reference" }],
  ["an unknown reference, 400 in other words", "ask", 400, refusal("Unknown reference"), { kind: "unknown_reference" }],
  ["a 404 of another server", "ask", 404, { error: "not found" }, unreadable(404)],
  ["a refused question: the payment's state is unknown", "ask", 400, refusal("Declined"), unclear("Declined")],
  ["a question with a wrong key", "ask", 401, refusal("Invalid key"), refused("rail_misconfigured", "Invalid key")],
  [
    "a page",
    "openPage",
    200,
    { status: true, data: { authorization_url: "https://checkout.paystack.com/3ni8kdavz62431k", access_code: "3ni8" } },
    { kind: "page", url: "https://checkout.paystack.com/3ni8kdavz62431k" },
  ],
  [
    "a page on this machine",
    "openPage",
    200,
    { status: true, data: { authorization_url: "http://127.0.0.1:9/p" } },
    { kind: "page", url: "http://127.0.0.1:9/p" },
  ],
  ...[
    "http://checkout.paystack.com/x",
    "javascript:alert(1)",
    "/x",
    "https://a@b/x",
    `https://x/${"x".repeat(2_000)}`,
    5,
  ].map(
    (url): Row => [
      `a page at ${String(url).slice(0, 40)}`,
      "openPage",
      200,
      { status: true, data: { authorization_url: url } },
      unreadable(200),
    ],
  ),
  [
    "a page for a reference used before",
    "openPage",
    400,
    refusal("Duplicate Transaction Reference"),
    unclear("Duplicate Transaction Reference"),
  ],
  ["a page refused", "openPage", 400, refusal("Invalid Amount Sent"), refused("amount_invalid", "Invalid Amount Sent")],
  ...(
    [
      ["pending", "pending"],
      ["processing", "pending"],
      ["needs-attention", "pending"],
      ["processed", "returned"],
      ["failed", "failed"],
    ] as const
  ).flatMap(
    ([status, meaning]): ReadonlyArray<Row> => [
      [`a refund that is ${status}`, "refund", 200, refund({ status }), refundResult(meaning)],
      [`a verified refund that is ${status}`, "askRefund", 200, refund({ status }), refundResult(meaning)],
    ],
  ),
  ["a refund in an unknown state", "refund", 200, refund({ status: "lost" }), unreadable(200)],
  ["a refund without a number", "refund", 200, refund({ id: null }), { ...refundResult("pending"), refundId: null }],
  [
    "a refund of a returned payment",
    "refund",
    400,
    refusal("Transaction has been fully reversed", { type: "api_error", code: "transaction_reversed" }),
    { kind: "refund", status: "returned", refundId: null, message: "Transaction has been fully reversed" },
  ],
  [
    "a refund refused",
    "refund",
    400,
    refusal("Balance too low", { type: "api_error" }),
    refused("processor_error", "Balance too low"),
  ],
  ["an unknown refund", "askRefund", 404, refusal("Refund not found"), { kind: "unknown_reference" }],
]

describe("the result of", () => {
  it.each([...CHARGES, ...METHODS, ...OTHERS])("%s (%s, HTTP %i)", async (_, call, status, body, expected) => {
    expect(await resultOf(call, status, body)).toEqual(expected)
  })

  it("its texts in one line, shortened, and without the secrets that they repeat", async () => {
    const message = `No  such\nkey\u0000 ${KEY} nor AUTH_uh8bcl3zbn`
    expect(await resultOf("charge", 401, refusal(message))).toEqual(
      refused("rail_misconfigured", "No such key … nor …"),
    )
    const cut = await resultOf("charge", 401, refusal(`${"x".repeat(495)} ${KEY} and more`))
    expect(cut).toEqual(refused("rail_misconfigured", `${"x".repeat(495)} … an`))
    const long = await resultOf("charge", 400, refusal("🙂".repeat(700)))
    expect(long).toEqual(refused("unknown_decline", "🙂".repeat(500)))
  })

  it("an account without a key, without a call", async () => {
    const found = await server.resultOf("paystack", (rail) => rail.charge(CHARGE, {}))
    expect(found).toMatchObject({ kind: "refused", code: "rail_misconfigured" })
    expect(server.sent).toEqual([])
  })
})

describe("the request", () => {
  const sentBy = async (call: CallName) => {
    await resultOf(call, 500, {})
    expect(server.sent).toHaveLength(1)
    const { method, path, headers, body } = server.sent[0]!
    expect(headers.authorization).toBe(`Bearer ${KEY}`)
    expect(headers["content-type"]).toBe(method === "POST" ? "application/json" : undefined)
    return [`${method} ${path}`, body === "" ? undefined : JSON.parse(body)]
  }

  it("for a charge", async () => {
    expect(await sentBy("charge")).toEqual([
      "POST /transaction/charge_authorization",
      {
        email: "Ada@example.com",
        amount: 250_000,
        currency: "NGN",
        reference: SENT,
        authorization_code: "AUTH_uh8bcl3zbn",
        metadata: META,
      },
    ])
  })

  it("for a page", async () => {
    expect(await sentBy("openPage")).toEqual([
      "POST /transaction/initialize",
      {
        email: "Ada@example.com",
        amount: 250_000,
        currency: "NGN",
        reference: SENT,
        callback_url: PAGE.returnUrl,
        channels: ["card", "bank", "ussd", "bank_transfer"],
        metadata: { ...META, cancel_action: PAGE.returnUrl },
      },
    ])
  })

  it("for a page that only saves a payment method: channels that can save one", async () => {
    await server.resultOf("paystack", (rail) => rail.openPage({ ...PAGE, amountKobo: 5_000 }, credentials))
    expect(JSON.parse(server.sent[0]!.body)).toMatchObject({ amount: 5_000, channels: ["card", "bank"] })
  })

  it("for questions and refunds", async () => {
    expect(await sentBy("ask")).toEqual([`GET /transaction/verify/${SENT}`, undefined])
    server.sent.splice(0)
    expect(await sentBy("refund")).toEqual(["POST /refund", { transaction: SENT, amount: 5_000 }])
    server.sent.splice(0)
    expect(await sentBy("askRefund")).toEqual(["GET /refund/3018284", undefined])
  })

  it("for a list, and the result", async () => {
    const listed = (body: unknown, status = 200) => {
      server.answer(saying(status, body))
      const listing = { since: Date.UTC(2026, 0, 1), until: Date.UTC(2026, 0, 2), page: 3 }
      return server.resultOf("paystack", (rail) => rail.list(listing, credentials))
    }
    const metadata = { account: "acct_1" }
    const made = { reference: SENT, metadata, created_at: "2026-01-01T09:00:00.000Z", paid_at: null }
    const paid = { reference: "order-1", paid_at: "2026-01-01 10:00:00" }
    const data = [made, paid, { reference: "not one\u0000" }, 5]
    expect(await listed({ status: true, data, meta: { pageCount: 7 } })).toEqual({
      kind: "listed",
      pages: 7,
      transactions: [
        { reference: CHARGE.reference, metadata, at: Date.UTC(2026, 0, 1, 9) },
        { reference: "order-1", metadata: null, at: Date.UTC(2026, 0, 1, 10) },
      ],
    })
    const from = encodeURIComponent("2026-01-01T00:00:00.000Z")
    const to = encodeURIComponent("2026-01-02T00:00:00.000Z")
    expect(server.sent[0]).toMatchObject({
      method: "GET",
      path: `/transaction?from=${from}&to=${to}&perPage=50&page=3`,
      headers: { authorization: `Bearer ${KEY}` },
    })
    expect(await listed({ status: true, data: [] })).toEqual({ kind: "listed", pages: null, transactions: [] })
    expect(await listed({ status: true, data: "none" })).toMatchObject({ kind: "unclear" })
    expect(await listed({ status: false, message: "Invalid key" }, 401)).toMatchObject({ kind: "refused" })
  })

  it("under the path of its address", async () => {
    const urls = { paystack: `${server.url()}/stand/in`, flutterwave: server.url() }
    await server.resultOf("paystack", CALLS.ask, { urls })
    expect(server.sent[0]!.path).toBe(`/stand/in/transaction/verify/${SENT}`)
  })
})
