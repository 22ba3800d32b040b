/** Reads rails' settlement files (docs/ledger.md): one paid-out payment a row, with amounts in kobo and days. */
import { createReadStream } from "node:fs"
import type { Readable } from "node:stream"
import { type Info, parse } from "csv-parse"
import { Data } from "effect"
import { FIRST_YEAR, LAST_YEAR } from "../base/time.ts"
import { lineOf, referenceIn } from "../rails/rail/fields.ts"
import { ownFromPaystack } from "../rails/rail/paystack/answers.ts"
import type { RailName } from "../rails/rail/Rail.ts"

/** A row of a settlement file: one payment that the rail paid out or deducted. */
export interface SettledRow {
  /** The row number in a spreadsheet, empty lines included. It starts at 2: row 1 has the column names. */
  readonly row: number
  /** In our spelling. */
  readonly reference: string
  readonly amountKobo: number
  readonly feeKobo: number
  readonly paidOutKobo: number
  /** The day of the payout, `YYYY-MM-DD`; null: the file does not say. */
  readonly settledOn: string | null
  /** The day when the customer paid; null: the file does not say. */
  readonly paidOn: string | null
  /** The rail's name of the payout; null: the file does not say. */
  readonly payout: string | null
}

/** An error in a file, for the person who fixes it. */
export class BadFile extends Data.TaggedError("BadFile")<{ readonly message: string }> {}

const FIELDS = ["reference", "amount", "fee", "net", "settled", "paid", "payout", "currency", "status"] as const
type Field = (typeof FIELDS)[number]

/** Column names in rails' exports and API answers, in lower case without spaces and punctuation. */
const COLUMNS: Readonly<Record<RailName, Readonly<Record<Field, ReadonlyArray<string>>>>> = (() => {
  const paystack = {
    reference: ["reference", "transactionreference", "referencenumber"],
    amount: ["amountpaid", "transactionamount", "amount", "grossamount"],
    fee: ["paystackfees", "paystackfee", "fees", "fee", "transactionfee", "transactionfees"],
    net: ["amountdue", "amountduetomerchant", "amountsettled", "settlementamount", "netamount", "net"],
    settled: ["settlementdate", "settledat", "settledon", "datesettled", "payoutdate"],
    paid: ["transactiondate", "paidat", "datepaid", "paymentdate", "createdat", "date"],
    payout: ["settlementid", "payoutid", "settlementreference", "payoutreference"],
    currency: ["currency"],
    status: ["status", "transactionstatus"],
  }
  const flutterwave = {
    ...paystack,
    reference: ["txref", "transactionreference", "merchantreference", "reference"],
    amount: ["chargedamount", "amountcharged", "amount", "grossamount", "transactionamount"],
    fee: ["appfee", "flutterwavefee", "fee", "fees", "transactionfee"],
    net: ["settlementamount", "amountsettled", "netamount", "net"],
    settled: ["settlementdate", "datesettled", "settledat", "processeddate", "duedate"],
    payout: ["settlementid", "disburseref", "disbursementreference", "settlementreference"],
  }
  return { paystack, flutterwave, simulator: paystack }
})()
/** Columns with other fees that Flutterwave deducts from a payment. */
const FURTHER_FEES = ["merchantfee", "stampdutycharge", "stampduty", "vat"]

/** A longer row is an error. */
const MAX_ROW_BYTES = 64 * 1024
const MAX_PAYOUT = 100

const plain = (name: string): string => name.toLowerCase().replaceAll(/\(.*?\)|[^a-z0-9]/g, "")

