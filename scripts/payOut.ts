/** The payouts of the simulated rail in a merchant's story: everything it took through June, two days later, minus 1.5 %. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { formatDay } from "../src/ledger/schedule.ts"
import type { SettledRow } from "../src/ledger/settlementFile.ts"
import { SettlementImport } from "../src/ledger/settlements.ts"

const UNTIL = "2026-07-01"
const FEE = 0.015
const DAYS_LATER = 2

/** Books them for an account, like a settlement file of the rail. */
export const payOut = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const payments = yield* sql<{ reference: string; kobo: number; day: number }>`
    SELECT e.charge_id AS reference, sum(l.amount_kobo)::bigint AS kobo, min(l.effective_on) - date '1970-01-01' AS day
    FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
    WHERE l.ledger_account = 'clearing' AND l.account_id = ${account} AND l.effective_on < ${UNTIL}::date GROUP BY 1 ORDER BY 1`
  const rows = payments.map(({ reference, kobo, day }, n): SettledRow => {
    const feeKobo = Math.round(kobo * FEE)
    const settledOn = formatDay(day + DAYS_LATER)
    return {
      row: n + 2,
      reference,
      amountKobo: kobo,
      feeKobo,
      paidOutKobo: kobo - feeKobo,
      settledOn,
      paidOn: formatDay(day),
      payout: `payout of ${settledOn}`,
    }
  })
  yield* sql.withTransaction(new SettlementImport("simulator").settle(rows))
})
