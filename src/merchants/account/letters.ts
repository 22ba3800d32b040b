/** Queues e-mails to owners and members of accounts in the transaction that causes them. A worker sends them (letterWorker.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import type { Tenant } from "../../db/tenant.ts"

export interface Letter {
  readonly subject: string
  readonly body: string
}

/** Queues an e-mail to each owner of the account. */
export const emailOwners = Effect.fnUntraced(function* ({ account_id, livemode }: Tenant, { subject, body }: Letter) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO letter (account_id, livemode, id, recipient, subject, body)
    SELECT account_id, ${livemode}, ${newId("letter")} || '_' || row_number() OVER (ORDER BY id), email, ${subject}, ${body} FROM member
    WHERE account_id = ${account_id} AND livemode AND role = 'owner' AND joined_at IS NOT NULL AND removed_at IS NULL`
})

/** Queues an e-mail to one address. `isSecret`: its body signs the reader in, so it is not kept after it is sent. */
export const emailTo = Effect.fnUntraced(function* (
  { account_id, livemode }: Tenant,
  recipient: string,
  { subject, body }: Letter,
  isSecret = false,
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO letter ${sql.insert({ account_id, livemode, id: newId("letter"), recipient, subject, body, is_secret: isSecret })}`
})
