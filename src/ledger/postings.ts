/**
 * Posting rules: one table that maps each business event to its ledger lines. Pure. Amounts are kobo: debits are positive, credits
 * negative. An entry's `event` is the name of its rule.
 */
import { type Line, shareOf, totalOf } from "../../machines/billing.ts"
import type { LedgerAccount } from "./chart.ts"

export interface PostingLine {
  readonly account: LedgerAccount
  /** The rail of a clearing line; the customer, merchant or plan of a receivable, payable or deposit. */
  readonly detail: string | null
  readonly amountKobo: number
}

/** A bill or a one-off charge. */
export interface Sale {
  readonly lines: ReadonlyArray<Line>
  readonly customerId: string
  readonly rail: string
  /** VAT in basis points; prices include it. */
  readonly vatBps: number
}

/** A part of a sale: its net amount, and its VAT. */
export interface Split {
  readonly netKobo: number
  readonly vatKobo: number
}

interface Served {
  /** The earned amount; below zero if the days recognised more than was finally served. */
  readonly recognisedKobo: number
}

interface WrittenOff extends Pick<Sale, "lines" | "customerId"> {
  /** The part that was never served: its sale is reversed. */
  readonly unserved: Split
}

interface Money {
  readonly amountKobo: number
  readonly rail: string
  readonly customerId: string
}

interface ServiceInvoice {
  readonly amountKobo: number
  readonly merchant: string
  readonly vatKobo: number
}

interface Settled {
  readonly rail: string
  /** The rail's name for the payout, to match the bank statement. */
  readonly payout: string
  /** The amount that the books expect at the rail. */
  readonly amountKobo: number
  /** The rail's fee, and the amount that it paid out. */
  readonly feeKobo: number
  readonly paidOutKobo: number
}

/** The ledger accounts that can explain a balance that a settlement left in suspense (decision Q9). */
export const EXPLANATION_ACCOUNTS = [
  "rail_fees",
  "refunds_payable",
  "bad_debt",
  "bank",
] as const satisfies ReadonlyArray<LedgerAccount>
export type ExplanationAccount = (typeof EXPLANATION_ACCOUNTS)[number]

interface Explained {
  readonly as: ExplanationAccount
  /** The amount in suspense: above zero if the rail paid out too little. */
  readonly amountKobo: number
  readonly rail: string
  /** The payout of the settlement, and the customer of the payment. */
  readonly payout: string
  readonly customerId: string | null
}

interface Deposit {
  readonly amountKobo: number
  readonly rail: string
  /** The ID of the instalment plan. */
  readonly planId: string
  readonly customerId: string
}

const line = (account: LedgerAccount, amountKobo: number, detail: string | null = null): PostingLine => ({
  account,
  detail,
  amountKobo,
})

/** Returns the VAT that an amount includes, rounded half away from zero (decision B5). */
export const vatIn = (amountKobo: number, vatBps: number): number => shareOf(amountKobo, vatBps, 10_000 + vatBps)

const split = (amountKobo: number, vatBps: number): Split => {
  const vatKobo = vatIn(amountKobo, vatBps)
  return { netKobo: amountKobo - vatKobo, vatKobo }
}

const partOf = (lines: ReadonlyArray<Line>, types: ReadonlyArray<Line["type"]>, vatBps: number): Split =>
  split(totalOf(lines.filter(({ type }) => types.includes(type))), vatBps)

/** Returns the part of a sale that is not served yet: the period, less its credits. */
export const deferredIn = (lines: ReadonlyArray<Line>, vatBps: number): Split =>
  partOf(lines, ["plan", "proration"], vatBps)

/** Returns the credits of a sale: periods are deferred, reported units and one-off charges are earned. */
const sold = (lines: ReadonlyArray<Line>, vatBps: number): ReadonlyArray<PostingLine> => {
  const [period, usage, oneOff] = [
    deferredIn(lines, vatBps),
    partOf(lines, ["overage"], vatBps),
    partOf(lines, ["one_off"], vatBps),
  ]
  return [
    line("deferred_revenue", -period.netKobo),
    line("usage_revenue", -usage.netKobo),
    line("one_off_revenue", -oneOff.netKobo),
    line("output_vat", -(period.vatKobo + usage.vatKobo + oneOff.vatKobo)),
  ]
}

/** Moves deferred revenue to earned revenue. */
const earned = ({ recognisedKobo }: Served): ReadonlyArray<PostingLine> => [
  line("deferred_revenue", recognisedKobo),
  line("subscription_revenue", -recognisedKobo),
]

/** Books a payment that must be sent back. */
const owedBack = ({ amountKobo, rail, customerId }: Money): ReadonlyArray<PostingLine> => [
  line("clearing", amountKobo, rail),
  line("refunds_payable", -amountKobo, customerId),
]

interface Rule<Facts> {
  /** Describes the event, for readers of the books. */
  readonly meaning: string
  readonly lines: (facts: Facts) => ReadonlyArray<PostingLine>
}

const rule = <Facts>(meaning: string, lines: Rule<Facts>["lines"]): Rule<Facts> => ({ meaning, lines })

