/** Writes an invoice as a PDF: selectable text, amounts in ₦, dates in words. */
import { createRequire } from "node:module"
import PDFDocument from "pdfkit"
import { formatKobo } from "../../base/money.ts"
import { dayInWords, monthInWords } from "../../base/time.ts"
import type { Seller } from "../../config/Config.ts"
import type { InvoiceRow } from "./invoice.ts"

/** The data that an invoice shows. */
export interface Shown {
  readonly invoice: InvoiceRow
  /** The merchant's business name. */
  readonly businessName: string
  readonly seller: Seller
}

/** The fonts built into PDF readers lack the ₦ sign. */
const fonts = createRequire(import.meta.url)
const REGULAR = fonts.resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf")
const BOLD = fonts.resolve("dejavu-fonts-ttf/ttf/DejaVuSans-Bold.ttf")

/** Points, on A4. */
const MARGIN = 56
const RIGHT = 539
const BOTTOM = 786
const SIZE = 9
const GAP = 18
const LEADING = 4
const LINE_GAP = 2

interface Column {
  readonly from: number
  readonly to: number
  readonly align: "left" | "right"
}
/** Each column fits its bold heading and the longest amount of a month. */
const COLUMNS: ReadonlyArray<Column> = [
  { from: MARGIN, to: 288, align: "left" },
  { from: 296, to: 352, align: "right" },
  { from: 360, to: 442, align: "right" },
  { from: 450, to: RIGHT, align: "right" },
]
const HEADINGS = ["Description", "Quantity", "Unit price", "Amount"] as const
/** The columns of two blocks side by side. */
const HALVES: readonly [Column, Column] = [
  { from: MARGIN, to: 290, align: "left" },
  { from: 306, to: RIGHT, align: "left" },
]

const STATES = { open: "Open", overdue: "Overdue", paid: "Paid", void: "Void" } as const

/** Writes pages from top to bottom. Adds a page if the current one is full. */
class Sheet {
  readonly #document: PDFKit.PDFDocument
  #y = MARGIN

  constructor(document: PDFKit.PDFDocument) {
    this.#document = document
  }

  space(points: number): void {
    this.#y += points
  }

  #style(bold: boolean, size: number): PDFKit.PDFDocument {
    return this.#document.font(bold ? BOLD : REGULAR).fontSize(size)
  }

  /** Returns the height of a row of texts, wrapped to their columns (points). */
  #heightOf(texts: ReadonlyArray<string>, columns: ReadonlyArray<Column>): number {
    const heights = texts.map((text, n) =>
      this.#document.heightOfString(text, { width: columns[n]!.to - columns[n]!.from, lineGap: LINE_GAP }),
    )
    return Math.max(...heights)
  }

  /** Writes a row of texts. `onNewPage` writes the start of a new page. */
  row(
    texts: ReadonlyArray<string>,
    columns: ReadonlyArray<Column>,
    { bold = false, size = SIZE, onNewPage = () => {} } = {},
  ): void {
    this.#style(bold, size)
    let height = this.#heightOf(texts, columns)
    if (this.#y + height > BOTTOM) {
      this.#document.addPage()
      this.#y = MARGIN
      onNewPage()
      this.#style(bold, size)
      height = this.#heightOf(texts, columns)
    }
    for (const [n, text] of texts.entries()) {
      const { from, to, align } = columns[n]!
      this.#document.text(text, from, this.#y, { width: to - from, align, lineGap: LINE_GAP })
    }
    this.#y += height + LEADING
  }

  rule(): void {
    this.#document.moveTo(MARGIN, this.#y).lineTo(RIGHT, this.#y).lineWidth(0.5).stroke()
    this.#y += LEADING * 2
  }
}

const WHOLE: ReadonlyArray<Column> = [{ from: MARGIN, to: RIGHT, align: "left" }]

/** A heading, and lines below it. */
type Block = readonly [heading: string, ...lines: ReadonlyArray<string>]

/** Writes two blocks side by side. */
const beside = (sheet: Sheet, [leftHeading, ...left]: Block, [rightHeading, ...right]: Block): void => {
  sheet.row([leftHeading, rightHeading], HALVES, { bold: true })
  sheet.row([left.join("\n"), right.join("\n")], HALVES)
}

const sellerLines = ({ name, address, tin, email }: Seller): Block => [
  "Seller",
  name,
  address ?? "Address: not stated",
  `TIN: ${tin ?? "not stated"}`,
  ...(email === undefined ? [] : [email]),
]

const statusOf = ({ state, paid_at }: InvoiceRow): string =>
  `Status: ${STATES[state]}${paid_at === null ? "" : ` on ${dayInWords(paid_at)}`}`

/** The payment instructions; undefined if nothing is to pay. */
const payment = ({ invoice, seller }: Shown): Block | undefined => {
  if (invoice.state === "paid" || invoice.state === "void" || invoice.total_kobo <= 0) return undefined
  return [
    "How to pay",
    `By bank transfer to: ${seller.bank ?? `the account of ${seller.name} that your agreement names`}`,
    `Amount: ${formatKobo(invoice.total_kobo)}`,
    `By: ${dayInWords(invoice.due_at)}`,
    `Reference: ${invoice.id}`,
  ]
}

const writeLines = (sheet: Sheet, { invoice }: Shown): void => {
  const headings = () => {
    sheet.row(HEADINGS, COLUMNS, { bold: true })
    sheet.rule()
  }
  headings()
  for (const { description, quantity, unit_amount, amount } of invoice.lines) {
    const cells = [description, String(quantity), formatKobo(unit_amount), formatKobo(amount)]
    sheet.row(cells, COLUMNS, { onNewPage: headings })
  }
  sheet.rule()
  const sums: ReadonlyArray<Column> = [{ from: MARGIN, to: 442, align: "right" }, COLUMNS[3]!]
  sheet.row(["Total", formatKobo(invoice.total_kobo)], sums, { bold: true })
  if (invoice.vat_kobo > 0) sheet.row(["VAT included", formatKobo(invoice.vat_kobo)], sums)
}

const write = (sheet: Sheet, shown: Shown): void => {
  const { invoice, businessName, seller } = shown
  sheet.row(["Invoice"], WHOLE, { bold: true, size: 20 })
  sheet.row([`${invoice.id}, ${monthInWords(invoice.period_start_at)}`], WHOLE)
  sheet.space(GAP)
  beside(sheet, sellerLines(seller), ["Billed to", businessName, invoice.account_id])
  sheet.space(GAP)
  const period = `${dayInWords(invoice.period_start_at)} to ${dayInWords(invoice.period_end_at - 1)}`
  beside(
    sheet,
    ["Period", period, `Issued: ${dayInWords(invoice.created_at)}`],
    ["Payment", `Due: ${dayInWords(invoice.due_at)}`, statusOf(invoice)],
  )
  sheet.space(GAP)
  writeLines(sheet, shown)
  sheet.space(GAP)
  const instructions = payment(shown)
  if (instructions === undefined) return
  const [heading, ...lines] = instructions
  sheet.row([heading], WHOLE, { bold: true })
  sheet.row([lines.join("\n")], WHOLE)
}

export const invoicePdf = (shown: Shown): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    const info = { Title: `Invoice ${shown.invoice.id}`, Author: shown.seller.name }
    const document = new PDFDocument({ size: "A4", margin: MARGIN, info })
    const chunks: Array<Uint8Array> = []
    document.on("data", (chunk: Uint8Array) => void chunks.push(chunk))
    document.on("end", () => resolve(Buffer.concat(chunks)))
    document.on("error", reject)
    write(new Sheet(document), shown)
    document.end()
  })
