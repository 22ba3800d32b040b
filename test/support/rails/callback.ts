/** Callbacks as a rail would post them, and ones that only look so. */
import { Books, Numbers } from "./books.ts"
import type { Transaction } from "./transaction.ts"
import { type Callback, encode, type Merchant, type Signature, type Wire } from "./wire.ts"

export interface CallbackOptions {
  /** In place of what the rail would say; nothing of it has to be true. */
  readonly event?: string
  readonly data?: Readonly<Record<string, unknown>>
  readonly signature?: Signature
  /** Whose it is; default the merchant of the reference, or the first. */
  readonly merchant?: Merchant
}

export type Forgery = "wrong_signature" | "unsigned" | "other_account" | "changed_body"

export const signed = (wire: Wire, merchant: Merchant, body: unknown, signature: Signature): Callback => {
  const text = encode(body)
  return { headers: wire.sign(merchant, text, signature), body: text }
}

/** A transaction that nobody has heard of: it is in no books. */
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

/** What the rail says of a transaction, or would if it had succeeded. */
export const announcing = (
  wire: Wire,
  merchant: Merchant,
  transaction: Transaction,
  now: number,
  { event, data, signature = "hmac" }: CallbackOptions,
): Callback => {
  const told =
    wire.announce({ kind: "transaction", transaction }, now) ??
    wire.announce({ kind: "transaction", transaction: { ...transaction, status: "succeeded" } }, now)!
  return signed(wire, merchant, { ...told, event: event ?? told.event, data: { ...told.data, ...data } }, signature)
}

/** The same callback, not to be believed. */
export const forged = (wire: Wire, callback: Callback, how: Forgery, merchant: Merchant): Callback => {
  switch (how) {
    case "unsigned":
      return { ...callback, headers: {} }
    case "wrong_signature":
      return { ...callback, headers: Object.fromEntries(Object.keys(callback.headers).map((name) => [name, "0000"])) }
    case "other_account": {
      const other = { ...merchant, secretKey: "sk_live_somebody_else", webhookSecret: "a secret of somebody else" }
      const signature = "verif-hash" in callback.headers ? "hash" : "hmac"
      return { ...callback, headers: wire.sign(other, callback.body, signature) }
    }
    case "changed_body":
      return { ...callback, body: `${callback.body.slice(0, -1)},"more":true}` }
  }
}
