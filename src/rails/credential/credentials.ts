/** Credentials given, replaced and forgotten, and the rail that an account is on. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { staysHere } from "../../db/tenant.ts"
import { type AccountRow, lockAccount } from "../../merchants/account/accounts.ts"
import { type Credentials, isOutside, type OutsideRail, type RailName } from "../rail/Rail.ts"
import { type CredentialRef, sealCredentials } from "./credential.ts"

/** For how long callbacks may be signed with what was replaced (decision P12). */
export const REPLACED_FOR = "1 hour"
/** Deleted in one transaction. */
const MAX_PURGED = 1_000

/** Lets new payment methods of an account, which is locked, come from this rail (decision P4). */
const setRail = Effect.fnUntraced(function* (id: string, rail: RailName) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`UPDATE account SET rail = ${rail} WHERE id = ${id} RETURNING *`
  return row!
})

/**
 * Gives an account the credentials of a rail in the place of those that it had there, and switches it to that rail. Returns
 * the account; undefined: there is no such account.
 */
export const giveCredentials = Effect.fn("credential.give")(function* (
  accountId: string,
  rail: OutsideRail,
  credentials: Credentials,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      // With the account locked, one at a time replaces what is there.
      if ((yield* lockAccount(accountId)) === undefined) return undefined
      const ref: CredentialRef = { account_id: accountId, rail, id: newId("rail_credential") }
      yield* sql`
        UPDATE rail_credential SET replaced_at = clock_timestamp()
        WHERE rail = ${rail} AND account_id = ${accountId} AND livemode AND replaced_at IS NULL`
      yield* sql`
        INSERT INTO rail_credential (account_id, livemode, id, rail, sealed, created_at)
        VALUES (${accountId}, true, ${ref.id}, ${rail}, ${yield* sealCredentials(ref, credentials)}, clock_timestamp())`
      return yield* setRail(accountId, rail)
    }),
  )
})

/**
 * Switches an account to another rail, with the credentials that it was given there before. Undefined: there is no such
 * account; refused: it has none.
 */
export const switchRail = Effect.fn("credential.switch")(function* (accountId: string, rail: RailName) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const account = yield* lockAccount(accountId)
      if (account === undefined) return undefined
      if (isOutside(rail)) {
        const given = yield* sql`
          SELECT 1 FROM rail_credential WHERE rail = ${rail} AND account_id = ${accountId} AND livemode AND replaced_at IS NULL`
        if (given.length === 0) return { account, refused: true }
      }
      return { account: yield* setRail(accountId, rail), refused: false }
    }),
  )
})

/** Deletes credentials that were replaced, once no callback may be signed with them any more. */
export const purgeReplaced = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let purged = MAX_PURGED
  while (purged === MAX_PURGED) {
    const gone = yield* sql`
      DELETE FROM rail_credential WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM rail_credential c
        WHERE replaced_at < now() - ${REPLACED_FOR}::interval AND ${staysHere(sql, "c")} LIMIT ${MAX_PURGED}
      ) RETURNING 1`
    purged = gone.length
  }
})
