import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type CheckoutEvent, checkoutMachine, checkoutStatusOf } from "../../machines/checkout.ts"
import { allParamsOf, begin, type Decision, decide, stateName } from "../../machines/decide.ts"
import { type Dunning, lastRetryAt } from "../../machines/dunning.ts"
import type { SubscriptionEvent } from "../../machines/events.ts"
import { statusOf } from "../../machines/status.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"

type Step = Decision<typeof checkoutMachine>

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const START = Date.UTC(2025, 0, 31)
const EXPIRY = START + DAY_MS

const open = () => begin(checkoutMachine, { type: "create", at: START, expiresAt: EXPIRY })
const on = (step: Step, event: CheckoutEvent): Step => decide(checkoutMachine, step.snapshot, event)
const emitted = (step: Step) => allParamsOf(step, "emit").map(({ type }) => type)
const state = (step: Step) => stateName(step.snapshot)

describe("the checkout machine", () => {
  it("is open until it is paid, and may be retried after a decline", () => {
    const paying = on(open(), { type: "pay", at: START + 1 })
    expect(state(paying)).toBe("open.paying")
    const declined = on(paying, { type: "decline", at: START + 2 })
    expect([state(declined), emitted(declined)]).toEqual(["open.waiting", []])
    const completed = on(on(declined, { type: "pay", at: START + 3 }), { type: "complete", at: START + 4 })
    expect([state(completed), emitted(completed)]).toEqual(["completed", ["checkout_session.completed"]])
    expect(completed.snapshot.context.completedAt).toBe(START + 4)
    expect(completed.cancel).toEqual(["expiry"])
  })

  it("sets one timer, which tries and declines do not change", () => {
    const opened = open()
    expect(opened.set).toEqual([{ name: "expiry", dueAt: EXPIRY, event: "xstate.after.expiry.checkout.open" }])
    const paying = on(opened, { type: "pay", at: START + 1 })
    expect([paying.set, paying.cancel]).toEqual([[], []])
  })

  const steps = fc.array(
    fc.constantFrom<CheckoutEvent["type"]>("pay", "decline", "complete", "expire", "xstate.after.expiry.checkout.open"),
    { maxLength: 12 },
  )

  it("ends once, with one event, and ignores later events", () => {
    const ends = new Set<string>()
    fc.assert(
      fc.property(steps, (types) => {
        let step = open()
        let ended: string | undefined
        let events = 0
        for (const [n, type] of types.entries()) {
          const next = on(step, { type, at: START + n } as CheckoutEvent)
          if (ended !== undefined) expect([next.changed, state(next)]).toEqual([false, ended])
          events += next.changed ? emitted(next).length : 0
          if (next.changed) step = next
          if (checkoutStatusOf(state(step)) !== "open") ended = state(step)
        }
        expect(events).toBe(ended === undefined ? 0 : 1)
        expect(step.snapshot.context.completedAt !== null).toBe(ended === "completed")
        ends.add(ended ?? "open")
      }),
    )
    expect([...ends].sort()).toEqual(["completed", "expired", "open"])
  })
})

type Subscribed = Decision<typeof subscriptionMachine>

const waiting = (over: object = {}) =>
  begin(subscriptionMachine, {
    type: "create",
    at: START,
    billingCycle: "monthly",
    priceKobo: 500_000,
    quantity: 1,
    trialDays: 0,
    startAt: START,
    checkout: true,
    ...over,
  })
const then = (step: Subscribed, event: object): Subscribed =>
  decide(subscriptionMachine, step.snapshot, event as SubscriptionEvent)
const POLICY = { maxAttempts: 3, intervalsDays: [1], escalation: "none", cancelAfterDays: 30 } as const
const submit = (step: Subscribed, at: number) => then(step, { type: "check_out", at, methodId: "pm_1" })
const fail = (step: Subscribed, at: number) =>
  then(step, { type: "charge.failed", at, retryable: true, policy: POLICY })
