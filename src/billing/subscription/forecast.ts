/**
 * Forecasts of subscriptions (decision S2): the machine walked ahead over its own timers, in memory, by the code that computes real outcomes.
 * Reads and writes nothing.
 */
import { Effect } from "effect"
import { formatInstant, formatInstantOrNull } from "../../base/time.ts"
import type { Assumption } from "../../http/DryRun.ts"
import { type NudgeRow, nudges } from "../../outbound/nudge/nudge.ts"
import { advance } from "../../runtime/lifecycle.ts"
import type { Outcome } from "../../runtime/outcome.ts"
import { type ChargeRow, chargeLifecycle } from "../charge/charge.ts"
import { assumedAnswer } from "../payments/assumedPayments.ts"
import { chargeAfter } from "../payments/decide.ts"
import type { ForecastItem } from "./forecastApi.ts"
import { type Facts, outcomeOf } from "./outcome.ts"
import { eventOf } from "./paymentSubject.ts"
import { REMINDER, type SubscriptionRow, type SubscriptionTransition, subscriptionLifecycle } from "./subscription.ts"
import { delayCommand, reminderCommand } from "./timers.ts"
import type { SubscriptionCommand } from "./transition.ts"

/** A timer that waits: its event, its due instant, and its order among those of one instant. */
export interface WaitingTimer {
  readonly name: string
  readonly event: string
  readonly due_at: number
  readonly rank: number
}

/** Where a walk starts: a subscription with its timers and the charge that is on its way, or the transition that creates it. */
export type ForecastStart =
  | {
      readonly row: SubscriptionRow
      readonly timers: ReadonlyArray<WaitingTimer>
      readonly pending: ChargeRow | undefined
    }
  | { readonly first: SubscriptionTransition }

/** The facts of a forecast do not change while it is walked. */
export type ForecastFacts = Omit<Facts, "nowOf" | "answered">

interface Walk {
  readonly from: number
  readonly until: number
  readonly assume: Assumption
}

const MAX_ITEMS = 1_000

class Walker {
  readonly items: Array<ForecastItem> = []
  readonly #facts: ForecastFacts
  readonly #assume: Assumption
  readonly #timers = new Map<string, WaitingTimer>()
  #row: SubscriptionRow | undefined

  constructor(facts: ForecastFacts, assume: Assumption) {
    this.#facts = facts
    this.#assume = assume
  }

  start(life: ForecastStart, now: number): void {
    if ("first" in life) this.#move(life.first, now)
    else {
      this.#row = life.row
      for (const timer of life.timers) this.#timers.set(timer.name, timer)
      if (life.pending !== undefined) this.#settle(life.pending, now)
    }
  }

  /** Fires the next timer due by `until`; returns whether there was one. */
  fireNext({ from, until }: Walk): boolean {
    let next: WaitingTimer | undefined
    for (const timer of this.#timers.values())
      if (next === undefined || timer.due_at < next.due_at || (timer.due_at === next.due_at && timer.rank < next.rank))
        next = timer
    if (next === undefined || next.due_at > until) return false
    this.#timers.delete(next.name)
    this.#fire(next, Math.max(next.due_at, from))
    return true
  }

  #fire({ event: type, due_at: at }: WaitingTimer, now: number): void {
    const row = this.#row!
    const { terms, rules, quietOf } = this.#facts
    if (type === REMINDER) {
      const due = reminderCommand(row, at, rules.get(row.plan_id)!, quietOf(row), now)
      if ("command" in due) this.#advance(due.command, now)
      else this.#keep(due.later.timers)
    } else {
      // The machine itself set the timer with this event.
      const event = { type, at } as Parameters<typeof delayCommand>[1]
      this.#advance(delayCommand(row, event, terms.get(row.id)!), now)
    }
  }

