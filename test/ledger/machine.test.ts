/** Tests that a subscription's books balance to the kobo after any events in any order. Pure. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import type { BillingCycle } from "../../machines/calendar.ts"
import { allParamsOf, begin, type Decision, decide, delayOf, paramsOf, stateName } from "../../machines/decide.ts"
import type { EscalationRule } from "../../machines/dunning.ts"
import type { SubscriptionEvent } from "../../machines/events.ts"
import type { Bill } from "../../machines/periods.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { dayOf } from "../../src/base/time.ts"
import type { ChargeRow } from "../../src/billing/charge/charge.ts"
import { booksOf, needsSchedule } from "../../src/billing/subscription/postings.ts"
import {
  type SubscriptionRow,
  subscriptionLifecycle,
  subscriptions,
} from "../../src/billing/subscription/subscription.ts"
import type { NewEntry } from "../../src/ledger/ledger.ts"
import { recognisedBefore, restOf, type Schedule } from "../../src/ledger/schedule.ts"

const DAY_MS = 86_400_000
const START = Date.UTC(2025, 0, 30, 18)

interface Terms {
  readonly billingCycle: BillingCycle
  readonly priceKobo: number
  readonly trialDays: number
  readonly proRate: boolean
  readonly vatBps: number
  readonly escalation: EscalationRule
  readonly maxAttempts: number
}

/** A subscription, its rail and its books, in memory. */
class World {
  readonly terms: Terms
  now = START
  row: SubscriptionRow
  decision: Decision<typeof subscriptionMachine>
  readonly timers = new Map<string, { readonly event: string; readonly dueAt: number }>()
  /** The attempts that the rail has not decided. */
  open: Bill | null = null
  takenKobo = 0
  readonly balances = new Map<string, number>()
  readonly keys = new Set<string>()
  readonly schedules = new Map<string, Schedule>()
  /** The recognised revenue of the days that are over. */
  recognisedKobo = 0
  recognisedTo = dayOf(START)

  constructor(terms: Terms) {
    this.terms = terms
    const create = { type: "create", at: START, startAt: START, quantity: 1, ...terms } as const
    this.decision = begin(subscriptionMachine, create)
    const row = {
      account_id: "acct_1",
      livemode: true,
      id: "sub_1",
      customer_id: "cus_1",
      plan_id: "plan_1",
      test_clock_id: null,
    }
    const columns = subscriptions.snapshotColumns(stateName(this.decision.snapshot), this.decision.snapshot.context)
    const fixed = { billing_cycle: terms.billingCycle, price_kobo: terms.priceKobo, start_at: START, version: 1 }
    this.row = { ...row, ...columns, ...fixed } as unknown as SubscriptionRow
    this.#apply(create as unknown as SubscriptionEvent, this.row, undefined)
  }

  get context() {
    return this.decision.snapshot.context
  }

