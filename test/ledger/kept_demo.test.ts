/** Tests `npm run demo -- --keep`: the queries of docs/ledger.md work on the installation afterwards. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Redacted } from "effect"
import { afterAll, expect, it } from "vitest"
import { useDatabase } from "../support/database.ts"
import { runToEnd } from "../support/server.ts"

const database = useDatabase()
const folder = mkdtempSync(join(tmpdir(), "recurring-billing-keep-"))
afterAll(() => rmSync(folder, { recursive: true }))

it("leaves the merchant and its books, and shows the commands for queries", async () => {
  const env = { DATABASE_URL: Redacted.value(database.url()), DATA_DIR: folder }
  const { code, output } = await runToEnd("scripts/demo.ts", ["--keep"], env)
  expect(code).toBe(0)
  const account = /SET billing\.account = '(acct_\w+)'/.exec(output)![1]!
  const chidi = /cus_chidi +(cus_\w+)/.exec(output)![1]!
  const [merchant] = await database.run(
    (sql) => sql`
      SELECT a.business_name, c.name, (SELECT count(*) FROM account WHERE business_name = 'Demo merchant') AS demo_accounts
      FROM account a JOIN customer c ON c.account_id = a.id AND c.id = ${chidi} WHERE a.id = ${account}`,
  )
  // `npm start` finds its demo account, with its key in DATA_DIR, as on a first start.
  expect(merchant).toEqual({ business_name: "Fit Lagos", name: "Chidi", demo_accounts: 1 })
  const balances = await database.run(
    (sql) => sql`
      SELECT ledger_account, balance_naira::text AS naira FROM finance.trial_balance
      WHERE account_id = ${account} AND NOT livemode AND ledger_account IN ('bank', 'clearing', 'rail_fees') ORDER BY 1`,
  )
  // The cookbook's first answer.
  expect(balances).toEqual([
    { ledger_account: "bank", naira: "1004674.58" },
    { ledger_account: "clearing", naira: "50000.00" },
    { ledger_account: "rail_fees", naira: "15299.61" },
  ])
})

it("is refused if NODE_ENV is production", async () => {
  const env = {
    DATABASE_URL: Redacted.value(database.url()),
    DATA_DIR: folder,
    NODE_ENV: "production",
    ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
  }
  const { code, output, errors } = await runToEnd("scripts/demo.ts", ["--keep"], env)
  expect(code).toBe(1)
  expect(output + errors).toContain("NODE_ENV is production")
})
