/** Creates live accounts on stand-ins for rails, and reads charges as a merchant, an accountant and the rail do. */
import { Effect } from "effect"
import { afterAll, beforeAll } from "vitest"
import { chargeTimers } from "../../../src/billing/payments/simulatorCharges.ts"
import { refundTimers } from "../../../src/billing/refund/calls.ts"
import { subscriptionTimers } from "../../../src/billing/subscription/timers.ts"
import { createAccount } from "../../../src/merchants/account/accounts.ts"
import type { OutsideRail } from "../../../src/rails/rail/Rail.ts"
import { sweep } from "../../../src/runtime/fire.ts"
import { type Api, createApi } from "../api.ts"
import type { TestDatabase } from "../database.ts"
import { useOwnInstance } from "../instance.ts"
import { rewind } from "../rewind.ts"
import type { Server } from "../server.ts"
import { useServices } from "../services.ts"
import { createCustomer, createPlan, data, eventually } from "../story.ts"
import { expectWhole } from "../whole.ts"
import type { CallKind, Fault } from "./fault.ts"
import { startFlutterwave } from "./flutterwave.ts"
import { putOnRail, saveCard } from "./merchant.ts"
import { startPaystack } from "./paystack.ts"
import type { StandIn } from "./standIn.ts"
import type { Merchant } from "./wire.ts"

export const BOTH = ["paystack", "flutterwave"] as const

/** Credentials for one merchant only. */
let merchants = 0
export const newMerchant = (rail: StandIn): Merchant => {
  const n = ++merchants
  return rail.merchant(`sk_live_merchant_${n}`, { webhookSecret: `webhook_secret_of_merchant_${n}` })
}

export interface Buyer {
  readonly customer: string
  readonly method: string
}

/** A charge as its row stores it. */
export interface SeenCharge {
  readonly id: string
  readonly state: string
  readonly status: string
  readonly asks: number
  readonly not_found: number
  readonly failure_code: string | null
  /** The delay after the call until the next verification. null if there is none. */
  readonly ask_after_ms: number | null
  readonly sent_at: number
}

export interface LiveAccount {
  readonly id: string
  readonly api: Api
  readonly rail: StandIn
  readonly merchant: Merchant
  /** Plans faults for its merchant's next calls, one each. With an amount, only for calls about that amount. */
  readonly plan: (kind: CallKind, planned: Fault | ReadonlyArray<Fault>, amount?: number) => void
  readonly buyer: (email?: string) => Promise<Buyer>
  /** POST /charges. Returns the charge in the answer. */
  // biome-ignore lint/suspicious/noExplicitAny: answers are read field by field, as any client does
  readonly charge: (amount: number, buyer?: Buyer) => Promise<any>
  /** A weekly subscription with its first period paid. Returns its ID. */
  readonly subscribe: (amount: number, buyer?: Buyer) => Promise<string>
  /** The newest charge of a subscription, by the API. */
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly latest: (subscription: string) => Promise<any>
  readonly see: (charge: string) => Promise<SeenCharge>
  /** Makes time pass and fires the timers due by then. */
  readonly pass: (ms: number) => Promise<void>
  /** Makes time pass until a charge's timer verifies it. Returns it as it is after that. */
  readonly ask: (charge: string) => Promise<SeenCharge>
  /** Waits until a charge is settled. */
  // biome-ignore lint/suspicious/noExplicitAny: see above
  readonly settled: (charge: string) => Promise<any>
  /** Types and objects' statuses of the events about an object or a subscription, oldest first. */
  readonly events: (about: string) => Promise<ReadonlyArray<string>>
  /** The non-zero balances of the books, by ledger account. */
  readonly books: () => Promise<Readonly<Record<string, number>>>
  /** `finance.reconciliation_exceptions`: kind, charge, and the rail's amount. */
  readonly exceptions: () => Promise<ReadonlyArray<readonly [kind: string, charge: string, kobo: number | null]>>
}

/** All customers of an account have this address. Their cards were saved with another. */
export const emailOf = (account: string): string => `${account}@example.com`

const WEEK_MS = 7 * 86_400_000
export const DUE = WEEK_MS

interface Around {
  readonly database: TestDatabase
  readonly origin: () => string
  readonly fire: () => Promise<unknown>
}

