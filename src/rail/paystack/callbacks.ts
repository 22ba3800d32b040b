/** Paystack's callbacks: whether one is genuine, and which reference it is about (decisions P12, P13). */
import { createHmac } from "node:crypto"
import { Redacted, Schema } from "effect"
import { parseExactly } from "../../json.ts"
import { isSame } from "../../sameSecret.ts"
import { Part, readerOf, referenceIn } from "../fields.ts"
import type { CallbackRequest, Credentials } from "../Rail.ts"
import { fromPaystack } from "./answers.ts"

/** `x-paystack-signature`: HMAC-SHA512 of the raw body with the secret key, in hexadecimal digits. */
export const isSigned = ({ headers, body }: CallbackRequest, { secret_key: key }: Credentials): boolean => {
  const given = headers["x-paystack-signature"]
  if (typeof given !== "string" || key === undefined || Redacted.value(key) === "") return false
  return isSame(given, createHmac("sha512", Redacted.value(key)).update(body).digest("hex"))
}

const readEvent = readerOf(
  Schema.Struct({
    event: Part,
    data: Schema.Struct({ reference: Part, transaction_reference: Part, transaction: Part }),
  }),
)
const readTransaction = readerOf(Schema.Struct({ reference: Schema.String }))

export const referenceOf = (body: Buffer): string | undefined => {
  const found = readEvent(parseExactly(body.toString("utf8")))
  if (found === undefined) return undefined
  const { event, data } = found
  const isRefund = typeof event === "string" && event.startsWith("refund.")
  const reference = referenceIn(
    isRefund
      ? (data.transaction_reference ?? readTransaction(data.transaction)?.reference ?? data.reference)
      : data.reference,
  )
  return reference === undefined ? undefined : fromPaystack(reference)
}
