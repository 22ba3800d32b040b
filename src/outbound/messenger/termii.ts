/** Sends SMS by Termii. */
import { createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import { isSame } from "../../base/sameSecret.ts"
import type { TermiiSettings } from "../../config/Config.ts"
import { postJson } from "./calls.ts"
import { type ChannelMessenger, forSms, NoAnswer, Refused, wholeText } from "./Messenger.ts"
import { type Callback, idIn, parse } from "./receipts.ts"

export const termii = ({ url, apiKey, from }: TermiiSettings): ChannelMessenger => ({
  repeatable: false,
  atOnce: 200,
  send: (message) =>
    Effect.gen(function* () {
      const { status, body } = yield* postJson(`${url}/api/sms/send`, {
        api_key: Redacted.value(apiKey),
        to: message.to.replace(/^\+/, ""),
        from,
        sms: forSms(wholeText(message)),
        type: "plain",
        // Also reaches numbers that refuse advertising.
        channel: "dnd",
      })
      const { code, message_id: id } = body
      if (status < 300 && (code === "ok" || (code === undefined && id !== undefined)))
        return { messageId: id === undefined ? null : String(id), receiptAt: null }
      const text = String(body.message ?? "")
      // The message may have been accepted.
      if (status < 300 && text === "") return yield* new NoAnswer({ cause: "the answer has no result" })
      if (status === 401 || status === 403 || /balance|api.?key|sender/i.test(text)) {
        // Without the answer's text: it may repeat the key.
        yield* Effect.logError("termii is misconfigured", { status })
        return yield* new Refused({ reason: "messenger_misconfigured" })
      }
      return yield* new Refused({
        reason: /phone|number|recipient/i.test(text) ? "number_unreachable" : "message_rejected",
      })
    }),
})

export const termiiCallback = ({ secret }: TermiiSettings): Callback => ({
  receipts: (headers, raw) => {
    const expected = createHmac("sha512", Redacted.value(secret)).update(raw).digest("hex")
    if (!isSame(String(headers["x-termii-signature"]), expected)) return undefined
    const { message_id: id, status: reported } = parse(raw)
    const status = typeof reported === "string" ? reported : ""
    const message = { channel: "sms" as const, nudgeId: null, messageId: idIn(id) }
    if (/fail|reject|expired|dnd|undeliver/i.test(status))
      return [{ ...message, delivered: false, reason: "number_unreachable" }]
    return /deliver/i.test(status) ? [{ ...message, delivered: true, reason: null }] : []
  },
  handshake: () => undefined,
})
