/** The chart of accounts, as migrations/0005_ledger.sql has it. */
export type LedgerAccount =
  | "clearing"
  | "receivable"
  | "deferred_revenue"
  | "refunds_payable"
  | "usage_revenue"
  | "one_off_revenue"
  | "bad_debt"