  /** The newest schedule, as the database returns it. */
  get #newest(): Schedule | undefined {
    return [...this.schedules.values()].at(-1)
  }

  #post(entries: ReadonlyArray<NewEntry>): void {
    for (const { idempotencyKey, lines } of entries) {
      expect(this.keys.has(idempotencyKey), idempotencyKey).toBe(false)
      this.keys.add(idempotencyKey)
      expect(
        lines.reduce((sum, { amountKobo }) => sum + amountKobo, 0),
        idempotencyKey,
      ).toBe(0)
      for (const { account, amountKobo } of lines)
        this.balances.set(account, (this.balances.get(account) ?? 0) + amountKobo)
    }
  }

  #apply(event: SubscriptionEvent, before: SubscriptionRow, settled: Bill | undefined): void {
    const { decision } = this
    const to = stateName(decision.snapshot)
    this.row = { ...subscriptions.withSnapshot(before, to, decision.snapshot.context), version: before.version + 1 }
    const transition = { row: before, event, decision, from: before.state, to, version: this.row.version }
    const paid = event.type === "charge.succeeded"
    const refund = paramsOf(decision, "settleCharge")?.refundDue === true
    if (paid) this.takenKobo += settled!.amountKobo
    const charge =
      settled === undefined
        ? undefined
        : ({
            id: `chg_${settled.no}`,
            rail: "simulator",
            bill_no: settled.no,
            amount_kobo: settled.amountKobo,
            refund_due: refund && paid,
          } as ChargeRow)
    const wanted = needsSchedule(transition)
    const [schedule, today] = [this.#newest, dayOf(this.now)]
    const open =
      wanted === undefined || schedule === undefined
        ? undefined
        : { schedule, day: Math.max(wanted, this.recognisedTo) }
    const books = booksOf(transition, { row: this.row, settled: charge, open, vatBps: this.terms.vatBps })
    this.#post(books.entries)
    for (const change of books.schedules) {
      const key = `${change.schedule.bill_no}:${change.schedule.part}`
      if (change.type === "change") {
        this.schedules.set(key, change.schedule)
        continue
      }
      const { posted_day, ...started } = change.schedule
      const from_day = Math.max(started.start_day, posted_day, this.recognisedTo)
      const until_day =
        started.end_day === null || started.state === "stopped" ? from_day : Math.max(started.end_day, from_day + 1)
      expect(this.schedules.has(key), key).toBe(false)
      expect(started.amount_kobo).toBeGreaterThan(0)
      this.schedules.set(key, { ...started, from_day, until_day, adjusted_kobo: 0, moved_kobo: 0 })
    }
    for (const name of decision.cancel) this.timers.delete(name)
    for (const { name, event, dueAt } of decision.set) this.timers.set(name, { event, dueAt })
    const attempts = allParamsOf(decision, "attemptCharge")
    if (attempts.length > 0) this.open = attempts.at(-1)!
    expect(today).toBeGreaterThanOrEqual(this.recognisedTo)
  }

  send(event: object, settled?: Bill): void {
    const facts = { proRate: this.terms.proRate, unitKobo: 130 }
    const full = { at: this.now, ...facts, ...event } as SubscriptionEvent
    this.decision = decide(subscriptionMachine, this.decision.snapshot, full)
    const delay = delayOf(full.type)
    if (delay !== undefined) this.timers.delete(delay)
    if (this.decision.changed) this.#apply(full, this.row, settled)
  }

  /** The rail reports the attempt's result. */
  answer(succeeds: boolean): void {
    const bill = this.open
    if (bill === null) return
    this.open = null
    const policy = {
      maxAttempts: this.terms.maxAttempts,
      intervalsDays: [1, 3],
      escalation: this.terms.escalation,
      cancelAfterDays: 12,
    }
    this.send(succeeds ? { type: "charge.succeeded" } : { type: "charge.failed", retryable: true, policy }, bill)
  }

  /** Time passes, timer by timer. Open attempts at the rail stay open. */
  pass(ms: number, order: ReadonlyArray<string>): void {
    const target = this.now + ms
    for (;;) {
      const due = [...this.timers].filter(([, { dueAt }]) => dueAt <= target)
      due.sort(([a, one], [b, other]) => one.dueAt - other.dueAt || order.indexOf(a) - order.indexOf(b))
      const [first] = due
      if (first === undefined) break
      this.now = Math.max(this.now, first[1].dueAt)
      this.timers.delete(first[0])
      this.send({ type: first[1].event })
    }
    this.now = target
  }

  /** Books the days that are over. */
  recognise(): void {
    const today = dayOf(this.now)
    for (const schedule of this.schedules.values()) {
      const kobo = recognisedBefore(schedule, today) - recognisedBefore(schedule, this.recognisedTo)
      this.recognisedKobo += kobo
      this.balances.set("deferred_revenue", (this.balances.get("deferred_revenue") ?? 0) + kobo)
      this.balances.set("subscription_revenue", (this.balances.get("subscription_revenue") ?? 0) - kobo)
    }
    this.recognisedTo = today
  }

  check(): void {
    const of = (account: string) => this.balances.get(account) ?? 0
    const { bill, dunning } = this.context
    expect([...this.balances.values()].reduce((a, b) => a + b, 0)).toBe(0)
    expect(of("clearing")).toBe(this.takenKobo)
    expect(of("receivable")).toBe(dunning === null ? 0 : bill!.amountKobo)
    const left = [...this.schedules.values()].reduce((sum, one) => sum + restOf(one, this.recognisedTo), 0)
    expect(of("deferred_revenue") + left).toBe(0)
    for (const one of this.schedules.values()) {
      expect(restOf(one, this.recognisedTo)).toBeGreaterThanOrEqual(0)
      if (one.state === "ended") expect(restOf(one, Number.MAX_SAFE_INTEGER)).toBe(0)
    }
    // Served days are recognised.
    if (this.row.state === "active.current")
      for (const one of this.schedules.values())
        expect(one.state === "stopped" && restOf(one, this.recognisedTo) > 0).toBe(false)
    // After it has ended and its days are booked, nothing is left to serve.
    if (this.row.status === "cancelled") {
      const last = Math.max(0, ...[...this.schedules.values()].map(({ until_day }) => until_day))
      expect([...this.schedules.values()].reduce((sum, one) => sum + restOf(one, last), 0)).toBe(0)
    }
    for (const account of ["usage_revenue", "output_vat", "refunds_payable"])
      expect(of(account), account).toBeLessThanOrEqual(0)
    for (const account of ["bad_debt", "waived"]) expect(of(account), account).toBeGreaterThanOrEqual(0)
  }
}

