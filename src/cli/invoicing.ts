/** What the `invoice` commands do: the service's invoices with links to their PDFs, and timers for the days they are due. */
import { Effect, Layer } from "effect"
import { Origin, originOf } from "../http/Origin.ts"
import { type InvoiceRow, renderInvoice } from "../invoice/invoice.ts"
import { drawInvoices, moveInvoice, readInvoices } from "../invoice/invoices.ts"
import { Links } from "../invoice/Links.ts"
import { VatRate } from "../ledger/VatRate.ts"
import { SharedSecrets } from "../secret/SharedSecrets.ts"
import { found, Refused } from "./failures.ts"
import { Installation, vault } from "./Installation.ts"

const links = Layer.unwrap(
  Effect.map(Installation, ({ config }) =>
    Links.layer.pipe(
      Layer.provide([Origin.layer(originOf(config, config.port)), SharedSecrets.asTheyAre.pipe(Layer.provide(vault))]),
    ),
  ),
)

const vatRate = Layer.effect(
  VatRate,
  Effect.map(Installation, ({ config }) => config.vatBps),
)

const rendered = (row: InvoiceRow) => Effect.map(Links, ({ pdf }) => renderInvoice(row, pdf(row)))

/** Draws up the invoices of a period, of one account or of all, and returns them, and the accounts of which none could be drawn up. */
export const drawUp = Effect.fnUntraced(
  function* (period: { readonly start: number; readonly end: number }, accountId: string | undefined) {
    const failed = yield* drawInvoices(period, accountId)
    return { drawn: yield* Effect.forEach(yield* readInvoices(period, accountId), rendered), failed }
  },
  Effect.provide([links, vatRate]),
)

/** Notes that an invoice is paid, or takes it back, and returns it. */
export const close = Effect.fnUntraced(function* (id: string, move: "pay" | "void") {
  const { invoice, refused } = yield* Effect.flatMap(moveInvoice(id, move), found("invoice", id))
  if (refused) {
    const message = `The invoice ${id} is ${invoice.state}: it cannot be ${move === "pay" ? "paid" : "voided"}.`
    return yield* new Refused({ message })
  }
  return yield* rendered(invoice)
}, Effect.provide(links))
