/** VatRate is the VAT that prices include, in basis points (`VAT_RATE`). 0: no VAT is booked. */
import { Context } from "effect"

export class VatRate extends Context.Service<VatRate, number>()("billing/ledger/VatRate") {}