/** Reads naira with up to two decimals as kobo. Thousands' commas and the currency are optional. Undefined: not an amount. */
export const koboIn = (text: string): number | undefined => {
  const [, sign, naira, kobo = ""] =
    /^(-?)(?:NGN|₦|N)?\s*(\d{1,3}(?:,\d{3})+|\d+)(?:\.(\d{1,2})0*)?$/i.exec(text.trim()) ?? []
  if (naira === undefined) return undefined
  const value = Number(naira.replaceAll(",", "")) * 100 + Number(kobo.padEnd(2, "0"))
  return Number.isSafeInteger(value) ? (sign === "-" ? -value : value) : undefined
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

/** Reads a day as `YYYY-MM-DD` from that format, an instant that starts with it, `31/01/2026`, `Jan 31, 2026` or `31 Jan 2026`. */
export const dayIn = (text: string): string | undefined => {
  const value = text.trim()
  const [, year, month, day] =
    /^(\d{4})-(\d{2})-(\d{2})(?:$|[T ])/.exec(value) ??
    reordered(/^(\d{1,2})[/-](\d{1,2})[/-](\d{4})(?:$|[ ,])/.exec(value), [3, 2, 1]) ??
    reordered(/^(\d{1,2})(?:st|nd|rd|th)? ([A-Za-z]{3})[a-z]*,? (\d{4})(?:$|[ ,])/.exec(value), [3, 2, 1]) ??
    reordered(/^([A-Za-z]{3})[a-z]* (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})(?:$|[ ,])/.exec(value), [3, 1, 2]) ??
    []
  if (year === undefined) return undefined
  const number = /\d/.test(month!) ? Number(month) : MONTHS.indexOf(month!.toLowerCase()) + 1
  const found = `${year}-${String(number).padStart(2, "0")}-${day!.padStart(2, "0")}`
  if (Number(year) < FIRST_YEAR || Number(year) > LAST_YEAR) return undefined
  const at = Date.parse(`${found}T00:00:00Z`)
  return !Number.isNaN(at) && new Date(at).toISOString().startsWith(found) ? found : undefined
}

const reordered = (found: RegExpExecArray | null, order: readonly [number, number, number]) =>
  found === null ? null : [found[0], ...order.map((index) => found[index]!)]

type Cells = Readonly<Record<string, string>>

/** Reads a payout's name, made safe for other programs: no separators, and no start that a spreadsheet takes for a formula. */
const payoutIn = (text: string | undefined): string | null =>
  lineOf(text?.replaceAll(/[\s:;,]+/g, " ").replace(/^[=+@\s-]+/, ""), MAX_PAYOUT)

const textIn = (cells: Cells, name: string): string | undefined => {
  const value = (cells[name] ?? "").trim()
  return value === "" ? undefined : value
}

/** Reads the amount in a column; undefined if the cell is empty. */
const koboOf = (cells: Cells, name: string, row: number): number | undefined => {
  const text = textIn(cells, name)
  if (text === undefined) return undefined
  const kobo = koboIn(text)
  if (kobo === undefined)
    throw new BadFile({ message: `Row ${row} of the file: ${name} is not an amount in naira: ${text.slice(0, 40)}.` })
  return kobo
}

/** Reads the rows of a rail's file. */
class Reader {
  readonly #rail: RailName
  /** The name that each field has in this file. */
  readonly #names: Readonly<Partial<Record<Field, string>>>
  readonly #furtherFees: ReadonlyArray<string>

  constructor(rail: RailName, header: ReadonlyArray<string>) {
    this.#rail = rail
    const columns = new Set(header)
    this.#names = Object.fromEntries(
      FIELDS.flatMap((field) => {
        const name = COLUMNS[rail][field].find((one) => columns.has(one))
        return name === undefined ? [] : [[field, name]]
      }),
    )
    this.#furtherFees = rail === "flutterwave" ? FURTHER_FEES.filter((name) => columns.has(name)) : []
    const read = [...Object.values(this.#names), ...this.#furtherFees]
    const duplicate = read.find((name) => header.indexOf(name) !== header.lastIndexOf(name))
    if (duplicate !== undefined)
      throw new BadFile({ message: `The file has two columns for ${duplicate}: remove one of them.` })
    const { reference, amount, fee, net } = this.#names
    if (reference === undefined) throw this.#missing("reference")
    if ([amount, fee, net].filter((name) => name !== undefined).length < 2)
      throw new BadFile({
        message:
          "The file needs two of the columns: the paid amount, the fee, the amount paid out; such as Amount and Fees.",
      })
  }

  #missing(field: Field): BadFile {
    return new BadFile({
      message: `The file has no column with the ${field}: one of ${COLUMNS[this.#rail][field].join(", ")}.`,
    })
  }

