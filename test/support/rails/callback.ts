/** Makes callbacks as a rail would post them, and forged ones. */
import { Books, Numbers } from "./books.ts"
import type { Transaction } from "./transaction.ts"
import { type Callback, encode, type Merchant, type Signature, type Wire } from "./wire.ts"

export interface CallbackOptions {
  /** Replaces the rail's true values. They may be false. */
  readonly event?: string
  readonly data?: Readonly<Record<string, unknown>>
  readonly signature?: Signature
  /** The merchant. Default: the merchant of the reference, or the first. */
  readonly merchant?: Merchant
}

export type Forgery = "wrong_signature" | "unsigned" | "other_account" | "changed_body"

export const signed = (wire: Wire, merchant: Merchant, body: unknown, signature: Signature): Callback => {
  const text = encode(body)
  return { headers: wire.sign(merchant, text, signature), body: text }
}

/** An unknown transaction: it is in no books. */
export const invented = ({ numbering, spelling }: Wire, reference: string): Transaction => {
  const books = new Books(new Numbers(numbering), spelling, () => {})
  const transaction = books.open({
    reference: spelling(reference),
    amountKobo: 500_000,
    currency: "NGN",
    email: "nobody@example.com",
    channel: "token",
    at: 0,
    metadata: null,
  })
  books.apply(transaction)
  return transaction
}

/** The rail's view of a transaction, or its view if it had succeeded. */
export const callbackFor = (
  wire: Wire,
  merchant: Merchant,
  transaction: Transaction,
  now: number,
  { event, data, signature = "hmac" }: CallbackOptions,
): Callback => {
  const announcement =
    wire.announce({ kind: "transaction", transaction }, now) ??
    wire.announce({ kind: "transaction", transaction: { ...transaction, status: "succeeded" } }, now)!
  return signed(
    wire,
    merchant,
    { ...announcement, event: event ?? announcement.event, data: { ...announcement.data, ...data } },
    signature,
  )
}

/** The same callback, forged. */
export const forged = (wire: Wire, callback: Callback, how: Forgery, merchant: Merchant): Callback => {
  switch (how) {
    case "unsigned":
      return { ...callback, headers: {} }
    case "wrong_signature":
      return { ...callback, headers: Object.fromEntries(Object.keys(callback.headers).map((name) => [name, "0000"])) }
    case "other_account": {
      const other = { ...merchant, secretKey: "sk_live_of_another", webhookSecret: "another merchant's secret" }
      const signature = "verif-hash" in callback.headers ? "hash" : "hmac"
      return { ...callback, headers: wire.sign(other, callback.body, signature) }
    }
    case "changed_body":
      return { ...callback, body: `${callback.body.slice(0, -1)},"more":true}` }
  }
}
