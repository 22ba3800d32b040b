/**
 * The server of a stand-in for a payment rail, for any protocol. Only calls drive it: it sets a timer only for a slow
 * answer.
 */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { sendAnswer, sendPage, sendReply } from "./answer.ts"
import { Books, Numbers } from "./books.ts"
import { type CallbackOptions, callbackFor, type Forgery, forged, invented, signed } from "./callback.ts"
import { Callbacks, type Due } from "./callbacks.ts"
import { Calls } from "./calls.ts"
import { type Call, type CallKind, type Fault, type Match, Plan } from "./fault.ts"
import { noPage, overPage, payPage } from "./page.ts"
import type { Happening, Payment, Transaction } from "./transaction.ts"
import {
  type Act,
  type Callback,
  decode,
  type Merchant,
  type ParsedCall,
  type Reply,
  type Signature,
  type Wire,
} from "./wire.ts"

export interface StandInOptions {
  /** For the first merchant. `merchant` adds more. */
  readonly secretKey?: string
  readonly webhookSecret?: string
  /** Milliseconds since the epoch, for dates in answers and in the log. */
  readonly now?: () => number
  /** The delay of each answer. Default none. */
  readonly delayMs?: number
  /** The minimum number of calls in the log. Default 50,000. */
  readonly logLimit?: number
  /** Flutterwave's signature scheme for its callbacks. Default `hmac`. */
  readonly signature?: Signature
}

export interface PageOptions extends Payment {
  /** The reason for the decline. */
  readonly words?: string
}

const bodyOf = async (request: IncomingMessage): Promise<string> => {
  const parts: Array<Buffer> = []
  for await (const part of request) parts.push(part as Buffer)
  return Buffer.concat(parts).toString()
}

const closed = (response: ServerResponse, then: () => void): void => void response.once("close", then)