const order = Object.entries(subscriptionLifecycle.ranks)
  .toSorted(([, a], [, b]) => a - b)
  .map(([name]) => name)

type Move = (world: World) => void
const hours = fc.integer({ min: 0, max: 30 * 24 })
const always = (move: Move) => fc.constant<Move>(move)
const move: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 12,
    arbitrary: hours.map(
      (n): Move =>
        (world) =>
          world.pass((n * DAY_MS) / 24, order),
    ),
  },
  { weight: 12, arbitrary: always((world) => world.answer(true)) },
  { weight: 6, arbitrary: always((world) => world.answer(false)) },
  { weight: 6, arbitrary: always((world) => world.recognise()) },
  {
    weight: 4,
    arbitrary: always((world) => world.send({ type: "pause", resumesAt: world.now + 5 * DAY_MS, reason: null })),
  },
  { weight: 4, arbitrary: always((world) => world.send({ type: "pause", resumesAt: null, reason: null })) },
  { weight: 6, arbitrary: always((world) => world.send({ type: "resume" })) },
  {
    weight: 1,
    arbitrary: fc.boolean().map(
      (atPeriodEnd): Move =>
        (world) =>
          world.send({ type: "cancel", atPeriodEnd, reason: "other" }),
    ),
  },
  {
    weight: 4,
    arbitrary: always((world) => {
      if (world.open === null) world.send({ type: "retry", methodId: null })
    }),
  },
  {
    weight: 2,
    arbitrary: fc.nat({ max: 50 }).map(
      (quantity): Move =>
        (world) =>
          world.send({ type: "units", quantity, action: "increment" }),
    ),
  },
  {
    weight: 3,
    arbitrary: always((world) => {
      if (world.terms.billingCycle === "per_delivery")
        world.send({ type: "deliver", deliveries: 2, deliveredAt: world.now })
    }),
  },
  {
    weight: 1,
    arbitrary: fc.integer({ min: 1, max: 4 }).map(
      (quantity): Move =>
        (world) =>
          world.send({ type: "update", quantity }),
    ),
  },
)

const terms: fc.Arbitrary<Terms> = fc.record({
  billingCycle: fc.constantFrom<BillingCycle>("daily", "weekly", "monthly", "quarterly", "per_delivery"),
  priceKobo: fc.oneof(fc.integer({ min: 100, max: 150 }), fc.integer({ min: 10_000, max: 10_000_000_000 })),
  trialDays: fc.constantFrom(0, 0, 2),
  proRate: fc.boolean(),
  vatBps: fc.constantFrom(0, 750, 1999),
  escalation: fc.constantFrom<EscalationRule>("pause_service", "restrict_access", "none"),
  maxAttempts: fc.constantFrom(0, 1, 2),
})

describe("a subscription's books, after any events", () => {
  it("balance; the rail has the taken money, customers owe the API's amount, and deferred revenue is the unserved part", () => {
    const met = { cancelled: 0, written: 0, paused: 0, carried: 0, moved: 0, delivered: 0, waived: 0, refunds: 0 }
    fc.assert(
      fc.property(terms, fc.array(move, { minLength: 10, maxLength: 50, size: "max" }), (given, moves) => {
        const world = new World(given)
        for (const one of moves) {
          one(world)
          world.check()
        }
        world.recognise()
        world.check()
        expect(world.balances.get("subscription_revenue") ?? 0).toBeLessThanOrEqual(0)
        const has = (prefix: string) => ([...world.keys].some((key) => key.startsWith(prefix)) ? 1 : 0)
        const schedules = [...world.schedules.values()]
        met.cancelled += world.row.status === "cancelled" ? 1 : 0
        met.written += has("written_off")
        met.paused += has("service_paused")
        met.carried += schedules.some(({ carried_kobo }) => carried_kobo > 0) ? 1 : 0
        met.moved += schedules.some(({ part }) => part > 1) ? 1 : 0
        met.delivered += has("service_delivered")
        met.waived += has("waived")
        met.refunds += has("refund_due")
      }),
      { numRuns: 1000 },
    )
    // Each case occurred, otherwise the property proves nothing about it.
    for (const [situation, times] of Object.entries(met)) expect(times, situation).toBeGreaterThan(0)
  })
})
