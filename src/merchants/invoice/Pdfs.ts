/**
 * Invoices' PDFs, each version rendered once: by a thread of its own, since that takes tens of milliseconds in which nobody
 * else would be answered, and remembered while there is room.
 */
import { Worker } from "node:worker_threads"
import { Context, Effect, Layer } from "effect"
import type { Seller } from "../../config/Config.ts"
import type { InvoiceRow } from "./invoice.ts"

/** Bytes of documents that are remembered; the one that was asked for longest ago goes first. */
const MAX_BYTES = 16 * 1024 * 1024

/** What the thread is asked for, and what it says; `id` tells answers apart. */
export interface Asked {
  readonly id: number
  readonly invoice: InvoiceRow
  readonly businessName: string
  readonly seller: Seller
}
export interface Answered {
  readonly id: number
  readonly pdf?: Uint8Array
  readonly failure?: string
}

interface Waiting {
  readonly resolve: (pdf: Uint8Array) => void
  readonly reject: (error: Error) => void
}

/** The thread, started when it is first needed, and again after it ended. */
class Renderer {
  readonly #seller: Seller
  #worker: Worker | undefined
  #asked = 0
  readonly #waiting = new Map<number, Waiting>()

  constructor(seller: Seller) {
    this.#seller = seller
  }

  #start(): Worker {
    const worker = new Worker(new URL("./pdfThread.ts", import.meta.url))
    worker.on("message", ({ id, pdf, failure }: Answered) => {
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
    // It keeps no process alive that has nothing else to do.
    worker.unref()
    return worker
  }

  render(invoice: InvoiceRow, businessName: string): Promise<Uint8Array> {
    this.#worker ??= this.#start()
    const id = this.#asked++
    return new Promise((resolve, reject) => {
      this.#waiting.set(id, { resolve, reject })
      this.#worker!.postMessage({ id, invoice, businessName, seller: this.#seller } satisfies Asked)
    })
  }

  async stop(): Promise<void> {
    await this.#worker?.terminate()
  }
}

interface Document {
  readonly pdf: Promise<Uint8Array>
  /** 0 until it is rendered. */
  bytes: number
}

/** Documents by what they show, the one that was asked for longest ago first. */
class Documents {
  readonly #renderer: Renderer
  readonly #documents = new Map<string, Document>()
  #bytes = 0

  constructor(renderer: Renderer) {
    this.#renderer = renderer
  }

  #forget(name: string): void {
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
      this.#forget(oldest)
    }
  }

  get(invoice: InvoiceRow, businessName: string): Promise<Uint8Array> {
    const name = `${invoice.id} ${invoice.version} ${businessName}`
    const known = this.#documents.get(name)
    if (known !== undefined) {
      this.#documents.delete(name)
      this.#documents.set(name, known)
      return known.pdf
    }
    const pdf = this.#renderer.render(invoice, businessName)
    this.#documents.set(name, { pdf, bytes: 0 })
    pdf.then(
      ({ byteLength }) => this.#rendered(name, byteLength),
      () => this.#forget(name),
    )
    return pdf
  }
}

export class Pdfs extends Context.Service<
  Pdfs,
  {
    /** An invoice as a PDF; what cannot be rendered is a defect. */
    readonly pdf: (invoice: InvoiceRow, businessName: string) => Effect.Effect<Uint8Array>
  }
>()("billing/invoice/Pdfs") {
  /** `seller`: who sends them. */
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