/** A further account on a rail, with its own merchant there. */
export const openLiveAccount = async (
  { database, origin, fire }: Around,
  name: OutsideRail,
  rail: StandIn,
): Promise<LiveAccount> => {
  const made = await database.run(() => createAccount({ businessName: "Fit Lagos", liveAccess: "approved" }))
  const { id } = made.account
  const merchant = newMerchant(rail)
  merchant.callbackUrl = null
  await putOnRail(database, id, name, merchant)
  const late = () => createApi(origin(), made.keys.sk_live, "live")
  const api: Api = {
    request: (...args) => late().request(...args),
    get: (path) => late().get(path),
    post: (path, body, headers) => late().post(path, body, headers),
    patch: (path, body) => late().patch(path, body),
    delete: (path) => late().delete(path),
    all: (path) => late().all(path),
  }
  const buyer: LiveAccount["buyer"] = async (email = "card@example.com") => {
    const customer = await createCustomer(api, { email: emailOf(id) })
    return { customer, method: await saveCard(database, id, name, merchant, customer, email) }
  }
  const see: LiveAccount["see"] = async (charge) => {
    const [row] = await database.run(
      (sql) => sql<SeenCharge>`
        SELECT c.id, c.state, c.status, c.asks, c.not_found, c.failure_code, c.sent_at,
          (extract(epoch FROM t.due_at - c.sent_at) * 1000)::float8 AS ask_after_ms
        FROM charge c LEFT JOIN timer t ON (t.account_id, t.livemode, t.actor_id, t.name) = (c.account_id, c.livemode, c.id, 'ask')
        WHERE c.id = ${charge}`,
    )
    return row!
  }
  const pass: LiveAccount["pass"] = async (ms) => {
    await database.run(() => rewind(id, ms))
    await fire()
    // The server fires timers that it found due at the same moment.
    await eventually(async () => {
      const due = await database.run(
        (sql) =>
          sql`SELECT 1 FROM timer WHERE account_id = ${id} AND actor_kind IN ('subscription', 'charge', 'refund') AND due_at <= now()`,
      )
      return due.length === 0 ? true : undefined
    })
  }
  return {
    id,
    api,
    rail,
    merchant,
    plan: (kind, planned, amount) =>
      rail.plan(
        kind,
        (call) => call.key === merchant.secretKey && (amount === undefined || call.amountKobo === amount),
        ...[planned].flat(),
      ),
    buyer,
    see,
    pass,
    charge: async (amount, given) => {
      const { customer, method } = given ?? (await buyer())
      return data(await api.post("/charges", { customer, amount, currency: "NGN", payment_method: method }), 201)
    },
    subscribe: async (amount, given) => {
      const { customer, method } = given ?? (await buyer())
      const plan = await createPlan(api, { amount, billing_cycle: "weekly" })
      const made = data(await api.post("/subscriptions", { customer, plan, payment_method: method }), 201)
      await eventually(async () =>
        data(await api.get(`/subscriptions/${made.id}`)).status === "active" ? true : undefined,
      )
      return made.id
    },
    latest: async (subscription) => (await api.all(`/charges?subscription=${subscription}`))[0],
    ask: async (charge) => {
      const before = await see(charge)
      await pass(Math.max(Math.ceil(before.sent_at + before.ask_after_ms! - Date.now()), 0))
      return eventually(async () => {
        const now = await see(charge)
        return now.asks > before.asks && now.state !== "pending.asking" ? now : undefined
      })
    },
    settled: (charge) =>
      eventually(async () => {
        const now = data(await api.get(`/charges/${charge}`))
        return now.status === "pending" ? undefined : now
      }),
    events: async (about) =>
      (await api.all("/events"))
        .filter(({ data: { object } }) => object.id === about || object.subscription === about)
        .reverse()
        .map(({ type, data: { object } }) => `${type} ${object.status}`),
    books: async () => {
      const rows = await database.run(
        (sql) => sql<{ ledger_account: string; balance_kobo: number }>`
          SELECT ledger_account, balance_kobo FROM finance.trial_balance WHERE account_id = ${id} AND livemode AND balance_kobo <> 0`,
      )
      return Object.fromEntries(rows.map(({ ledger_account, balance_kobo }) => [ledger_account, balance_kobo]))
    },
    exceptions: async () => {
      const rows = await database.run(
        (sql) => sql<{ kind: string; charge: string; rail_amount_kobo: number | null }>`
          SELECT kind, charge, rail_amount_kobo FROM finance.reconciliation_exceptions WHERE account_id = ${id} ORDER BY charge, kind`,
      )
      return rows.map(({ kind, charge, rail_amount_kobo }) => [kind, charge, rail_amount_kobo] as const)
    },
  }
}

/** Expects that the books of a merchant's own rail match ours. */
export const expectSameMoney = async (accounts: ReadonlyArray<LiveAccount>): Promise<void> => {
  for (const { id, books, merchant } of accounts) {
    const { clearing = 0 } = await books()
    const taken = merchant.books.totalTaken() - merchant.books.totalReturned()
    if (clearing !== taken) throw new Error(`${id}: our books have ${clearing} at the rail, the rail's own ${taken}.`)
  }
}

/**
 * Call at the top of a test file: stand-ins for both rails, its own server and database. Afterwards the books, journals
 * and the rails' own books of all accounts are compared.
 */
export const useRails = (env: () => Readonly<Record<string, string>> = () => ({})) => {
  const standIns: { [R in OutsideRail]?: StandIn } = {}
  beforeAll(async () => {
    standIns.paystack = await startPaystack()
    standIns.flutterwave = await startFlutterwave()
  })
  afterAll(() => Promise.all(Object.values(standIns).map((rail) => rail.close())))
  const instance = useOwnInstance(() => ({
    PAYSTACK_URL: standIns.paystack!.url,
    FLUTTERWAVE_URL: standIns.flutterwave!.url,
    // At any hour of the test run.
    QUIET_HOURS: "off",
    ...env(),
  }))
  const { database, server } = instance
  const services = useServices(database)
  const fire = () => services(Effect.scoped(sweep([chargeTimers, subscriptionTimers, refundTimers])))
  const accounts: Array<LiveAccount> = []
  afterAll(async () => {
    await expectWhole(database)
    await expectSameMoney(accounts)
  })
  return {
    ...instance,
    fire,
    railOf: (name: OutsideRail): StandIn => standIns[name]!,
    /** `compared` false: its rail has money that our books cannot have. */
    open: async (name: OutsideRail, { compared = true } = {}): Promise<LiveAccount> => {
      const account = await openLiveAccount({ database, origin: () => server().origin, fire }, name, standIns[name]!)
      if (compared) accounts.push(account)
      return account
    },
    /** The address for a rail's callbacks of an account. */
    callbackUrl: (name: OutsideRail, account: LiveAccount): string => callbackUrlOf(server(), name, account),
  }
}

const callbackUrlOf = (server: Server, name: OutsideRail, { id }: LiveAccount): string =>
  `${server.origin}/callbacks/${name}/${id}`