  #advance(command: SubscriptionCommand, now: number): void {
    for (const transition of advance(subscriptionLifecycle, [command])) this.#move(transition, now)
  }

  #keep({ set, clear }: Outcome["timers"]): void {
    for (const { name } of clear) this.#timers.delete(name)
    for (const timer of set) this.#timers.set(timer.name, timer)
  }

  /** Applies a transition, and settles the charge that it attempts. */
  #move(transition: SubscriptionTransition, now: number, answered: Facts["answered"] = new Map()): void {
    const isNew = this.#row === undefined
    const facts: Facts = { ...this.#facts, nowOf: () => now, answered }
    const { outcome, row, attempt, settled } = outcomeOf(transition, facts, isNew)
    if (settled !== undefined) this.#noteCharge(settled, now)
    this.#note(outcome, isNew ? null : transition.row.status, row, now)
    this.#row = row
    this.#keep(outcome.timers)
    if (attempt !== undefined) this.#settle(attempt, now)
  }

  #note({ events, created }: Outcome, from: string | null, row: SubscriptionRow, now: number): void {
    const at = formatInstant(now)
    if (from !== row.status) this.items.push({ at, kind: "status", from, to: row.status })
    if (from !== row.status && row.status === "cancelled")
      this.items.push({ at, kind: "cancellation", reason: row.cancellation_reason })
    for (const { type } of events) this.items.push({ at, kind: "event", type })
    for (const one of created)
      if (one.table.name === nudges.name) {
        const { template, channel, send_at } = one.row as NudgeRow
        this.items.push({ at: formatInstant(send_at ?? now), kind: "nudge", template, channel })
      }
  }

  /** Settles a charge as assumed. */
  #settle(charge: ChargeRow, now: number): void {
    const at = Math.max(charge.sent_at, now)
    const event = { ...assumedAnswer(charge, this.#assume), at }
    const [transition] = advance(chargeLifecycle, [{ row: charge, event }])
    if (transition === undefined) return
    const after = chargeAfter(transition, now)
    const row = this.#row!
    const answered = { before: charge, after, at }
    const command = eventOf(row, answered, this.#facts.terms.get(row.id))
    const moved = command === undefined ? [] : advance(subscriptionLifecycle, [{ row, event: command }])
    // A subscription that has ended ignores the answer.
    if (moved.length === 0) this.#noteCharge(after, now)
    for (const one of moved) this.#move(one, now, new Map([[row.id, answered]]))
  }

  #noteCharge(
    { status, amount_kobo, lines, period_start_at, period_end_at, attempt_number }: ChargeRow,
    now: number,
  ): void {
    this.items.push({
      at: formatInstant(now),
      kind: "charge",
      amount: amount_kobo,
      lines,
      period_start: formatInstantOrNull(period_start_at),
      period_end: formatInstantOrNull(period_end_at),
      attempt_number,
      outcome: status === "succeeded" ? "succeeded" : "failed",
    })
  }
}

/** Timers that are fired before other work of the process has its turn: 2 ms. */
const SLICE = 40

/** Walks a life until an instant. Returns at most 1,000 items, by time. */
export const walkAhead = Effect.fnUntraced(function* (life: ForecastStart, facts: ForecastFacts, walk: Walk) {
  const walker = new Walker(facts, walk.assume)
  walker.start(life, walk.from)
  for (let fired = 1; walker.items.length <= MAX_ITEMS && walker.fireNext(walk); fired++)
    if (fired % SLICE === 0) yield* Effect.yieldNow
  // A nudge may wait for the end of the quiet hours, which may be after the end.
  const items = walker.items
    .filter(({ at }) => Date.parse(at) <= walk.until)
    .toSorted((some, other) => Date.parse(some.at) - Date.parse(other.at))
    .slice(0, MAX_ITEMS)
  const paid = items.flatMap((item) => (item.kind === "charge" && item.outcome === "succeeded" ? [item.amount] : []))
  return {
    items,
    truncated: walker.items.length > MAX_ITEMS,
    totals: { charges: paid.length, amount: paid.reduce((sum, amount) => sum + amount, 0) },
  }
})
