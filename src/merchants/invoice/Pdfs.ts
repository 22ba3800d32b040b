/**
 * Renders invoices as PDFs, each version once, and caches them. A worker thread renders, because rendering takes tens of
 * milliseconds and would block all requests.
 */
import { Worker } from "node:worker_threads"
import { Context, Effect, Layer } from "effect"
import type { Seller } from "../../config/Config.ts"
import type { InvoiceRow } from "./invoice.ts"

/** The size of the cache in bytes. The least recently used document is evicted first. */
const MAX_BYTES = 16 * 1024 * 1024

/** The thread's request and answer. `id` matches them. */
export interface RenderRequest {
  readonly id: number
  readonly invoice: InvoiceRow
  readonly businessName: string
  readonly seller: Seller
}
export interface RenderResult {
  readonly id: number
  readonly pdf?: Uint8Array
  readonly failure?: string
}

interface Waiting {
  readonly resolve: (pdf: Uint8Array) => void
  readonly reject: (error: Error) => void
}

/** The worker thread. It starts when it is first needed, and again after it ended. */
class Renderer {
  readonly #seller: Seller
  #worker: Worker | undefined
  #requests = 0
  readonly #waiting = new Map<number, Waiting>()

  constructor(seller: Seller) {
    this.#seller = seller
  }

  #start(): Worker {
    const worker = new Worker(new URL("./pdfThread.ts", import.meta.url))
    worker.on("message", ({ id, pdf, failure }: RenderResult) => {
      const waiting = this.#waiting.get(id)
      this.#waiting.delete(id)
      if (pdf === undefined) waiting?.reject(new Error(failure))
      else waiting?.resolve(pdf)
    })
    const ended = (error: Error) => {
      if (this.#worker === worker) this.#worker = undefined
      for (const { reject } of this.#waiting.values()) reject(error)
      this.#waiting.clear()
    }
    worker.once("error", ended)
    worker.once("exit", () => ended(new Error("The thread that renders invoices ended.")))
    // The thread does not keep the process alive.
    worker.unref()
    return worker
  }

  render(invoice: InvoiceRow, businessName: string): Promise<Uint8Array> {
    this.#worker ??= this.#start()
    const id = this.#requests++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#worker!.postMessage({ id, invoice, businessName, seller: this.#seller } satisfies RenderRequest)
    })
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate()
  }
}

interface Document {
  readonly pdf: Promise<Uint8Array>
  /** 0 while it is rendering. */
  bytes: number
}

/** The cache of documents, by invoice, version and business name; least recently used first. */
class Documents {
  readonly #renderer: Renderer
  readonly #documents = new Map<string, Document>()
  #bytes = 0

  constructor(renderer: Renderer) {
    this.#renderer = renderer
  }

  #evict(name: string): void {
    this.#bytes -= this.#documents.get(name)?.bytes ?? 0
    this.#documents.delete(name)
  }

  #rendered(name: string, bytes: number): void {
    const document = this.#documents.get(name)
    if (document === undefined) return
    document.bytes = bytes
    this.#bytes += bytes
    for (const oldest of this.#documents.keys()) {
      if (this.#bytes <= MAX_BYTES) return
      this.#evict(oldest)
    }
  }

  get(invoice: InvoiceRow, businessName: string): Promise<Uint8Array> {
    const name = `${invoice.id} ${invoice.version} ${businessName}`
    const cached = this.#documents.get(name)
    if (cached !== undefined) {
      this.#documents.delete(name)
      this.#documents.set(name, cached)
      return cached.pdf
    }
    const pdf = this.#renderer.render(invoice, businessName)
    this.#documents.set(name, { pdf, bytes: 0 })
    pdf.then(
      ({ byteLength }) => this.#rendered(name, byteLength),
      () => this.#evict(name),
    )
    return pdf
  }
}

export class Pdfs extends Context.Service<
  Pdfs,
  {
    /** Renders an invoice as a PDF. A failure is a defect. */
    readonly pdf: (invoice: InvoiceRow, businessName: string) => Effect.Effect<Uint8Array>
  }
>()("billing/merchants/invoice/Pdfs") {
  /** `seller`: the issuer of the invoices. */
  static readonly layer = (seller: Seller): Layer.Layer<Pdfs> =>
    Layer.effect(
      Pdfs,
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => new Renderer(seller)),
          (renderer) => Effect.promise(() => renderer.stop()),
        ),
        (renderer) => {
          const documents = new Documents(renderer)
          return Pdfs.of({
            pdf: (invoice, businessName) => Effect.promise(() => documents.get(invoice, businessName)),
          })
        },
      ),
    )
}
