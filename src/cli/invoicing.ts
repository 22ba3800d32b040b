/** The work of the `invoice` commands: invoices with links to their PDFs, and timers for their due days. */
import { Effect, Layer } from "effect"
import { Origin, originOf } from "../http/Origin.ts"
import { VatRate } from "../ledger/VatRate.ts"
import { InvoiceLinks } from "../merchants/invoice/InvoiceLinks.ts"
import { type InvoiceRow, renderInvoice } from "../merchants/invoice/invoice.ts"
import {
  createInvoices,
  type NotBilled,
  readInvoices,
  readNotBilled,
  transitionInvoice,
} from "../merchants/invoice/invoices.ts"
import { SharedSecrets } from "../security/secret/SharedSecrets.ts"
import { found, Refused } from "./failures.ts"
import { Installation, vault } from "./Installation.ts"

const links = Layer.unwrap(
  Effect.map(Installation, ({ config }) =>
    InvoiceLinks.layer.pipe(
      Layer.provide([Origin.layer(originOf(config, config.port)), SharedSecrets.asTheyAre.pipe(Layer.provide(vault))]),
    ),
  ),
)

const vatRate = Layer.effect(
  VatRate,
  Effect.map(Installation, ({ config }) => config.vatBps),
)

const rendered = (row: InvoiceRow) => Effect.map(InvoiceLinks, ({ pdf }) => renderInvoice(row, pdf(row)))

/** The invoices of a period, with information about the run. */
export interface DrawnUp {
  readonly invoices: ReadonlyArray<{
    readonly account: string
    /** Whether this run created it. */
    readonly isNew: boolean
    readonly shown: Effect.Success<ReturnType<typeof rendered>>
  }>
  readonly notBilled: NotBilled
  /** The accounts whose invoice could not be created. */
  readonly failed: ReadonlyArray<string>
}

/** Creates the invoices of a period, of one account or of all. */
export const drawUp = Effect.fnUntraced(
  function* (period: { readonly start: number; readonly end: number }, accountId: string | undefined) {
    const before = new Set((yield* readInvoices(period, accountId)).map(({ id }) => id))
    const failed = yield* createInvoices(period, accountId)
    const rows = yield* readInvoices(period, accountId)
    const invoices = yield* Effect.forEach(rows, (row) =>
      Effect.map(rendered(row), (shown) => ({ account: row.account_id, isNew: !before.has(row.id), shown })),
    )
    return { invoices, notBilled: yield* readNotBilled(period, accountId), failed } satisfies DrawnUp
  },
  Effect.provide([links, vatRate]),
)

/** Marks an invoice as paid or void, and returns it. */
export const close = Effect.fnUntraced(function* (id: string, move: "pay" | "void") {
  const { invoice, refused } = yield* Effect.flatMap(transitionInvoice(id, move), found("invoice", id))
  if (refused) {
    const message = `The invoice ${id} is ${invoice.state}: it cannot be ${move === "pay" ? "paid" : "voided"}.`
    return yield* new Refused({ message })
  }
  return yield* rendered(invoice)
}, Effect.provide(links))
