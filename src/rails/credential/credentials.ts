/** Stores, replaces and deletes credentials, and sets the rail of an account. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { newId } from "../../base/ids.ts"
import { staysHere } from "../../db/tenant.ts"
import { type AccountRow, lockAccount } from "../../merchants/account/accounts.ts"
import { type Credentials, isOutside, OUTSIDE_RAILS, type OutsideRail, type RailName } from "../rail/Rail.ts"
import { type CredentialRef, sealCredentials } from "./credential.ts"

/** How long replaced credentials may still sign callbacks (decision P12). */
export const REPLACED_FOR = "1 hour"
/** Rows that one transaction deletes. */
const MAX_PURGED = 1_000

/** Makes this the rail of new payment methods of a locked account (decision P4). */
const setRail = Effect.fnUntraced(function* (id: string, rail: RailName) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<AccountRow>`UPDATE account SET rail = ${rail} WHERE id = ${id} RETURNING *`
  return row!
})

/**
 * Replaces the credentials of an account at a rail, and switches the account to that rail. Returns the account; undefined: the
 * account does not exist.
 */
export const replaceCredentials = Effect.fn("credential.give")(function* (
  accountId: string,
  rail: OutsideRail,
  credentials: Credentials,
) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      // The lock on the account makes replacements run one at a time.
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
 * Switches an account to another rail, with its stored credentials there. Undefined: the account does not exist; `refused`: it
 * has no credentials of the rail.
 */
export const switchRail = Effect.fn("credential.switch")(function* (accountId: string, rail: RailName) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql.withTransaction(
    Effect.gen(function* () {
      const account = yield* lockAccount(accountId)
      if (account === undefined) return undefined
      if (isOutside(rail)) {
        const current = yield* sql`
          SELECT 1 FROM rail_credential WHERE rail = ${rail} AND account_id = ${accountId} AND livemode AND replaced_at IS NULL`
        if (current.length === 0) return { account, refused: true }
      }
      return { account: yield* setRail(accountId, rail), refused: false }
    }),
  )
})

/** When the present credentials of an account at each rail were stored. */
export const credentialDates = Effect.fn("credential.dates")(function* (accountId: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ rail: OutsideRail; created_at: number }>`
    SELECT rail, created_at FROM rail_credential
    WHERE rail = ANY(${OUTSIDE_RAILS}::text[]) AND account_id = ${accountId} AND livemode AND replaced_at IS NULL`
  return new Map(rows.map(({ rail, created_at }) => [rail, created_at]))
})

/** Deletes replaced credentials, once they may no longer sign a callback. */
export const purgeReplaced = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let purged = MAX_PURGED
  while (purged === MAX_PURGED) {
    const deleted = yield* sql`
      DELETE FROM rail_credential WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM rail_credential c
        WHERE replaced_at < now() - ${REPLACED_FOR}::interval AND ${staysHere(sql, "c")} LIMIT ${MAX_PURGED}
      ) RETURNING 1`
    purged = deleted.length
  }
})
