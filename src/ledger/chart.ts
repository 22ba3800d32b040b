/** The chart of accounts, as the migrations have it. */
export type LedgerAccount =
  | "clearing"
  | "receivable"
  | "deferred_revenue"
  | "refunds_payable"
  | "usage_revenue"
  | "one_off_revenue"
  | "bad_debt"
  | "waived"
  | "fee_revenue"
  | "bank"
