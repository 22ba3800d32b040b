/** Runs an account by its schedule: the steps of its merchant, its buyers and its rails. */
import { Redacted } from "effect"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { replaceCredentials } from "../../src/rails/credential/credentials.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import type { Forgery } from "../support/rails/callback.ts"
import type { Callback, Merchant } from "../support/rails/wire.ts"
import type { Party, RailCall } from "./rails.ts"
import type { CallbackWay, Schedule, Step } from "./schedule.ts"
import { newestOf, paymentsOnPages, undecidedOf } from "./seen.ts"
import { LOST } from "./service.ts"
import { beginWithCard, openShop, saveCardAt } from "./shop.ts"
import { type Request, verbs } from "./verbs.ts"
import type { World } from "./world.ts"

/** Time that passes at the end, in moves to the next due instant: days, with verifications every hour. */
const MAX_MOVES = 60
/** From here on time passes faster than verifications are due, so that daily ones do not take too many moves. */
const MOVES_BY_QUESTIONS = 30
const FASTER_MS = 12 * 3_600_000
/** From here on buyers finish open pages of the rail, and rails decide their open charges. */
const MOVES_WITHOUT_THEM = 8

/** The limit of a merchant's tries of a request without an answer. */
const MAX_ASKED = 4

const FORGERIES: ReadonlyArray<Forgery> = ["wrong_signature", "unsigned", "other_account", "changed_body"]

interface LateCallback {
  readonly rail: OutsideRail
  readonly callback: Callback
}

/** The line in the log at which no work was in progress any more, and the process at that time. */
export interface Mark {
  readonly generation: number
  readonly callCount: number
}

export class Account implements Party {
  readonly schedule: Schedule
  readonly merchants: Partial<Record<OutsideRail, Merchant>> = {}
  readonly railCalls: Array<RailCall> = []
  readonly marks: Array<Mark> = []
  /** The account's history, for debugging. */
  readonly story: Array<string> = []
  readonly counts = { callbacks: 0, forged: 0, moves: 0, refused: 0, lost: 0 }
  id = ""
  /** Requests and callbacks in progress. */
  underWay = 0
  #customer = ""
  #plan = ""
  #rail: OutsideRail
  #cards: ReadonlyArray<string> = []
  #keys = 0
  #givingKeys = Promise.resolve()
  #late: Array<LateCallback> = []
  readonly #world: World

  constructor(world: World, schedule: Schedule) {
    this.#world = world
    this.schedule = schedule
    this.#rail = schedule.rail
  }

