/** Sends e-mail by SMTP. */
import { Effect, Redacted, Semaphore } from "effect"
import { createTransport } from "nodemailer"
import { SECOND_MS } from "../../base/time.ts"
import type { SmtpSettings } from "../../config/Config.ts"
import { Busy, type ChannelMessenger, Refused, type SendError, wholeText } from "./Messenger.ts"

const CONNECT_MS = 10 * SECOND_MS
const SOCKET_TIMEOUT_MS = 12 * SECOND_MS
/** The limit for sending one mail. A little longer than the socket timeout, so that the socket fails first. */
const LIMIT_MS = 15 * SECOND_MS
/** Mails in flight. Others wait here, not in the library, which cannot cancel a queued mail. */
const CONNECTIONS = 20

export interface Mail {
  /** Unique. A mail that is sent again has the same Message-ID. */
  readonly id: string
  readonly to: string
  readonly sender: string
  readonly subject: string
  readonly text: string
}

export interface Mailer {
  readonly send: (mail: Mail) => Effect.Effect<void, SendError>
}

/** 5xx is final, 4xx is temporary. Without an answer the mail is sent again, with the same Message-ID. */
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
    socketTimeout: SOCKET_TIMEOUT_MS,
  })
  const permits = Semaphore.makeUnsafe(CONNECTIONS)
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
        permits.withPermits(1),
        Effect.asVoid,
      ),
  }
}

/** The e-mail channel. SMTP reports acceptance only, so an e-mail nudge is never `delivered`. */
export const email = (mailer: Mailer): ChannelMessenger => ({
  repeatable: true,
  atOnce: CONNECTIONS,
  send: (message) =>
    Effect.as(mailer.send({ ...message, text: wholeText(message) }), { messageId: null, receiptAt: null }),
})
