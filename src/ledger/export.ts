/** Formats the books for other programs: hledger, CSV, and the journal imports of accounting packages. Pure: rows in, text out. */
import { inNaira } from "../base/money.ts"
import type { ExportedLine, Writer } from "./exported.ts"
import { hledger } from "./hledger.ts"

const cell = (value: unknown): string => {
  const text = value === null ? "" : String(value)
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text
}

const row = (cells: ReadonlyArray<unknown>): string => `${cells.map(cell).join(",")}\n`

type Column = readonly [name: string, value: (line: ExportedLine) => string | number | boolean | null]

const debit = ({ amount_kobo }: ExportedLine): string => (amount_kobo > 0 ? inNaira(amount_kobo) : "")
const credit = ({ amount_kobo }: ExportedLine): string => (amount_kobo < 0 ? inNaira(-amount_kobo) : "")
const dayFirst = ({ effective_on }: ExportedLine): string => effective_on.split("-").toReversed().join("/")
const monthFirst = ({ effective_on }: ExportedLine): string => {
  const [year, month, day] = effective_on.split("-")
  return `${month}/${day}/${year}`
}
const memo = ({ event, detail, customer_id, charge_id, plan_id }: ExportedLine): string =>
  [event, detail, customer_id, charge_id, plan_id].filter((part) => part !== null).join(" ")

/** Returns an account's name for programs that read a colon as a sub-account: `Deferred revenue`. */
const titleOf = ({ ledger_account }: ExportedLine): string =>
  ledger_account[0]!.toUpperCase() + ledger_account.slice(1).replaceAll("_", " ")

const field = (name: keyof ExportedLine): Column => [name, (line) => line[name]]

const ALL: ReadonlyArray<Column> = [
  ...(["account_id", "livemode", "entry_id", "event", "effective_on", "posted_at", "line_no"] as const).map(field),
  ...(["ledger_account", "detail", "currency", "amount_kobo", "customer_id"] as const).map(field),
  ...(["subscription_id", "charge_id", "plan_id", "occurred_on", "corrects", "reason"] as const).map(field),
]

/** Sage 50's audit trail import: a journal has debits (JD) and credits (JC). Nominal codes are our account names: create or map them. */
const SAGE: ReadonlyArray<Column> = [
  ["Type", ({ amount_kobo }) => (amount_kobo > 0 ? "JD" : "JC")],
  ["Account Reference", () => ""],
  ["Nominal A/C Ref", ({ ledger_account }) => ledger_account],
  ["Department Code", () => "0"],
  ["Date", dayFirst],
  ["Reference", ({ entry_id }) => entry_id],
  ["Details", memo],
  ["Net Amount", ({ amount_kobo }) => inNaira(Math.abs(amount_kobo))],
  ["Tax Code", () => "T9"],
  ["Tax Amount", () => "0.00"],
]

/** QuickBooks Online's journal entries, with accounts by name. */
const QUICKBOOKS: ReadonlyArray<Column> = [
  ["*JournalNo", ({ entry_id }) => entry_id],
  ["*JournalDate", monthFirst],
  ["*AccountName", titleOf],
  ["*Debits", debit],
  ["*Credits", credit],
  ["Description", memo],
  ["Name", () => ""],
  ["Currency", ({ currency }) => currency],
]

/** Zoho Books' manual journals. */
const ZOHO: ReadonlyArray<Column> = [
  ["Journal Date", ({ effective_on }) => effective_on],
  ["Reference Number", ({ entry_id }) => entry_id],
  ["Journal Number Prefix", () => ""],
  ["Journal Number Suffix", ({ entry_id }) => entry_id],
  ["Notes", ({ event }) => event],
  ["Journal Type", () => "both"],
  ["Currency", ({ currency }) => currency],
  ["Account", titleOf],
  ["Description", memo],
  ["Contact Name", () => ""],
  ["Debit", debit],
  ["Credit", credit],
]

interface Format {
  /** `names`: merchants' names by account. */
  readonly open: (names: ReadonlyMap<string, string>) => Writer
  /** Whether a file has the books of one account and environment only. */
  readonly isOfOne: boolean
}

const csv = (columns: ReadonlyArray<Column>, isOfOne: boolean): Format => ({
  open: () => ({
    head: row(columns.map(([name]) => name)),
    body: (lines) => lines.map((line) => row(columns.map(([, value]) => value(line)))).join(""),
  }),
  isOfOne,
})

/** The formats of exports, by name. */
export const FORMATS = {
  hledger: { open: hledger, isOfOne: false },
  csv: csv(ALL, false),
  sage: csv(SAGE, true),
  quickbooks: csv(QUICKBOOKS, true),
  zoho: csv(ZOHO, true),
} as const satisfies Readonly<Record<string, Format>>

export type FormatName = keyof typeof FORMATS
