/** The worker thread that renders invoices (Pdfs.ts). */
import { parentPort } from "node:worker_threads"
import type { RenderRequest, RenderResult } from "./Pdfs.ts"
import { invoicePdf } from "./pdf.ts"

const reply = (answered: RenderResult): void => parentPort!.postMessage(answered)

parentPort!.on("message", ({ id, invoice, businessName, seller }: RenderRequest) => {
  invoicePdf({ invoice, businessName, seller }).then(
    (pdf) => reply({ id, pdf }),
    (error: unknown) => reply({ id, failure: String(error) }),
  )
})
