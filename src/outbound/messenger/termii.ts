/** SMS by Termii. */
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
        // Also reaches numbers that take no advertising.
        channel: "dnd",
      })
      const { code, message_id: id } = body
      if (status < 300 && (code === "ok" || (code === undefined && id !== undefined)))
        return { messageId: id === undefined ? null : String(id), receiptAt: null }
      const said = String(body.message ?? "")
      // It may have been taken.
      if (status < 300 && said === "") return yield* new NoAnswer({ cause: "an answer that says nothing" })
      if (status === 401 || status === 403 || /balance|api.?key|sender/i.test(said)) {
        // Without its words: they may repeat the key.
        yield* Effect.logError("termii is not set up right", { status })
        return yield* new Refused({ reason: "messenger_misconfigured" })
      }
      return yield* new Refused({
        reason: /phone|number|recipient/i.test(said) ? "number_unreachable" : "message_rejected",
      })
    }),
})

export const termiiCallback = ({ secret }: TermiiSettings): Callback => ({
  receipts: (headers, raw) => {
    const right = createHmac("sha512", Redacted.value(secret)).update(raw).digest("hex")
    if (!isSame(String(headers["x-termii-signature"]), right)) return undefined
    const { message_id: id, status: said } = parse(raw)
    const status = typeof said === "string" ? said : ""
    const which = { channel: "sms" as const, nudgeId: null, messageId: idIn(id) }
    if (/fail|reject|expired|dnd|undeliver/i.test(status))
      return [{ ...which, delivered: false, reason: "number_unreachable" }]
    return /deliver/i.test(status) ? [{ ...which, delivered: true, reason: null }] : []
  },
  handshake: () => undefined,
})
