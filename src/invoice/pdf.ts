/** An invoice as a PDF: real text, amounts in ₦. */
import { createRequire } from "node:module"
import PDFDocument from "pdfkit"
import { formatKobo } from "../money.ts"
import { formatDayOf } from "../time.ts"
import type { InvoiceRow } from "./invoice.ts"

/** The fonts that every PDF reader has lack the ₦ sign. */
const fonts = createRequire(import.meta.url)
const REGULAR = fonts.resolve("dejavu-fonts-ttf/ttf/DejaVuSans.ttf")
const BOLD = fonts.resolve("dejavu-fonts-ttf/ttf/DejaVuSans-Bold.ttf")

/** Points, on A4. */
const MARGIN = 56
const COLUMNS = { description: MARGIN, quantity: 330, price: 380, amount: 460, end: 540 } as const
const ROW = 22

const STATES = { open: "Open", overdue: "Overdue", paid: "Paid", void: "Void" } as const

export const invoicePdf = (invoice: InvoiceRow, businessName: string): Promise<Uint8Array> =>
  new Promise((resolve, reject) => {
    const document = new PDFDocument({ size: "A4", margin: MARGIN, info: { Title: `Invoice ${invoice.id}` } })
    const chunks: Array<Uint8Array> = []
    document.on("data", (chunk: Uint8Array) => void chunks.push(chunk))
    document.on("end", () => resolve(Buffer.concat(chunks)))
    document.on("error", reject)

    document.font(BOLD).fontSize(20).text("Invoice")
    document.font(REGULAR).fontSize(9).moveDown(0.5)
    for (const text of [
      invoice.id,
      `Billed to: ${businessName} (${invoice.account_id})`,
      `Period: ${formatDayOf(invoice.period_start_at)} to ${formatDayOf(invoice.period_end_at - 1)}`,
      `Due: ${formatDayOf(invoice.due_at)}`,
      `Status: ${STATES[invoice.state]}${invoice.paid_at === null ? "" : ` on ${formatDayOf(invoice.paid_at)}`}`,
    ])
      document.text(text)

    let y = document.y + ROW
    const right = (text: string, from: number, to: number) =>
      document.text(text, from, y, { width: to - from, align: "right", lineBreak: false })
    const row = (description: string, quantity: string, price: string, amount: string) => {
      document.text(description, COLUMNS.description, y, { width: COLUMNS.quantity - MARGIN - 8, lineBreak: false })
      right(quantity, COLUMNS.quantity, COLUMNS.price - 8)
      right(price, COLUMNS.price, COLUMNS.amount - 8)
      right(amount, COLUMNS.amount, COLUMNS.end)
      y += ROW
    }
    document.font(BOLD)
    row("Description", "Quantity", "Price", "Amount")
    document.font(REGULAR)
    for (const line of invoice.lines)
      row(line.description, String(line.quantity), formatKobo(line.unit_amount), formatKobo(line.amount))
    document.moveTo(MARGIN, y).lineTo(COLUMNS.end, y).stroke()
    y += ROW / 2
    document.font(BOLD)
    row("Total", "", "", formatKobo(invoice.total_kobo))
    if (invoice.vat_kobo > 0) row("VAT included", "", "", formatKobo(invoice.vat_kobo))
    document.end()
  })
