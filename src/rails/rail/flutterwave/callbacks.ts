/** Reads Flutterwave's callbacks: their signature, and the reference that they are about (decisions P12, P13). */
import { createHmac } from "node:crypto"
import { Redacted, Schema } from "effect"
import { parseExactly } from "../../../base/json.ts"
import { isSame } from "../../../base/sameSecret.ts"
import { Part, readerOf, referenceIn } from "../fields.ts"
import type { CallbackNotice, CallbackRequest, Credentials } from "../Rail.ts"

/**
 * Checks `flutterwave-signature`: HMAC-SHA256 of the raw body with the webhook secret, in base64. Older accounts send
 * `verif-hash` instead, which is the secret itself.
 */
export const isSigned = ({ headers, body }: CallbackRequest, { webhook_secret: secret }: Credentials): boolean => {
  const { "flutterwave-signature": signature, "verif-hash": hash } = headers
  const key = secret === undefined ? "" : Redacted.value(secret)
  if (key === "" || typeof signature === "object" || typeof hash === "object") return false
  const expected = createHmac("sha256", key).update(body).digest("base64")
  return (signature !== undefined && isSame(signature, expected)) || (hash !== undefined && isSame(hash, key))
}

const readEvent = readerOf(Schema.Struct({ data: Part, txRef: Part, status: Part }))
const readData = readerOf(Schema.Struct({ tx_ref: Part, txRef: Part, status: Part }))

/** Reads `data.tx_ref`. Older callbacks have `txRef`, in `data` or beside it. */
export const announcementIn = (body: Buffer): CallbackNotice | undefined => {
  const event = readEvent(parseExactly(body.toString("utf8")))
  const data = readData(event?.data)
  const reference = referenceIn(data?.tx_ref ?? data?.txRef ?? event?.txRef)
  if (reference === undefined) return undefined
  return { reference, denies: (data?.status ?? event?.status) === "failed" }
}
