/** E-mail by SMTP. */
import { Effect, Redacted, Semaphore } from "effect"
import { createTransport } from "nodemailer"
import { SECOND_MS } from "../../base/time.ts"
import type { SmtpSettings } from "../../config/Config.ts"
import { Busy, type ChannelMessenger, Refused, type SendError, wholeText } from "./Messenger.ts"

const CONNECT_MS = 10 * SECOND_MS
const SILENCE_MS = 12 * SECOND_MS
/** From the turn of a mail to its end: a little longer than a silence, so that it is the mail that fails. */
const LIMIT_MS = 15 * SECOND_MS
/** Mails under way; the next waits here rather than in the library, which could not forget it. */
const CONNECTIONS = 20

export interface Mail {
  /** Unique for ever: a mail that is sent again carries the same Message-ID. */
  readonly id: string
  readonly to: string
  readonly sender: string
  readonly subject: string
  readonly text: string
}

export interface Mailer {
  readonly send: (mail: Mail) => Effect.Effect<void, SendError>
}

/** 5xx is for good, 4xx for now; without an answer it is sent again, under the same Message-ID. */
const failureOf = (error: unknown): SendError => {
  const { responseCode, command } = error as { readonly responseCode?: number; readonly command?: string }
  if (responseCode === undefined || responseCode < 500) return new Busy({ retryAfterMs: null })
  return new Refused({ reason: command === "RCPT TO" ? "address_rejected" : "message_rejected" })
}

export const createMailer = ({ url, from }: SmtpSettings): Mailer => {
  const transport = createTransport({
    url: Redacted.value(url),
    pool: true,
    maxConnections: CONNECTIONS,
    connectionTimeout: CONNECT_MS,
    greetingTimeout: CONNECT_MS,
    socketTimeout: SILENCE_MS,
  })
  const turns = Semaphore.makeUnsafe(CONNECTIONS)
  const domain = from.slice(from.lastIndexOf("@") + 1)
  return {
    send: ({ id, to, sender, subject, text }) =>
      Effect.tryPromise({
        try: () =>
          transport.sendMail({
            messageId: `<${id}@${domain}>`,
            from: { name: sender, address: from },
            to: { name: "", address: to },
            subject,
            text,
          }),
        catch: failureOf,
      }).pipe(
        Effect.timeoutOrElse({ duration: LIMIT_MS, orElse: () => Effect.fail(new Busy({ retryAfterMs: null })) }),
        turns.withPermits(1),
        Effect.asVoid,
      ),
  }
}

/** Accepted is sent, never delivered: nobody tells. */
export const email = (mailer: Mailer): ChannelMessenger => ({
  repeatable: true,
  atOnce: CONNECTIONS,
  send: (message) =>
    Effect.as(mailer.send({ ...message, text: wholeText(message) }), { messageId: null, receiptAt: null }),
})
