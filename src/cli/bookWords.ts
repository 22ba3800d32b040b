/** The text output of the commands about the books. */
import type { Effect } from "effect"
import { formatKobo } from "../base/money.ts"
import type { Settlement, Unmatched } from "../ledger/settlements.ts"
import type { Explained } from "../ledger/suspense.ts"
import type { why } from "../ledger/why.ts"
import { paragraphs, table } from "./table.ts"

const environment = (livemode: boolean): string => (livemode ? "live" : "sandbox")

/** The meaning of each kind of row that does not match, and what to do. */
const MEANINGS: Readonly<Record<Unmatched["reason"], string>> = {
  unknown_reference: "our books have no such payment",
  other_rail: "another rail took it",
  amount_differs: "booked; the amount differs from ours, the difference is in suspense",
  payout_differs: "booked; paid out is not the amount less the fee, the difference is in suspense",
  booked_otherwise: "booked before with another fee or payout, which stays",
  dated_before_payment: "not booked: it is dated more than a month before its payment",
  duplicate: "not booked: the file has this payment before",
  not_paid_out: "not paid out yet",
  not_deducted: "sent back after it was paid out, and not deducted yet",
}

export const formatSettlement = ({ matched, fees, payouts, booked, unmatched }: Settlement): string =>
  paragraphs(
    table(
      ["what the file says", ""],
      [
        ["rows that match", matched],
        ["rows that do not", unmatched.filter(({ side }) => side === "file").length],
        ["entries booked now", booked],
        ["fees of the rail", formatKobo(fees)],
        ["paid out", formatKobo(payouts)],
      ],
    ),
    unmatched.length === 0
      ? undefined
      : table(
          ["row", "reference", "amount", "account", "why it does not match"],
          unmatched.map(({ row, reference, amount_kobo, account, reason }) => [
            row,
            reference,
            formatKobo(amount_kobo),
            account,
            `${reason}: ${MEANINGS[reason]}`,
          ]),
        ),
    unmatched.some(({ reason }) => reason === "amount_differs" || reason === "payout_differs")
      ? "What is in suspense ends with a later payout of what is missing, or by ledger explain REFERENCE --account A --as … --reason R."
      : undefined,
  )

export const formatExplained = ({
  entry,
  reference,
  account,
  livemode,
  effective_on,
  reason,
  lines,
}: Explained): string =>
  paragraphs(
    `${reference} of ${account} (${environment(livemode)}) is explained: ${reason}`,
    `Entry ${entry}, in the books of ${effective_on}:`,
    table(
      ["ledger account", "detail", "debit", "credit"],
      lines.map(({ ledger_account, detail, amount_kobo }) => [
        ledger_account,
        detail,
        amount_kobo > 0 ? formatKobo(amount_kobo) : null,
        amount_kobo < 0 ? formatKobo(-amount_kobo) : null,
      ]),
    ),
  )

type Why = Effect.Success<ReturnType<typeof why>>
type Environment = Why["environments"][number]

/** The last transition that contributed to an entry. */
const cause = ({ transitions }: Environment["entries"][number]): string | null => {
  const last = transitions.at(-1)
  return last === undefined ? null : `${last.actor} ${last.event}: ${last.from} → ${last.to}`
}

const environmentInWords = ({ livemode, balance_kobo, because, entries }: Environment): string =>
  paragraphs(
    `${environment(livemode)}: ${formatKobo(balance_kobo)}, made of`,
    table(
      ["entries", "of the kind", "amount", "meaning"],
      because.map((one) => [one.entries, one.event, formatKobo(one.kobo), one.meaning]),
    ),
    entries.length === 0 ? undefined : "The newest entries:",
    entries.length === 0
      ? undefined
      : table(
          ["day", "kind", "amount", "customer", "bill", "charge", "entry", "made by"],
          entries.map((one) => [
            one.effective_on,
            one.event,
            formatKobo(one.kobo),
            one.customer,
            one.bill_no,
            one.charge?.id ?? null,
            one.entry,
            one.reason ?? cause(one),
          ]),
        ),
  )

export const formatWhy = ({ account, ledger_account, customer, at, environments, schedules }: Why): string => {
  const of = customer === null ? account : `${customer} of ${account}`
  const when = at === null ? "now" : `at the end of ${at}`
  return paragraphs(
    `${ledger_account} of ${of}, ${when}. Debit is above zero, credit below.`,
    environments.length === 0 ? "Nothing is booked on it." : undefined,
    ...environments.map(environmentInWords),
    schedules.length === 0 ? undefined : "How the revenue of bills is recognised:",
    schedules.length === 0
      ? undefined
      : table(
          ["environment", "subscription", "bill", "plan", "from", "to", "amount", "recognised", "state"],
          schedules.map((one) => [
            environment(one.livemode),
            one.subscription,
            one.bill_no,
            one.plan,
            one.start_on,
            one.end_on,
            formatKobo(one.amount_kobo),
            formatKobo(one.recognised_kobo + one.recognised_at_once_kobo),
            one.state,
          ]),
        ),
  )
}
