/** The chart of accounts, the same as in migrations/0006_ledger.sql. */
export const LEDGER_ACCOUNTS = {
  clearing: "asset",
  receivable: "asset",
  bank: "asset",
  deferred_revenue: "liability",
  refunds_payable: "liability",
  output_vat: "liability",
  buyer_deposits: "liability",
  suspense: "liability",
  subscription_revenue: "revenue",
  usage_revenue: "revenue",
  one_off_revenue: "revenue",
  goods_revenue: "revenue",
  cancellation_fees: "revenue",
  fee_revenue: "revenue",
  bad_debt: "expense",
  waived: "expense",
  rail_fees: "expense",
} as const

export type LedgerAccount = keyof typeof LEDGER_ACCOUNTS

/** The account of the service's own books. It is not a merchant. */
export const SERVICE_ACCOUNT = "acct_service"