export class StandIn {
  readonly calls: Calls
  readonly callbacks = new Callbacks()
  /** By secret key. */
  readonly merchants = new Map<string, Merchant>()
  /** The delay of each answer (ms). May be changed at any time. */
  delayMs: number
  readonly #wire: Wire
  readonly #first: Merchant
  readonly #signature: Signature
  readonly #now: () => number
  readonly #numbers: Numbers
  readonly #plan: Plan
  readonly #server = createServer((request, response) => {
    // A caller that gives up in the middle of its own request.
    this.#serve(request, response).catch(() => response.destroy())
  })
  #port = 0
  /** Callbacks of the current call. undefined: there is none. */
  #collected: Array<Due> | undefined

  private constructor(wire: Wire, options: StandInOptions & { readonly secretKey: string }) {
    this.#wire = wire
    this.#signature = options.signature ?? "hmac"
    this.#now = options.now ?? Date.now
    this.#numbers = new Numbers(wire.numbering)
    this.#plan = new Plan(wire.spelling)
    this.calls = new Calls(options.logLimit ?? 50_000)
    this.delayMs = options.delayMs ?? 0
    // A hanging call hangs until its caller gives up, and no idle connection closes just before its reuse.
    this.#server.requestTimeout = 0
    this.#server.headersTimeout = 0
    this.#server.keepAliveTimeout = 0
    this.#first = this.merchant(options.secretKey, { webhookSecret: options.webhookSecret ?? "webhook secret" })
  }

  static start = async (wire: Wire, options: StandInOptions & { readonly secretKey: string }): Promise<StandIn> => {
    const standIn = new StandIn(wire, options)
    await standIn.online()
    return standIn
  }

  get url(): string {
    return `http://127.0.0.1:${this.#port}`
  }
  /** Those of the first merchant. */
  get secretKey(): string {
    return this.#first.secretKey
  }
  get webhookSecret(): string {
    return this.#first.webhookSecret
  }
  get books(): Books {
    return this.#first.books
  }
  /** Sets the address for callbacks of the first merchant. */
  sendCallbacksTo = (url: string | null): void => {
    this.#first.callbackUrl = url
  }

  /** Another merchant, with its own books. */
  merchant = (
    secretKey: string,
    { webhookSecret = `webhook secret of ${secretKey}`, callbackUrl = "" } = {},
  ): Merchant => {
    const onHappening = (happening: Happening): void => this.#announce(merchant, happening)
    const books = new Books(this.#numbers, this.#wire.spelling, onHappening)
    const merchant: Merchant = { secretKey, webhookSecret, callbackUrl: callbackUrl || null, books }
    this.merchants.set(secretKey, merchant)
    return merchant
  }

  /** Gives a merchant other secrets. The old ones are refused from now on. */
  rotate = (merchant: Merchant, secretKey: string, webhookSecret = merchant.webhookSecret): void => {
    this.merchants.delete(merchant.secretKey)
    merchant.secretKey = secretKey
    merchant.webhookSecret = webhookSecret
    this.merchants.set(secretKey, merchant)
  }

  /** Plans faults of future calls, one each, in order. */
  plan = (kind: CallKind, match: Match, ...faults: ReadonlyArray<Fault>): void => this.#plan.add(kind, match, ...faults)
  /** Decides about calls without a planned fault. */
  decide = (decide: ((call: Call) => Fault | undefined) | undefined): void => {
    this.#plan.decide = decide
  }
  /** Clears all faults. */
  heal = (): void => this.#plan.clear()

  /** Closes its port: connections are refused, and open ones break. */
  offline = (): Promise<void> =>
    new Promise((resolve) => {
      this.#server.close(() => resolve())
      this.#server.closeAllConnections()
    })
  /** Listens, at the same port as before. */
  online = (): Promise<void> =>
    new Promise((resolve) =>
      this.#server.listen(this.#port, "127.0.0.1", () => {
        this.#port = (this.#server.address() as AddressInfo).port
        resolve()
      }),
    )
  close = async (): Promise<void> => {
    if (this.#server.listening) await this.offline()
    await this.callbacks.idle()
  }

  /** The merchant whose books have a reference. */
  #ownerOf = (reference: string): Merchant | undefined =>
    [...this.merchants.values()].find(({ books }) => books.find(reference) !== undefined)

  /** The buyer acts on the rail's page. Returns the buyer's next address, or null if there is none. */
  payOnPage = async (reference: string, act: Act, options: PageOptions = {}): Promise<string | null> => {
    const merchant = this.#ownerOf(reference)
    if (merchant === undefined) throw new Error(`The stand-in has no transaction ${reference}.`)
    const transaction = merchant.books.get(reference)
    const dues = this.#collect(() => this.#act(merchant, transaction, act, options))
    await this.#sendDue(dues)
    return this.#wire.returnTo(transaction, act)
  }

  /** The number of calls in progress now, of all merchants or of one key. */
  underWay = (key?: string): number => this.calls.underWay(key)

  /** Applies the pending result of a transaction now. */
  settle = (reference: string): boolean => this.#ownerOf(reference)?.books.settle(reference) ?? false

  /** A callback about a reference, known or not, with the rail's signature. */
  callbackFor = (reference: string, options: CallbackOptions = {}): Callback => {
    const merchant = options.merchant ?? this.#ownerOf(reference) ?? this.#first
    const transaction = merchant.books.find(reference) ?? invented(this.#wire, reference)
    return callbackFor(this.#wire, merchant, transaction, this.#now(), { signature: this.#signature, ...options })
  }

  /** The same callback, forged. `other_account`: signed with the secrets of another merchant. */
  forged = (callback: Callback, how: Forgery): Callback => forged(this.#wire, callback, how, this.#first)

  #announce = (merchant: Merchant, happening: Happening): void => {
    const { callbackUrl } = merchant
    const announcement = this.#wire.announce(happening, this.#now())
    if (announcement === undefined || callbackUrl === null) return
    const due = { url: callbackUrl, callback: signed(this.#wire, merchant, announcement, this.#signature) }
    if (this.#collected !== undefined) this.#collected.push(due)
    else void this.#sendDue([due])
  }

  /** The callbacks of the work meanwhile. */
  #collect = (act: () => void): ReadonlyArray<Due> => {
    this.#collected = []
    try {
      act()
      return this.#collected
    } finally {
      this.#collected = undefined
    }
  }

  #sendDue = async (dues: ReadonlyArray<Due>): Promise<void> => {
    if (this.callbacks.sending.when === "kept") this.callbacks.kept.push(...dues)
    else if (dues.length > 0) await this.callbacks.send(dues)
  }

  /** The fault of a call. Logs the call. */
  #faultOf = (kind: CallKind, reference: string, key: string, amountKobo: number | null): Fault | undefined => {
    const call: Call = {
      kind,
      reference,
      key,
      amountKobo,
      attempt: this.calls.attempt(kind, reference),
      at: this.#now(),
    }
    const fault = this.#plan.take(call)
    this.calls.note({ ...call, fault })
    return fault
  }

  #act = ({ books, secretKey }: Merchant, transaction: Transaction, act: Act, options: PageOptions): boolean => {
    const isPayable = transaction.status === "open" || transaction.status === "failed"
    if (act === "leave" || !isPayable) return true
    if (act === "decline") {
      books.apply(transaction, { kind: "decline", words: options.words ?? "Declined" })
      return true
    }
    const outcome = this.#faultOf("page", transaction.reference, secretKey, transaction.askedKobo)?.outcome
    if (outcome === "nothing") return false
    books.pay(transaction, options, outcome)
    return true
  }

  #serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const text = await bodyOf(request)
    const { pathname, searchParams } = new URL(request.url ?? "/", this.url)
    const code = /^\/page\/([^/]+)$/.exec(pathname)?.[1]
    if (code !== undefined) return this.#servePage(request.method ?? "GET", code, text, response)
    const key = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? ""
    const merchant = this.merchants.get(key)
    if (merchant === undefined) {
      this.calls.unauthorized++
      return sendReply(response, this.#wire.unauthorized)
    }
    closed(response, this.calls.begin(key))
    const understood = this.#wire.understand({
      method: request.method ?? "GET",
      path: pathname,
      query: searchParams,
      body: decode(text),
      books: merchant.books,
      origin: this.url,
      now: this.#now(),
    })
    if (understood === undefined) return sendReply(response, this.#wire.notFound)
    await this.#answer(understood, merchant, response)
  }

  #answer = async (call: ParsedCall, merchant: Merchant, response: ServerResponse): Promise<void> => {
    const fault = this.#faultOf(call.kind, call.reference, merchant.secretKey, call.amountKobo)
    let reply: Reply | undefined
    const dues = this.#collect(() => {
      if (fault?.outcome !== "nothing") reply = call.perform(fault?.outcome)
    })
    if (this.callbacks.sending.when === "after") closed(response, () => void this.#sendDue(dues))
    else await this.#sendDue(dues)
    const other = () => merchant.books.otherThan(call.reference) ?? `${call.reference}0`
    const send = () => sendAnswer(response, this.#wire, reply, fault?.answer, other)
    const delayMs = fault?.delayMs ?? this.delayMs
    if (delayMs === 0) return send()
    const timer = setTimeout(send, delayMs)
    closed(response, () => clearTimeout(timer))
  }

  #servePage = async (method: string, code: string, form: string, response: ServerResponse): Promise<void> => {
    const merchant = [...this.merchants.values()].find(({ books }) => books.byCode.has(code))
    const transaction = merchant?.books.byCode.get(code)
    if (merchant === undefined || transaction === undefined) return sendPage(response, 404, noPage())
    if (method !== "POST") {
      const isOver = transaction.status === "succeeded" || transaction.status === "pending"
      return sendPage(response, 200, isOver ? overPage(this.#wire.returnTo(transaction, "pay")) : payPage(transaction))
    }
    const act = new URLSearchParams(form).get("act") as Act
    let isDone = false
    const dues = this.#collect(() => {
      isDone = this.#act(merchant, transaction, act, {})
    })
    await this.#sendDue(dues)
    const location = this.#wire.returnTo(transaction, act)
    if (!isDone) sendPage(response, 503, overPage(null))
    else if (location === null) sendPage(response, 200, overPage(null))
    else response.writeHead(303, { location, "content-length": 0 }).end()
  }
}
