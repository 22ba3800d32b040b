/** Queues e-mails to account owners in the transaction that causes them. A worker sends them (ownerMail.ts). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import type { Tenant } from "../../db/tenant.ts"

/** Queues an e-mail to the account's owner, if the account has an address. */
export const emailOwner = Effect.fnUntraced(function* (
  { account_id, livemode }: Tenant,
  { subject, body }: { readonly subject: string; readonly body: string },
) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO owner_email (account_id, livemode, id, recipient, subject, body)
    SELECT id, ${livemode}, ${newId("owner_email")}, email, ${subject}, ${body} FROM account
    WHERE id = ${account_id} AND email IS NOT NULL`
})
