/** Reads an account from the database, as its merchant and its buyers see it. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"

/** The newest charge of an account, and its newest subscription that is not cancelled. */
export const newestOf = (account: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const [found] = yield* sql<{ charge: string | null; subscription: string | null }>`
      SELECT (SELECT id FROM charge WHERE account_id = ${account} AND purpose = 'sale' ORDER BY id DESC LIMIT 1) AS charge,
        (SELECT id FROM subscription WHERE account_id = ${account} AND status <> 'cancelled' ORDER BY id DESC LIMIT 1) AS subscription`
    return { charge: found?.charge ?? undefined, subscription: found?.subscription ?? undefined }
  })

/** Payments that buyers have not made yet on the pages of rails. */
export const paymentsOnPages = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ id: string }>`
      SELECT id FROM charge WHERE account_id = ${account} AND hosted AND status = 'pending' ORDER BY id`,
  )

/** Undecided charges, refunds (by their charges), and calls to make. */
export const undecidedOf = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ id: string; rail: OutsideRail; amount_kobo: number }>`
      SELECT id, rail, amount_kobo FROM charge WHERE account_id = ${account} AND status = 'pending'
      UNION ALL SELECT charge_id, rail, 0 FROM refund WHERE account_id = ${account} AND state NOT IN ('returned', 'failed.given_up')
      UNION ALL SELECT 'a call', rail, 0 FROM rail_call WHERE account_id = ${account}`,
  )