export const POSTINGS = {
  paid: rule("A bill or a one-off charge is paid when it is due.", ({ lines, rail, vatBps }: Sale) => [
    line("clearing", totalOf(lines), rail),
    ...sold(lines, vatBps),
  ]),
  owed: rule("A bill could not be collected: the customer owes it.", ({ lines, customerId, vatBps }: Sale) => [
    line("receivable", totalOf(lines), customerId),
    ...sold(lines, vatBps),
  ]),
  overdue_paid: rule("A customer pays an overdue bill.", ({ lines, rail, customerId }: Sale) => [
    line("clearing", totalOf(lines), rail),
    line("receivable", -totalOf(lines), customerId),
  ]),
  waived: rule("A bill is too small to charge: the customer does not pay, and there is no VAT.", ({ lines }: Sale) => [
    line("waived", totalOf(lines)),
    ...sold(lines, 0),
  ]),
  written_off: rule(
    "An overdue bill is written off: the served part is bad debt, the unserved part is reversed.",
    ({ lines, customerId, unserved }: WrittenOff) => [
      line("deferred_revenue", unserved.netKobo),
      line("output_vat", unserved.vatKobo),
      line("bad_debt", totalOf(lines) - unserved.netKobo - unserved.vatKobo),
      line("receivable", -totalOf(lines), customerId),
    ],
  ),
  recognised: rule("One day of service is earned, for all subscriptions of a plan.", earned),
  service_ended: rule("A subscription ends early: the rest of its period is recognised, without a refund.", earned),
  service_paused: rule("A subscription is paused with credit: the part served until then is recognised.", earned),
  service_resumed: rule(
    "A paused subscription resumes: the part of the interrupted period that is not credited is recognised.",
    earned,
  ),
  service_delivered: rule("A paid delivery is made.", earned),
  refund_due: rule("A payment succeeds after its subscription was cancelled or its instalment plan ended.", owedBack),
  excess: rule("A rail took more than the requested amount.", owedBack),
  contradicted: rule("A rail took a payment that it had reported as failed.", owedBack),
  verification: rule("A rail charges a card only to save it.", owedBack),
  refunded: rule("A rail sends back money that was owed to a customer.", ({ amountKobo, rail, customerId }: Money) => [
    line("refunds_payable", amountKobo, customerId),
    line("clearing", -amountKobo, rail),
  ]),
  settled: rule(
    "A rail pays out a payment, less its fee.",
    ({ rail, payout, amountKobo, feeKobo, paidOutKobo }: Settled) => [
      line("bank", paidOutKobo, payout),
      line("rail_fees", feeKobo, rail),
      line("clearing", -amountKobo, rail),
      line("suspense", amountKobo - feeKobo - paidOutKobo, rail),
    ],
  ),
  explained: rule(
    "A person explains a balance that a settlement left in suspense, and gives the reason.",
    ({ as, amountKobo, rail, payout, customerId }: Explained) => [
      line(as, amountKobo, { rail_fees: rail, refunds_payable: customerId, bad_debt: null, bank: payout }[as]),
      line("suspense", -amountKobo, rail),
    ],
  ),
  deposit_paid: rule("An instalment is paid.", ({ amountKobo, rail, planId }: Deposit) => [
    line("clearing", amountKobo, rail),
    line("buyer_deposits", -amountKobo, planId),
  ]),
  goods_delivered: rule(
    "The goods of an instalment plan are delivered.",
    ({ amountKobo, planId, vatKobo }: Omit<Deposit, "rail" | "customerId"> & Pick<Split, "vatKobo">) => [
      line("buyer_deposits", amountKobo, planId),
      line("goods_revenue", vatKobo - amountKobo),
      line("output_vat", -vatKobo),
    ],
  ),
  deposit_cancelled: rule(
    "An instalment plan is cancelled: the paid amount is owed back, less the fees.",
    ({ amountKobo, planId, customerId, feeKobo }: Omit<Deposit, "rail"> & Pick<Settled, "feeKobo">) => [
      line("buyer_deposits", amountKobo, planId),
      line("cancellation_fees", -feeKobo),
      line("refunds_payable", feeKobo - amountKobo, customerId),
    ],
  ),
  invoiced: rule(
    "A merchant is invoiced for a month of the service, in the service's own books.",
    ({ amountKobo, merchant, vatKobo }: ServiceInvoice) => [
      line("receivable", amountKobo, merchant),
      line("fee_revenue", vatKobo - amountKobo),
      line("output_vat", -vatKobo),
    ],
  ),
  invoice_paid: rule("A merchant pays a service invoice.", ({ amountKobo, merchant }: ServiceInvoice) => [
    line("bank", amountKobo),
    line("receivable", -amountKobo, merchant),
  ]),
  invoice_voided: rule("A service invoice is voided.", ({ amountKobo, merchant, vatKobo }: ServiceInvoice) => [
    line("fee_revenue", amountKobo - vatKobo),
    line("output_vat", vatKobo),
    line("receivable", -amountKobo, merchant),
  ]),
} as const

export type EntryEvent = keyof typeof POSTINGS
export type FactsOf<E extends EntryEvent> = Parameters<(typeof POSTINGS)[E]["lines"]>[0]

/** Returns the lines of an entry, without lines of zero. If none remain, there is no entry. */
export const linesOf = <E extends EntryEvent>(event: E, facts: FactsOf<E>): ReadonlyArray<PostingLine> => {
  const { lines } = POSTINGS[event] as Rule<FactsOf<E>>
  return lines(facts).filter(({ amountKobo }) => amountKobo !== 0)
}