  get #tenant() {
    return { account_id: this.id, livemode: true }
  }

  #say = (line: string): void => void this.story.push(`${this.#world.elapsed()} ${line}`)

  /** Runs from the start to the end of its schedule, and on until nothing is due. */
  live = async (): Promise<void> => {
    await this.#begin()
    for (const step of this.schedule.steps) {
      // Time passes when no work is in progress.
      const waits = step.waits || step.name === "pass"
      this.#say(`step ${step.name}${waits ? "" : ", without waiting"}`)
      const doing = this.#take(step)
      if (!waits) {
        void this.#count(doing)
        continue
      }
      await doing
      await this.#world.rest(this)
      if (step.name === "checkOut" || step.name === "setUp") await this.#goOn(step)
    }
    await this.#end()
  }

  #begin = async (): Promise<void> => {
    const { account } = await this.#world.operate(createAccount({ businessName: "Fit", liveAccess: "approved" }))
    this.id = account.id
    await this.#giveKeys(this.#rail)
    const { customer, plan } = await this.#world.operate(openShop(this.#tenant, this.schedule.amountKobo))
    this.#customer = customer
    this.#plan = plan
    await this.#world.operate(beginWithCard(this.#tenant, await this.#saveCard(this.#rail)))
  }

  /** Puts the account on a rail, with new keys there. */
  #giveKeys = (rail: OutsideRail): Promise<void> => {
    // One after the other. In parallel, the service could have one's keys and the rail the other's.
    this.#givingKeys = this.#givingKeys.then(() => this.#replaceKeys(rail))
    return this.#givingKeys
  }

  #replaceKeys = async (rail: OutsideRail): Promise<void> => {
    const key = `${rail === "paystack" ? "sk_live_" : "FLWSECK-"}${this.schedule.number}x${this.#keys++}`
    const hadMerchant = this.merchants[rail] !== undefined
    const merchant = this.#world.rails.merchantOf(this, rail, key)
    if (hadMerchant) this.#world.rails.rotate(this, rail, key)
    const secrets = {
      secret_key: Redacted.make(merchant.secretKey),
      ...(rail === "flutterwave" ? { webhook_secret: Redacted.make(merchant.webhookSecret) } : {}),
    }
    await this.#world.operate(replaceCredentials(this.id, rail, secrets))
  }

  #saveCard = async (rail: OutsideRail): Promise<string> => {
    const id = await this.#world.operate(saveCardAt(this.#tenant, this.#customer, rail, this.merchants[rail]!))
    this.#cards = [...this.#cards, id]
    return id
  }

  #setCard = (card: string) => this.#ask(verbs.setCard(this.#tenant, this.#customer, card))

  /** Sends a request to the service. Repeats it if the result is unknown, though it may have been done. */
  #ask = async (request: Request): Promise<void> => {
    for (let times = 0; times < MAX_ASKED; times++) {
      const refused = await this.#world.ask(request)
      if (refused === undefined) return
      this.#say(refused === LOST ? "  lost" : `  refused: ${refused}`)
      if (refused !== LOST) return void this.counts.refused++
      this.counts.lost++
    }
  }

  /** Work is in progress during this. */
  #count = async (doing: Promise<unknown>): Promise<void> => {
    this.underWay++
    try {
      await doing
    } catch (error) {
      this.#world.fail(error)
    } finally {
      this.underWay--
    }
  }

  #newest = () => this.#world.operate(newestOf(this.id))

  #ofCharge = async (request: (id: string) => Request, times = 1): Promise<void> => {
    const { charge } = await this.#newest()
    if (charge !== undefined) await Promise.all(Array.from({ length: times }, () => this.#ask(request(charge))))
  }

  #ofSubscription = async (request: (id: string) => Request) => {
    const { subscription } = await this.#newest()
    if (subscription !== undefined) await this.#ask(request(subscription))
  }

  #take = async ({ name, much }: Step): Promise<void> => {
    const tenant = this.#tenant
    switch (name) {
      case "charge":
        return this.#ask(verbs.charge(tenant, this.#customer, this.schedule.amountKobo + much))
      case "subscribe":
        return this.#ask(verbs.subscribe(tenant, this.#customer, this.#plan))
      case "checkOut":
        return this.#ask(verbs.checkOut(tenant, this.#customer, this.#plan, this.#rail))
      case "setUp":
        return this.#ask(verbs.setUp(tenant, this.#customer, this.#rail))
      case "comeBack":
        return this.#comeBack()
      case "retry":
        return this.#ofCharge((id) => verbs.retry(tenant, id))
      case "retryTwice":
        return this.#ofCharge((id) => verbs.retry(tenant, id), 2)
      case "cancel":
        return this.#ofSubscription((id) => verbs.cancel(tenant, id, false))
      case "cancelAtPeriodEnd":
        return this.#ofSubscription((id) => verbs.cancel(tenant, id, true))
      case "pause":
        return this.#ofSubscription((id) => verbs.pause(tenant, id))
      case "resume":
        return this.#ofSubscription((id) => verbs.resume(tenant, id))
      case "otherCard":
        return this.#setCard(await this.#saveCard(this.#rail))
      case "removeCards": {
        const cards = this.#cards
        this.#cards = []
        for (const card of cards) await this.#ask(verbs.removeCard(tenant, this.#customer, card))
        return
      }
      case "rotateKeys":
        return this.#giveKeys(this.#rail)
      case "switchRail": {
        const other = this.#rail === "paystack" ? "flutterwave" : "paystack"
        await this.#giveKeys(other)
        this.#rail = other
        if (much % 2 === 0) await this.#setCard(await this.#saveCard(other))
        return
      }
      case "deliver":
        return this.#deliverLate(much)
      case "forge":
        return this.#forge(FORGERIES[much % FORGERIES.length]!)
      case "strangeCallback":
        return this.#deliver(this.#rail, this.#callbackOf(this.#rail, `chg_nobody${much}`))
      case "settleAtRail":
        await this.#settleAtRail()
        return
      case "payOnPage":
        return this.#actOnPages(much % 3 === 0 ? "decline" : "pay")
      case "pass":
        return this.#pass()
    }
  }

  #pass = async (atLeastMs = 0): Promise<void> => {
    const ms = await this.#world.pass(this, atLeastMs)
    if (ms !== null) this.counts.moves++
    this.#say(ms === null ? "  nothing is due" : `  ${Math.round(ms / 1000)} s have passed`)
  }

  #callbackOf = (rail: OutsideRail, reference: string): Callback => {
    const merchant = this.merchants[rail]!
    return this.#world.rails.standIns[rail].callbackFor(reference, { merchant })
  }

  called = (rail: OutsideRail, callback: Callback, way: CallbackWay): void => {
    if (way === "late") return void this.#late.push({ rail, callback })
    void this.#count(this.#deliver(rail, callback))
    if (way !== "twice") return
    void this.#count(this.#deliver(rail, callback))
    this.#late.push({ rail, callback })
  }

  /** Sends a rail's callback until it is accepted, signed with the secrets that are current then. */
  #deliver = async (rail: OutsideRail, callback: Callback): Promise<void> => {
    this.counts.callbacks++
    const status = await this.#world.callback(rail, this.id, callback)
    if (status === 200) return
    if (status === LOST) return void this.#late.push({ rail, callback })
    const reference = /"(?:reference|tx_ref|transaction_reference)":"([^"]+)"/.exec(callback.body)?.[1]
    if (reference !== undefined) this.#late.push({ rail, callback: this.#callbackOf(rail, reference) })
  }

  #deliverLate = async (much: number): Promise<void> => {
    const late = this.#late.splice(0)
    const inOrder = much % 2 === 0 ? late : late.toReversed()
    if (much % 3 === 0) await Promise.all(inOrder.map(({ rail, callback }) => this.#deliver(rail, callback)))
    else for (const { rail, callback } of inOrder) await this.#deliver(rail, callback)
  }

  #forge = async (how: Forgery): Promise<void> => {
    const { charge } = await this.#newest()
    const standIn = this.#world.rails.standIns[this.#rail]
    const callback = standIn.forged(this.#callbackOf(this.#rail, charge ?? "chg_nobody"), how)
    this.counts.forged++
    const status = await this.#world.callback(this.#rail, this.id, callback)
    // Flutterwave's older signature is the same for every body.
    if (status !== 401 && status !== LOST)
      throw new Error(`A forged callback (${how}) was answered with ${String(status)}.`)
  }

  /** The buyers return from all open pages of the rail. */
  #comeBack = async (): Promise<void> => {
    const tenant = this.#tenant
    const pending = await this.#world.operate(paymentsOnPages(this.id))
    for (const { id } of pending) await this.#ask(verbs.comeBack({ ...tenant, id }))
  }

  /** The action of most buyers on the rail's page. */
  #goOn = async ({ much }: Step): Promise<void> => {
    if (much % 5 === 0) return
    await this.#actOnPages(much % 5 === 1 ? "decline" : "pay")
    if (much % 2 === 0) await this.#comeBack()
  }

  /** Makes the rails report all pending results. Returns their number. */
  #settleAtRail = async (): Promise<number> => {
    let settled = 0
    for (const merchant of Object.values(this.merchants)) settled += merchant.books.settleAll()
    this.#world.rails.drain()
    return settled
  }

  #actOnPages = async (act: "pay" | "decline"): Promise<void> => {
    for (const rail of Object.keys(this.merchants) as Array<OutsideRail>)
      for (const { status, reference } of this.merchants[rail]!.books.transactions.values())
        if (status === "open") await this.#world.rails.standIns[rail].payOnPage(reference, act)
    this.#world.rails.drain()
  }

  /** Undecided charges and refunds, except those with a result from the rail that can never be right. */
  #undecided = async (): Promise<number> => {
    const rows = await this.#world.operate(undecidedOf(this.id))
    return rows.filter(({ id: charge, rail, amount_kobo }) => {
      const transaction = this.merchants[rail]?.books.find(charge)
      return !(
        transaction?.status === "succeeded" &&
        (transaction.currency !== "NGN" || transaction.amountKobo < amount_kobo)
      )
    }).length
  }

  #cancelAll = async (): Promise<void> => {
    for (;;) {
      const { subscription } = await this.#newest()
      if (subscription === undefined) break
      await this.#ask(verbs.cancel(this.#tenant, subscription, false))
    }
  }

  /** Nothing new starts, and all work in progress ends. */
  #end = async (): Promise<void> => {
    this.#say("the schedule has ended")
    for (let moves = 0; ; moves++) {
      // Some start only now, from work that was still in progress.
      await this.#cancelAll()
      await this.#deliverLate(moves)
      await this.#world.rest(this)
      const undecided = await this.#undecided()
      if (undecided === 0 && this.#late.length === 0) {
        // A report may start a refund, which has a result of its own.
        if ((await this.#settleAtRail()) === 0) break
        continue
      }
      if (moves === MAX_MOVES) throw new Error(`${undecided} charges or refunds are pending for ever.`)
      if (moves >= MOVES_WITHOUT_THEM) {
        await this.#settleAtRail()
        await this.#actOnPages(moves % 2 === 0 ? "decline" : "pay")
      }
      if (undecided > 0) await this.#pass(moves < MOVES_BY_QUESTIONS ? 0 : FASTER_MS)
    }
  }
}
