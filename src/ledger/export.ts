/** The books for other programs: hledger's journal format, and CSV. Pure; rows in, text out. */

export interface ExportedLine {
  readonly account_id: string
  readonly livemode: boolean
  readonly entry_id: string
  readonly event: string
  readonly effective_on: string
  readonly posted_at: string
  readonly line_no: number
  readonly ledger_account: string
  readonly kind: string
  readonly detail: string | null
  readonly currency: string
  readonly amount_kobo: number
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly charge_id: string | null
}

/** Kobo as naira with two decimals, exact. */
const naira = (kobo: number): string => {
  const digits = String(Math.abs(kobo)).padStart(3, "0")
  return `${kobo < 0 ? "-" : ""}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

/** hledger's top-level accounts by kind. */
const ROOTS: Readonly<Record<string, string>> = {
  asset: "assets",
  liability: "liabilities",
  revenue: "revenues",
  expense: "expenses",
}

const accountName = ({ account_id, livemode, kind, ledger_account, detail }: ExportedLine): string =>
  [ROOTS[kind]!, account_id, livemode ? "live" : "sandbox", ledger_account, ...(detail === null ? [] : [detail])].join(
    ":",
  )

/** One hledger transaction for each entry; the lines of an entry must stand together. */
export const toHledger = (lines: ReadonlyArray<ExportedLine>): string => {
  const out: Array<string> = []
  for (const [index, line] of lines.entries()) {
    if (index === 0 || lines[index - 1]!.entry_id !== line.entry_id) {
      const tags = [
        `entry:${line.entry_id}`,
        ...(line.customer_id === null ? [] : [`customer:${line.customer_id}`]),
        ...(line.subscription_id === null ? [] : [`subscription:${line.subscription_id}`]),
        ...(line.charge_id === null ? [] : [`charge:${line.charge_id}`]),
      ]
      if (index > 0) out.push("")
      out.push(`${line.effective_on} ${line.event}  ; ${tags.join(", ")}`)
    }
    out.push(`    ${accountName(line)}  ${line.currency} ${naira(line.amount_kobo)}`)
  }
  return out.length === 0 ? "" : `${out.join("\n")}\n`
}

const COLUMNS = [
  "account_id",
  "livemode",
  "entry_id",
  "event",
  "effective_on",
  "posted_at",
  "line_no",
  "ledger_account",
  "detail",
  "currency",
  "amount_kobo",
  "customer_id",
  "subscription_id",
  "charge_id",
] as const

const cell = (value: unknown): string => {
  const text = value === null ? "" : String(value)
  return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

/** One row for each line, after a row of names; the first is left out where the text continues another. */
export const toCsv = (lines: ReadonlyArray<ExportedLine>, withNames: boolean): string =>
  [...(withNames ? [COLUMNS.join(",")] : []), ...lines.map((line) => COLUMNS.map((name) => cell(line[name])).join(","))]
    .map((row) => `${row}\n`)
    .join("")
