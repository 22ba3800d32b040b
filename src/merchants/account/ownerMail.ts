/** Sends what accounts' owners are written (ownerEmail.ts), where e-mail is set up. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { SECOND_MS } from "../../base/time.ts"
import { isRef, type Ref, staysHere } from "../../db/tenant.ts"
import { Messengers } from "../../outbound/messenger/layer.ts"
import type { Mailer } from "../../outbound/messenger/smtp.ts"
import { every } from "../../process/workers.ts"

const LOOK_EVERY_MS = 2 * SECOND_MS
const MAX_BATCH = 10
/** A mail that could not be sent is tried again after a minute, then after twice as long each time, up to an hour. */
const FIRST_RETRY_MINUTES = 1
const MAX_RETRY_MINUTES = 60
/** A day: what the server refuses for so long it will not take. */
const MAX_TRIES = 30
const SENDER = "Recurring Billing"

interface OwnerEmail extends Ref {
  readonly recipient: string
  readonly subject: string
  readonly body: string
  /** How often it was tried, this try included. */
  readonly tries: number
}

/** Takes the mails whose turn has come. Their next turn is set at once: a crash sends them again, with the same Message-ID. */
const take = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<OwnerEmail>`
    UPDATE owner_email SET tries = least(tries + 1, ${MAX_TRIES}::integer),
      next_try_at = now() + make_interval(mins => least(${FIRST_RETRY_MINUTES} * (2 ^ least(tries, 10))::integer, ${MAX_RETRY_MINUTES}::integer))
    WHERE (account_id, livemode, id) IN (
      SELECT account_id, livemode, id FROM owner_email o
      WHERE sent_at IS NULL AND failure_reason IS NULL AND next_try_at <= now() AND ${staysHere(sql, "o")}
      ORDER BY next_try_at LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED
    ) RETURNING account_id, livemode, id, recipient, subject, body, tries`
})

const send = Effect.fnUntraced(function* (mailer: Mailer, mail: OwnerEmail) {
  const sql = yield* SqlClient.SqlClient
  const { id, recipient: to, subject, body: text } = mail
  yield* mailer.send({ id, to, sender: SENDER, subject, text }).pipe(
    Effect.matchEffect({
      onSuccess: () => Effect.asVoid(sql`UPDATE owner_email SET sent_at = now() WHERE ${isRef(sql, mail)}`),
      onFailure: (error) =>
        error._tag === "Refused" && (error.reason === "address_rejected" || mail.tries >= MAX_TRIES)
          ? Effect.asVoid(sql`UPDATE owner_email SET failure_reason = ${error.reason} WHERE ${isRef(sql, mail)}`)
          : Effect.logError("owner e-mail is tried again later", { id, error: error._tag }),
    }),
  )
})

/** Sends for as long as the scope is open. */
export const ownerMailWorker = Effect.gen(function* () {
  const { mailer } = yield* Messengers
  if (mailer === undefined) return
  const look = Effect.flatMap(take, (mails) =>
    Effect.forEach(mails, (mail) => send(mailer, mail), { concurrency: MAX_BATCH, discard: true }),
  )
  yield* every("owner e-mails", LOOK_EVERY_MS, look)
})