const named = (step: Subscribed) =>
  step.effects.map(({ type, params }) => {
    const { posting, type: event } = (params ?? {}) as { readonly posting?: string; readonly type?: string }
    return posting ?? event ?? type
  })

describe("a subscription that waits for its checkout", () => {
  it("charges nothing and has no timer", () => {
    const step = waiting()
    expect([stateName(step.snapshot), named(step), step.set]).toEqual(["checkout.open", ["subscription.created"], []])
  })

  it("starts its first period with the successful payment, and keeps that anchor", () => {
    const at = START + 5 * HOUR_MS
    const declined = fail(submit(waiting(), START + HOUR_MS), START + HOUR_MS)
    expect([stateName(declined.snapshot), named(declined)]).toEqual([
      "checkout.open",
      ["settleCharge", "charge.failed"],
    ])
    const again = submit(declined, at)
    expect(again.snapshot.context.bill).toMatchObject({ no: 1, attempt: 2, periodStart: at, methodId: "pm_1" })
    const paid = then(again, { type: "charge.succeeded", at: at + 1 })
    expect(named(paid)).toEqual(["settleCharge", "paid", "charge.succeeded", "adoptMethod", "subscription.updated"])
    expect(paid.snapshot.context).toMatchObject({
      anchorAt: at,
      periodNo: 0,
      periodStart: at,
      bill: null,
      billsMade: 1,
    })
    expect(paid.set.map(({ name, dueAt }) => [name, dueAt])).toEqual([["periodEnd", Date.UTC(2025, 1, 28, 5)]])
  })

  it("starts its trial when the page is submitted", () => {
    const at = START + 5 * HOUR_MS
    const step = submit(waiting({ trialDays: 14 }), at)
    expect(step.snapshot.context).toMatchObject({
      trialEnd: at + 14 * DAY_MS,
      anchorAt: at + 14 * DAY_MS,
      periodStart: at,
      periodEnd: at + 14 * DAY_MS,
      bill: null,
    })
    expect(named(step)).toEqual(["adoptMethod", "subscription.updated"])
    const short = submit(waiting({ trialDays: 3 }), at)
    expect(named(short)).toEqual(["adoptMethod", "subscription.updated", "subscription.trial_will_end"])
    expect(short.set.map(({ name }) => name)).toEqual(["trialEnd"])
  })

  it("ends with its session, and owes back a later payment", () => {
    const ended = then(submit(waiting(), START + 1), { type: "checkout_expired", at: EXPIRY })
    expect(statusOf(stateName(ended.snapshot), ended.snapshot.context)).toBe("cancelled")
    expect(ended.snapshot.context).toMatchObject({ cancellationReason: "checkout_expired", bill: null })
    const late = then(ended, { type: "charge.succeeded", at: EXPIRY + 1 })
    expect(late.effects[0]).toMatchObject({ type: "settleCharge", params: { refundDue: true } })
    expect(stateName(late.snapshot)).toBe("cancelled")
  })
})

describe("the last retry of an unpaid bill", () => {
  const dunning = (over: Partial<Dunning>): Dunning => ({
    policy: { ...POLICY, intervalsDays: [1, 3, 7] },
    firstFailedAt: START,
    retriesMade: 0,
    nextRetryAt: START + DAY_MS,
    gaveUp: false,
    ...over,
  })

  it("comes after all intervals; the last interval repeats", () => {
    expect(lastRetryAt(dunning({}))).toBe(START + 11 * DAY_MS)
    expect(lastRetryAt(dunning({ retriesMade: 2, nextRetryAt: START + 11 * DAY_MS }))).toBe(START + 11 * DAY_MS)
    expect(lastRetryAt(dunning({ policy: { ...POLICY, maxAttempts: 5, intervalsDays: [1, 3] } }))).toBe(
      START + (1 + 3 * 4) * DAY_MS,
    )
    expect(lastRetryAt(dunning({ nextRetryAt: null }))).toBeNull()
  })
})
