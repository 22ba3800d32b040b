/** Reads Paystack's callbacks: their signature, and the reference that they are about (decisions P12, P13). */
import { createHmac } from "node:crypto"
import { Redacted, Schema } from "effect"
import { parseExactly } from "../../../base/json.ts"
import { isSame } from "../../../base/sameSecret.ts"
import { Part, readerOf, referenceIn } from "../fields.ts"
import type { CallbackNotice, CallbackRequest, Credentials } from "../Rail.ts"
import { fromPaystack, isDenial } from "./answers.ts"

/** Checks `x-paystack-signature`: HMAC-SHA512 of the raw body with the secret key, in hexadecimal digits. */
export const isSigned = ({ headers, body }: CallbackRequest, { secret_key: key }: Credentials): boolean => {
  const given = headers["x-paystack-signature"]
  if (typeof given !== "string" || key === undefined || Redacted.value(key) === "") return false
  return isSame(given, createHmac("sha512", Redacted.value(key)).update(body).digest("hex"))
}

const readEvent = readerOf(
  Schema.Struct({
    event: Part,
    data: Schema.Struct({ status: Part, reference: Part, transaction_reference: Part, transaction: Part }),
  }),
)
const readTransaction = readerOf(Schema.Struct({ reference: Schema.String }))

/** Reads the reference of a callback. Of refunds only a processed one denies the payment. */
export const announcementIn = (body: Buffer): CallbackNotice | undefined => {
  const found = readEvent(parseExactly(body.toString("utf8")))
  if (found === undefined) return undefined
  const { event, data } = found
  const isRefund = typeof event === "string" && event.startsWith("refund.")
  const reference = referenceIn(
    isRefund
      ? (data.transaction_reference ?? readTransaction(data.transaction)?.reference ?? data.reference)
      : data.reference,
  )
  if (reference === undefined) return undefined
  return { reference: fromPaystack(reference), denies: isRefund ? event === "refund.processed" : isDenial(data.status) }
}
