/** Creates secrets and signatures of webhooks by the Standard Webhooks specification (decision I1). Pure except for random bytes. */
import { createHmac, randomBytes } from "node:crypto"
import { Redacted } from "effect"

const PREFIX = "whsec_"
const SECRET_BYTES = 32

export const newSecret = (): string => `${PREFIX}${randomBytes(SECRET_BYTES).toString("base64")}`

export const isSecret = (text: string): boolean => text.startsWith(PREFIX)

/** Returns the signature headers of a delivery. `at`: the time of sending (ms). `secrets`: the live ones. */
export const signedHeaders = (
  id: string,
  at: number,
  body: string,
  secrets: ReadonlyArray<Redacted.Redacted<string>>,
): Readonly<Record<string, string>> => {
  const timestamp = String(Math.floor(at / 1000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(Redacted.value(secret).slice(PREFIX.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.${body}`).digest("base64")}`
  })
  return { "webhook-id": id, "webhook-timestamp": timestamp, "webhook-signature": signatures.join(" ") }
}
