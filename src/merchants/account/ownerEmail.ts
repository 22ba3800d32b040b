/** E-mails to the owners of accounts: written in the transaction of what they are about, sent by a messenger. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import type { Tenant } from "../../db/tenant.ts"

/** Writes to an account's owner; one whose address nobody knows gets nothing. */
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
