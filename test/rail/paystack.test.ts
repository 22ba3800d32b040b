/** Paystack's documented answers, and what is heard of them (decisions P9, P10, P12). */
import { createHmac } from "node:crypto"
import { Redacted } from "effect"
import { describe, expect, it } from "vitest"
import type { Heard, PagePayment, Rail, TokenCharge } from "../../src/rail/Rail.ts"
import { credentialsOf, KEYS, saying, useRailServer } from "../support/railServer.ts"

const server = useRailServer()
const credentials = credentialsOf("paystack")
const KEY = KEYS.paystack.secret_key!

const CHARGE: TokenCharge = {
  reference: "chg_01m7yyp0a6e08v7r97jkyz1pj0",
  amountKobo: 250_000,
  token: Redacted.make("AUTH_uh8bcl3zbn"),
  email: "Ada@example.com",
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

/** What is heard of a call that is answered so; the saved token as text. */
const heard = async (call: CallName, status: number, body: unknown, headers = {}) => {
  server.answer(saying(status, body, headers))
  const found: Heard = await server.hear<Heard>("paystack", CALLS[call])
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
const HEARD = {
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
  ...HEARD,
  status: "failed",
  code,
  message,
  saved: null,
  ...over,
})
const open = (status: string, message: string | null) => ({ ...HEARD, status, message, saved: null })
const refused = (code: string, message: string | null) => ({ kind: "refused", code, message })
const unclear = (message: string, reached = true) => ({ kind: "unclear", message, reached })
const unreadable = (status: number) => unclear(`an answer that cannot be read (HTTP ${status})`)
/** Made of no transaction of Paystack's. */
const unmade = { railId: null }

type Row = readonly [what: string, call: CallName, status: number, body: unknown, heard: object]

const CHARGES: ReadonlyArray<Row> = [
  ["success", "charge", 200, transaction({}), HEARD],
  [
    "declined",
    "charge",
    200,
    transaction({ status: "failed", gateway_response: "Insufficient Funds" }),
    failed("insufficient_funds", "Insufficient Funds"),
  ],
]

describe("what is heard of", () => {
  it.each(CHARGES)("%s (%s, HTTP %i)", async (_, call, status, body, expected) => {
    expect(await heard(call, status, body)).toEqual(expected)
  })
})
