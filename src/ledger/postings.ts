/** Posting rules: what each business fact does in the books. Pure; debits positive, credits negative, kobo. */
import type { Line } from "../../machines/billing.ts"
import type { LedgerAccount } from "./chart.ts"

export interface PostingLine {
  readonly account: LedgerAccount
  /** The rail of a clearing line, the customer of a receivable one. */
  readonly detail: string | null
  readonly amountKobo: number
}

interface Billed {
  readonly lines: ReadonlyArray<Line>
  readonly customerId: string
  readonly rail: string
}

const line = (account: LedgerAccount, amountKobo: number, detail: string | null = null): PostingLine => ({
  account,
  detail,
  amountKobo,
})

const total = (lines: ReadonlyArray<Line>, keep: (line: Line) => boolean): number =>
  lines.filter(keep).reduce((sum, { amount }) => sum + amount, 0)

/** What was sold, as credits: periods in advance are deferred, reported units are earned. Zero parts are left out. */
const sold = (lines: ReadonlyArray<Line>): ReadonlyArray<PostingLine> =>
  [
    line("deferred_revenue", -total(lines, ({ type }) => type === "plan" || type === "proration")),
    line("usage_revenue", -total(lines, ({ type }) => type === "overage")),
    line("one_off_revenue", -total(lines, ({ type }) => type === "one_off")),
  ].filter(({ amountKobo }) => amountKobo !== 0)

const amount = (lines: ReadonlyArray<Line>): number => total(lines, () => true)

/** A bill paid when it was due: the money is at the rail, the period is still to be served. */
export const paid = ({ lines, rail }: Billed): ReadonlyArray<PostingLine> => [
  line("clearing", amount(lines), rail),
  ...sold(lines),
]

/** A bill that failed: the customer owes it. */
export const owed = ({ lines, customerId }: Billed): ReadonlyArray<PostingLine> => [
  line("receivable", amount(lines), customerId),
  ...sold(lines),
]

/** An overdue bill paid. */
export const overduePaid = ({ lines, rail, customerId }: Billed): ReadonlyArray<PostingLine> => [
  line("clearing", amount(lines), rail),
  line("receivable", -amount(lines), customerId),
]

/** An overdue bill given up: the period was never served, the units were. */
export const writtenOff = ({ lines, customerId }: Billed): ReadonlyArray<PostingLine> => {
  const served = total(lines, ({ type }) => type === "overage")
  return [
    line("deferred_revenue", amount(lines) - served),
    line("bad_debt", served),
    line("receivable", -amount(lines), customerId),
  ].filter(({ amountKobo }) => amountKobo !== 0)
}

/** A total too small to charge (decision E2): what is sold for it is given away. */
export const waived = ({ lines }: Billed): ReadonlyArray<PostingLine> =>
  [line("waived", amount(lines)), ...sold(lines)].filter(({ amountKobo }) => amountKobo !== 0)

/** A payment that succeeded after its subscription was cancelled: the money goes back (decision E15). */
export const refundDue = (amountKobo: number, rail: string, customerId: string): ReadonlyArray<PostingLine> => [
  line("clearing", amountKobo, rail),
  line("refunds_payable", -amountKobo, customerId),
]

/** What was owed back is back. */
export const refunded = (amountKobo: number, rail: string, customerId: string): ReadonlyArray<PostingLine> => [
  line("refunds_payable", amountKobo, customerId),
  line("clearing", -amountKobo, rail),
]

/** A merchant's month of the service itself, in the service's own books. */
export const invoiced = (amountKobo: number, merchant: string): ReadonlyArray<PostingLine> => [
  line("receivable", amountKobo, merchant),
  line("fee_revenue", -amountKobo),
]

export const invoicePaid = (amountKobo: number, merchant: string): ReadonlyArray<PostingLine> => [
  line("bank", amountKobo),
  line("receivable", -amountKobo, merchant),
]

/** Reverses {@link invoiced}. */
export const invoiceVoided = (amountKobo: number, merchant: string): ReadonlyArray<PostingLine> => [
  line("fee_revenue", amountKobo),
  line("receivable", -amountKobo, merchant),
]
