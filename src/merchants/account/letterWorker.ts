/** Sends the queued e-mails to owners and members of accounts (letters.ts), if e-mail is configured. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { SECOND_MS } from "../../base/time.ts"
import { isRef, type Ref, staysHere } from "../../db/tenant.ts"
import { Messengers } from "../../outbound/messenger/layer.ts"
import type { Mailer } from "../../outbound/messenger/smtp.ts"
import { every } from "../../process/workers.ts"

const POLL_MS = 2 * SECOND_MS
const MAX_BATCH = 10
/** A mail that could not be sent is retried after a minute, then after twice the time, up to an hour. */
const FIRST_RETRY_MINUTES = 1
const MAX_RETRY_MINUTES = 60
/** About a day of retries: a server that refuses a mail for so long will not accept it. */
const MAX_TRIES = 30
const SENDER = "Recurring Billing"

interface Waiting extends Ref {
  readonly recipient: string
  readonly subject: string
  readonly body: string
  /** Attempts so far, including this one. */
  readonly tries: number
}

/** Takes the due mails and sets their next try in the same statement. After a crash they are sent again, with the same Message-ID. */
const take = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Waiting>`
    UPDATE letter SET tries = least(tries + 1, ${MAX_TRIES}::integer),
      next_try_at = now() + make_interval(mins => least(${FIRST_RETRY_MINUTES} * (2 ^ least(tries, 10))::integer, ${MAX_RETRY_MINUTES}::integer))
    WHERE (account_id, livemode, id) IN (
      SELECT account_id, livemode, id FROM letter o
      WHERE sent_at IS NULL AND failure_reason IS NULL AND next_try_at <= now() AND ${staysHere(sql, "o")}
      ORDER BY next_try_at LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED
    ) RETURNING account_id, livemode, id, recipient, subject, body, tries`
})

/** Empties a secret letter that is not sent again: its subject may contain a code, too. */
const emptied = (sql: SqlClient.SqlClient) =>
  sql`subject = CASE WHEN is_secret THEN '' ELSE subject END, body = CASE WHEN is_secret THEN '' ELSE body END`

const send = Effect.fnUntraced(function* (mailer: Mailer, mail: Waiting) {
  const sql = yield* SqlClient.SqlClient
  const { id, recipient: to, subject, body: text } = mail
  yield* mailer.send({ id, to, sender: SENDER, subject, text }).pipe(
    Effect.matchEffect({
      onSuccess: () => Effect.asVoid(sql`UPDATE letter SET sent_at = now(), ${emptied(sql)} WHERE ${isRef(sql, mail)}`),
      onFailure: (error) =>
        error._tag === "Refused" && (error.reason === "address_rejected" || mail.tries >= MAX_TRIES)
          ? Effect.asVoid(
              sql`UPDATE letter SET failure_reason = ${error.reason}, ${emptied(sql)} WHERE ${isRef(sql, mail)}`,
            )
          : Effect.logError("a letter was not sent, it will be tried again", { id, error: error._tag }),
    }),
  )
})

/** Sends queued mails while the scope is open. */
export const letterWorker = Effect.gen(function* () {
  const { mailer } = yield* Messengers
  if (mailer === undefined) return
  const sendDue = Effect.flatMap(take, (mails) =>
    Effect.forEach(mails, (mail) => send(mailer, mail), { concurrency: MAX_BATCH, discard: true }),
  )
  yield* every("letters", POLL_MS, sendDue)
})
