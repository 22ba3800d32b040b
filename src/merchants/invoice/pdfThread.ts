/** The thread that renders invoices (Pdfs.ts). */
import { parentPort } from "node:worker_threads"
import type { Answered, Asked } from "./Pdfs.ts"
import { invoicePdf } from "./pdf.ts"

const answer = (answered: Answered): void => parentPort!.postMessage(answered)

parentPort!.on("message", ({ id, invoice, businessName, seller }: Asked) => {
  invoicePdf({ invoice, businessName, seller }).then(
    (pdf) => answer({ id, pdf }),
    (error: unknown) => answer({ id, failure: String(error) }),
  )
})
