/** The text output of `invoice run`: the invoices, or why there are none. */
import { formatKobo } from "../base/money.ts"
import { dayInWords, monthInWords } from "../base/time.ts"
import type { DrawnUp } from "./invoicing.ts"
import { paragraphs, table } from "./table.ts"

const counted = (count: number, one: string, many: string): string => `${count} ${count === 1 ? one : many}`

/** Why accounts have no invoice, one sentence for each reason. */
const reasons = (all: ReadonlyArray<DrawnUp>, month: string): ReadonlyArray<string> => {
  const sum = (of: keyof DrawnUp["notBilled"]) => all.reduce((total, { notBilled }) => total + notBilled[of], 0)
  const [without, later, moving] = [sum("without"), sum("later"), sum("moving")]
  return [
    ...(without > 0
      ? [`${counted(without, "account has", "accounts have")} no access to live, which is what an invoice is for.`]
      : []),
    ...(later > 0 ? [`${counted(later, "account was", "accounts were")} let into live after ${month}.`] : []),
    ...(moving > 0
      ? [`${counted(moving, "account is", "accounts are")} moving to another cell, which draws up the invoice.`]
      : []),
  ]
}

/** Describes the invoices of a month that starts at `start`; `all` has the result of each cell. */
export const drawnInWords = (start: number, all: ReadonlyArray<DrawnUp>): string => {
  const month = monthInWords(start)
  const invoices = all.flatMap((one) => one.invoices)
  const drawn = invoices.filter(({ isNew }) => isNew).length
  const before = invoices.length - drawn
  const done =
    invoices.length === 0
      ? `There is no invoice for ${month}.`
      : `${month}: ${counted(drawn, "invoice", "invoices")} drawn up now, ${before} before.`
  return paragraphs(
    [done, ...(drawn === 0 ? reasons(all, month) : [])].join("\n"),
    invoices.length === 0
      ? undefined
      : table(
          ["invoice", "account", "status", "total", "due", "drawn up"],
          invoices.map(({ account, isNew, shown }) => [
            shown.id,
            account,
            shown.status,
            formatKobo(shown.total),
            dayInWords(Date.parse(shown.due_at)),
            isNew ? "now" : "before",
          ]),
        ),
  )
}
