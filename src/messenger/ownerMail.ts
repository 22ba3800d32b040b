/** Sends what accounts' owners are written (src/account/ownerEmail.ts), where e-mail is set up. */
import { Effect, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { SECOND_MS } from "../time.ts"
import { Messengers } from "./layer.ts"
import type { Mailer } from "./smtp.ts"

const LOOK_EVERY_MS = 2 * SECOND_MS
/** An address that refuses for good is given up; anything else is tried again with the next look. */
const AFTER_FAILURE_MS = 30 * SECOND_MS
const SENDER = "Recurring Billing"

interface OwnerEmail {
  readonly id: string
  readonly recipient: string
  readonly subject: string
  readonly body: string
}

/** Sends the oldest that waits and nobody else has in hand; a crash sends it again, under the same Message-ID. */
const sendOne = (mailer: Mailer) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const [mail] = yield* sql<OwnerEmail>`
          SELECT id, recipient, subject, body FROM owner_email WHERE sent_at IS NULL ORDER BY created_at LIMIT 1 FOR UPDATE SKIP LOCKED`
        if (mail === undefined) return false
        const { id, recipient: to, subject, body: text } = mail
        yield* mailer
          .send({ id, to, sender: SENDER, subject, text })
          .pipe(Effect.catchTag("Refused", ({ reason }) => Effect.logError("owner e-mail refused", { id, reason })))
        yield* sql`UPDATE owner_email SET sent_at = now() WHERE id = ${id}`
        return true
      }),
    )
  })

/** Sends for as long as the scope is open. */
export const ownerMailWorker = Effect.gen(function* () {
  const { mailer } = yield* Messengers
  if (mailer === undefined) return
  const all = Effect.repeat(sendOne(mailer), { while: (sent) => sent }).pipe(
    Effect.tapCause((cause) => Effect.andThen(Effect.logError("owner e-mails", cause), Effect.sleep(AFTER_FAILURE_MS))),
    Effect.ignoreCause,
  )
  yield* Effect.forkScoped(Effect.repeat(all, Schedule.spaced(LOOK_EVERY_MS)))
})
