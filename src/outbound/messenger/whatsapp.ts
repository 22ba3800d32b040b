/** Sends WhatsApp messages by the Cloud API. Its templates must be approved (docs/operating.md lists them). */

import { createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import type { NudgeFailure } from "../../../machines/nudge.ts"
import { isId } from "../../base/ids.ts"
import { isSame } from "../../base/sameSecret.ts"
import type { WhatsAppSettings } from "../../config/Config.ts"
import { postJson } from "./calls.ts"
import { Busy, type ChannelMessenger, type Message, NoAnswer, Refused } from "./Messenger.ts"
import { type Callback, type Fields, fieldsOf, idIn, objectsIn, parse, type Receipt } from "./receipts.ts"

const NOT_ON_WHATSAPP = 131026
const THROTTLED = new Set([130429, 131056, 80007])
/** Errors of our configuration: a template that is not approved, billing, a locked account, a token. */
const MISCONFIGURED = new Set([132001, 131042, 131031, 190])

/** Translates a WhatsApp error code to the nudge's failure reason. */
const reasonOf = (code: unknown): NudgeFailure => {
  if (code === NOT_ON_WHATSAPP) return "not_on_whatsapp"
  return MISCONFIGURED.has(code as number) ? "messenger_misconfigured" : "message_rejected"
}

/** Template values must be one line without repeated spaces. */
const parameter = (value: string) => ({ type: "text", text: value.replaceAll(/\s+/g, " ") })

const bodyOf = ({ id, to, template }: Message, language: string) => ({
  messaging_product: "whatsapp",
  to: to.replace(/^\+/, ""),
  type: "template",
  template: {
    name: template.name,
    language: { code: language },
    components: [{ type: "body", parameters: template.values.map(parameter) }],
  },
  // WhatsApp returns it with every status.
  biz_opaque_callback_data: id,
})

export const whatsApp = ({ url, phoneNumberId, token, language }: WhatsAppSettings): ChannelMessenger => ({
  repeatable: false,
  atOnce: 200,
  send: (message) =>
    Effect.gen(function* () {
      const { status, body } = yield* postJson(`${url}/${phoneNumberId}/messages`, bodyOf(message, language), {
        authorization: `Bearer ${Redacted.value(token)}`,
      })
      const error = body.error as { readonly code?: number; readonly message?: string } | undefined
      if (status < 300 && error === undefined) {
        const [sent] = Array.isArray(body.messages) ? (body.messages as ReadonlyArray<{ readonly id?: unknown }>) : []
        if (typeof sent?.id === "string") return { messageId: sent.id, receiptAt: null }
        // The message may have been accepted.
        return yield* new NoAnswer({ cause: "the answer has no message ID" })
      }
      if (THROTTLED.has(error?.code ?? 0)) return yield* new Busy({ retryAfterMs: null })
      const reason = reasonOf(error?.code)
      if (reason === "messenger_misconfigured")
        // Only the code: the error's text may repeat the token.
        yield* Effect.logError("whatsapp is misconfigured", { code: error?.code })
      return yield* new Refused({ reason })
    }),
})

/** Reads a status as a receipt. A status without our data is about another sender's message from the same number: it is ignored. */
const receiptOf = ({ status, biz_opaque_callback_data: data, errors }: Fields): ReadonlyArray<Receipt> => {
  const nudgeId = idIn(data)
  if (nudgeId === null || !isId("nudge", nudgeId)) return []
  const message = { channel: "whatsapp" as const, nudgeId, messageId: null }
  if (status === "delivered" || status === "read") return [{ ...message, delivered: true, reason: null }]
  return status === "failed" ? [{ ...message, delivered: false, reason: reasonOf(objectsIn(errors)[0]?.code) }] : []
}

export const whatsAppCallback = ({ appSecret, verifyToken }: WhatsAppSettings): Callback => ({
  receipts: (headers, raw) => {
    const expected = `sha256=${createHmac("sha256", Redacted.value(appSecret)).update(raw).digest("hex")}`
    if (!isSame(String(headers["x-hub-signature-256"]), expected)) return undefined
    // A call is a batch of updates: an unreadable one must not lose the others.
    return objectsIn(parse(raw).entry)
      .flatMap(({ changes }) => objectsIn(changes))
      .flatMap(({ value }) => objectsIn(fieldsOf(value).statuses))
      .flatMap(receiptOf)
  },
  handshake: (search) =>
    search.get("hub.mode") === "subscribe" && isSame(search.get("hub.verify_token") ?? "", Redacted.value(verifyToken))
      ? (search.get("hub.challenge") ?? "")
      : undefined,
})