  #cell(cells: Cells, field: Field): string | undefined {
    const name = this.#names[field]
    return name === undefined ? undefined : textIn(cells, name)
  }

  #kobo(cells: Cells, field: Field, row: number): number | undefined {
    const name = this.#names[field]
    return name === undefined ? undefined : koboOf(cells, name, row)
  }

  #day(cells: Cells, field: Field, row: number): string | null {
    const text = this.#cell(cells, field)
    if (text === undefined) return null
    const day = dayIn(text)
    if (day === undefined)
      throw new BadFile({
        message: `Row ${row} of the file: ${this.#names[field]} is not a day such as 2026-01-31: ${text.slice(0, 40)}.`,
      })
    return day
  }

  /** Reads a row; undefined if it is not about a payment in naira. */
  read(cells: Cells, row: number): SettledRow | undefined {
    const reference = this.#cell(cells, "reference")
    const currency = this.#cell(cells, "currency")
    const status = this.#cell(cells, "status")
    if (reference === undefined) return undefined
    if (referenceIn(reference) === undefined)
      throw new BadFile({ message: `Row ${row} of the file: ${this.#names.reference} is not a reference.` })
    if (currency !== undefined && currency.toUpperCase() !== "NGN") return undefined
    if (status !== undefined && !/^(success|successful|completed|settled)$/i.test(status)) return undefined
    const [amount, fee, net] = [this.#kobo(cells, "amount", row), this.#fees(cells, row), this.#kobo(cells, "net", row)]
    if ([amount, fee, net].filter((kobo) => kobo !== undefined).length < 2)
      throw new BadFile({
        message: `Row ${row} of the file has too few amounts for ${reference}: two are needed.`,
      })
    return {
      row,
      reference: this.#rail === "paystack" ? ownFromPaystack(reference) : reference,
      amountKobo: amount ?? net! + fee!,
      feeKobo: fee ?? amount! - net!,
      paidOutKobo: net ?? amount! - fee!,
      settledOn: this.#day(cells, "settled", row),
      paidOn: this.#day(cells, "paid", row),
      payout: payoutIn(this.#cell(cells, "payout")),
    }
  }

  #fees(cells: Cells, row: number): number | undefined {
    const fee = this.#kobo(cells, "fee", row)
    const further = this.#furtherFees.map((name) => koboOf(cells, name, row) ?? 0)
    return fee === undefined ? undefined : further.reduce((sum, kobo) => sum + kobo, fee)
  }
}

/** Streams the rows of the file at a path. `onBytes` is called with the bytes read so far. */
export const settledRows = (
  rail: RailName,
  path: string,
  onBytes: (read: number) => void,
): AsyncGenerator<SettledRow> => {
  const file = createReadStream(path)
  return rowsIn(rail, file, () => onBytes(file.bytesRead))
}

/** Streams the rows of a file. Throws {@link BadFile} if the file is wrong. `onRow` is called after each. */
export async function* rowsIn(
  rail: RailName,
  file: Readable,
  onRow: () => void = () => {},
): AsyncGenerator<SettledRow> {
  let header: ReadonlyArray<string> = []
  const rows = file.pipe(
    parse({
      bom: true,
      info: true,
      columns: (names: ReadonlyArray<string>) => {
        header = names.map(plain)
        return [...header]
      },
      relax_column_count: true,
      skip_empty_lines: true,
      trim: true,
      max_record_size: MAX_ROW_BYTES,
    }),
  )
  file.on("error", (error) => rows.destroy(error))
  let reader: Reader | undefined
  let records = 0
  try {
    for await (const { record, info } of rows as AsyncIterable<{ readonly record: Cells; readonly info: Info }>) {
      records++
      reader ??= new Reader(rail, header)
      const read = reader.read(record, 1 + records + info.empty_lines)
      if (read !== undefined) yield read
      onRow()
    }
  } catch (error) {
    if (error instanceof BadFile) throw error
    const { code, message } = error as { readonly code?: string; readonly message: string }
    if (code?.startsWith("CSV_"))
      throw new BadFile({ message: `The file is not a CSV file: ${message.split("\n")[0]}` })
    throw new BadFile({ message: "The file cannot be read." })
  }
  if (records === 0) new Reader(rail, header)
}
