import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { allParamsOf, begin, type Decision, decide, restore, stateName } from "../../machines/decide.ts"
import type { DunningPolicy } from "../../machines/dunning.ts"
import type { SubscriptionEvent } from "../../machines/events.ts"
import { statusOf } from "../../machines/status.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"

type Step = Decision<typeof subscriptionMachine>

const DAY_MS = 86_400_000
const START = Date.UTC(2025, 0, 31)
const POLICY: DunningPolicy = {
  maxAttempts: 3,
  intervalsDays: [1, 3, 7],
  escalation: "pause_service",
  cancelAfterDays: 30,
}

const input = (over: object = {}) =>
  ({
    type: "create",
    at: START,
    billingCycle: "monthly",
    priceKobo: 500_000,
    quantity: 1,
    trialDays: 0,
    startAt: START,
    ...over,
  }) as const
const start = (over: object = {}): Step => begin(subscriptionMachine, input(over))
const on = (step: Step, event: object): Step => decide(subscriptionMachine, step.snapshot, event as SubscriptionEvent)
const emitted = (step: Step) => allParamsOf(step, "emit").map(({ type }) => type)
/** The name of an effect: its posting or event, otherwise its own name. */
const named = ({ type, params }: Step["effects"][number]): unknown => {
  const { posting, type: event } = (params ?? {}) as { readonly posting?: string; readonly type?: string }
  return posting ?? event ?? type
}
const timer = (step: Step, name: string) => {
  const found = step.set.find((timer) => timer.name === name)
  if (found === undefined) throw new Error(`No timer ${name}`)
  return found
}
const fire = (step: Step, name: string): Step => {
  const { event, dueAt } = timer(step, name)
  return on(step, { type: event, at: dueAt })
}
const succeed = (step: Step, at: number) => on(step, { type: "charge.succeeded", at })
const fail = (step: Step, at: number, over: object = {}) =>
  on(step, { type: "charge.failed", at, retryable: true, policy: POLICY, ...over })
const status = (step: Step) => statusOf(stateName(step.snapshot), step.snapshot.context)
const active = () => succeed(start(), START)

describe("the subscription machine", () => {
  it("retries 1, 3 and 7 days after the previous attempt, then pauses, then cancels", () => {
    const renewal = fire(active(), "periodEnd")
    const due = Date.UTC(2025, 1, 28)
    let step = fail(renewal, due)
    expect(status(step)).toBe("past_due")
    const retries: Array<number> = []
    for (let k = 0; k < 3; k++) {
      const at = timer(step, "nextRetry").dueAt
      retries.push((at - due) / DAY_MS)
      step = fail(fire(step, "nextRetry"), at)
    }
    expect(retries).toEqual([1, 4, 11])
    expect(emitted(step)).toEqual(["charge.failed", "subscription.escalated", "subscription.paused"])
    expect(status(step)).toBe("paused")
    const end = on(step, { type: "xstate.after.unpaidTooLong.subscription.overdue", at: due + 30 * DAY_MS })
    expect(end.snapshot.context.cancellationReason).toBe("nonpayment")
    expect(end.effects.map(named)).toEqual(["written_off", "subscription.cancelled"])
  })

  it.each([
    ["restrict_access", ["charge.failed", "subscription.past_due", "subscription.escalated"], "past_due", "restrict"],
    ["hold_delivery", ["charge.failed", "subscription.past_due", "subscription.escalated"], "past_due", "hold"],
    ["none", ["charge.failed", "subscription.past_due"], "past_due", "none"],
    [
      "pause_service",
      ["charge.failed", "subscription.past_due", "subscription.escalated", "subscription.paused"],
      "paused",
      "pause",
    ],
  ])("escalates by %s at the first failure if there are no retries", (escalation, events, expected, action) => {
    const step = fail(fire(active(), "periodEnd"), Date.UTC(2025, 1, 28), {
      policy: { ...POLICY, maxAttempts: 0, escalation },
    })
    expect(emitted(step)).toEqual(events)
    expect(status(step)).toBe(expected)
    expect(step.snapshot.context.escalation?.action).toBe(action)
  })

  it("skips retries and escalation after a failure that must not be retried", () => {
    const step = fail(fire(active(), "periodEnd"), Date.UTC(2025, 1, 28), { retryable: false })
    expect(stateName(step.snapshot)).toBe("overdue.waiting")
    expect(step.snapshot.context.escalation).toBeNull()
    expect(step.set.map(({ name }) => name).sort()).toEqual(["billPeriodEnd", "unpaidTooLong"])
  })

  it("recovers at the missed boundary, and moves the anchor only if the whole period has passed", () => {
    const due = Date.UTC(2025, 1, 28)
    const failed = fail(fire(active(), "periodEnd"), due)
    const soon = succeed(fire(failed, "nextRetry"), due + DAY_MS)
    expect(soon.snapshot.context).toMatchObject({
      anchorAt: START,
      periodStart: due,
      periodEnd: Date.UTC(2025, 2, 31),
      bill: null,
      dunning: null,
    })
    const late = succeed(fire(failed, "nextRetry"), Date.UTC(2025, 3, 5))
    expect(late.snapshot.context).toMatchObject({
      anchorAt: Date.UTC(2025, 3, 5),
      periodStart: Date.UTC(2025, 3, 5),
      periodEnd: Date.UTC(2025, 4, 5),
    })
  })

  it("lets an attempt in progress decide at the unpaid deadline", () => {
    const due = Date.UTC(2025, 1, 28)
    const deadline = { type: "xstate.after.unpaidTooLong.subscription.overdue", at: due + 30 * DAY_MS }
    const charging = fire(fail(fire(active(), "periodEnd"), due), "nextRetry")
    const still = on(charging, deadline)
    expect(stateName(still.snapshot)).toBe("overdue.charging")
    expect(status(succeed(still, deadline.at))).toBe("active")
    expect(status(fail(still, deadline.at + 1))).toBe("cancelled")
    // At exactly that instant the failure schedules the next retry, and the clock's own timer cancels (E19).
    const failed = fail(still, deadline.at)
    expect(stateName(failed.snapshot)).toBe("overdue.retrying")
    expect(failed.set).toContainEqual(expect.objectContaining({ name: "unpaidTooLong", dueAt: deadline.at }))
    expect(status(on(failed, deadline))).toBe("cancelled")
  })

  describe("after the unpaid deadline, and after a period end with a scheduled cancellation", () => {
    const due = Date.UTC(2025, 1, 28)
    const deadline = due + 30 * DAY_MS
    const overdue = () => fail(fire(active(), "periodEnd"), due)
    const byHand = (step: Step, at: number) => on(step, { type: "retry", at, methodId: null })

    it("tries a method that waited for the attempt", () => {
      const charging = on(byHand(overdue(), deadline - 1), { type: "method", at: deadline - 1, methodId: "pm_2" })
      const failed = fail(charging, deadline + 1)
      expect(stateName(failed.snapshot)).toBe("overdue.charging")
      expect(failed.snapshot.context.bill).toMatchObject({ methodId: "pm_2", nextMethod: null })
      expect(status(fail(failed, deadline + 2))).toBe("cancelled")
    })

    it("makes the retry that a manual attempt delayed, and no later one", () => {
      const policy = { ...POLICY, maxAttempts: 1, intervalsDays: [30] }
      const last = fail(fire(active(), "periodEnd"), due, { policy })
      expect(timer(last, "nextRetry").dueAt).toBe(deadline)
      const charging = byHand(last, deadline - 1)
      const failed = fail(charging, deadline + 1, { policy })
      expect(stateName(failed.snapshot)).toBe("overdue.retrying")
      expect(status(fail(fire(failed, "nextRetry"), deadline + 2, { policy }))).toBe("cancelled")
      const later = { ...policy, intervalsDays: [31] }
      const without = byHand(fail(fire(active(), "periodEnd"), due, { policy: later }), deadline - 1)
      expect(status(fail(without, deadline + 1, { policy: later }))).toBe("cancelled")
    })

    it("waits for the attempt in progress, unless escalation has paused it", () => {
      const over = Date.UTC(2025, 2, 31) + 1
      const ask = { type: "cancel", at: over, atPeriodEnd: true, reason: "other" }
      const policy = { ...POLICY, maxAttempts: 0, escalation: "none", cancelAfterDays: null }
      const charging = byHand(fail(fire(active(), "periodEnd"), due, { policy }), over - 2)
      const asked = on(charging, ask)
      expect([status(asked), asked.snapshot.context.cancelAtPeriodEnd]).toEqual(["past_due", true])
      expect(status(fail(asked, over + 1, { policy }))).toBe("cancelled")
      expect(status(succeed(asked, over + 1))).toBe("active")
      const paused = byHand(
        fail(fire(active(), "periodEnd"), due, { policy: { ...policy, escalation: "pause_service" } }),
        due + 1,
      )
      expect(status(on(paused, { ...ask, at: due + 2 }))).toBe("cancelled")
    })
  })

  it("sets the timers again that an attempt delayed, if it fails before they were due", () => {
    const due = Date.UTC(2025, 1, 28)
    const retry = fire(fail(fire(active(), "periodEnd"), due), "nextRetry")
    const pastDeadline = on(retry, { type: "xstate.after.unpaidTooLong.subscription.overdue", at: due + 30 * DAY_MS })
    const failed = fail(pastDeadline, due + DAY_MS)
    expect(timer(failed, "unpaidTooLong").dueAt).toBe(due + 30 * DAY_MS)
    expect(timer(failed, "billPeriodEnd").dueAt).toBe(Date.UTC(2025, 2, 31))
    expect(timer(failed, "nextRetry").dueAt).toBe(due + 4 * DAY_MS)
  })

  describe("a new method that fails (decision E25)", () => {
    const due = Date.UTC(2025, 1, 28)
    const day = (days: number) => due + days * DAY_MS
    const method = (step: Step, days: number, over: object = {}, id: string | null = null) =>
      fail(on(step, { type: "method", at: day(days), methodId: id }), day(days), over)
    const overdue = (over: object = {}) => fail(fire(active(), "periodEnd"), due, over)
    const dunning = ({ snapshot }: Step) => snapshot.context.dunning!
    const dead = { retryable: false }

    it("does not change the scheduled retry", () => {
      const step = method(overdue(), 0.5)
      expect(timer(step, "nextRetry").dueAt).toBe(day(1))
      expect(dunning(step)).toMatchObject({ retriesMade: 0, nextRetryAt: day(1) })
    })

    it("schedules the remaining retries from then on, if the schedule had ended", () => {
      expect(dunning(method(overdue(dead), 5))).toMatchObject({ retriesMade: 0, nextRetryAt: day(6), gaveUp: false })
      const second = fail(fire(overdue(), "nextRetry"), day(1), dead)
      expect(dunning(second)).toMatchObject({ retriesMade: 1, nextRetryAt: null, gaveUp: true })
      expect(dunning(method(second, 5))).toMatchObject({ retriesMade: 1, nextRetryAt: day(8), gaveUp: false })
    })

    it("cancels the retry if it must not be retried; the next one restores it, or the ones left after it", () => {
      const off = method(overdue(), 0.25, dead)
      expect(dunning(off)).toMatchObject({ retriesMade: 0, nextRetryAt: null, gaveUp: true })
      expect(dunning(method(off, 0.75))).toMatchObject({ retriesMade: 0, nextRetryAt: day(1), gaveUp: false })
      expect(dunning(method(method(off, 0.5, dead), 0.75))).toMatchObject({ nextRetryAt: day(1) })
      expect(dunning(method(off, 1))).toMatchObject({ retriesMade: 1, nextRetryAt: day(4), gaveUp: false })
    })

    it.each<readonly [string, object, object]>([
      ["two that are worth a retry", {}, {}],
      ["one that is not, then one that is", dead, {}],
      ["one that is, then one that is not", {}, dead],
    ])("does not delay escalation, day by day with two methods in turn: %s", (_, ...overs) => {
      let step = overdue()
      let made = 0
      for (let days = 0; days < 30 && step.snapshot.context.escalation === null; days++) {
        const { nextRetryAt } = dunning(step)
        if (nextRetryAt !== null && nextRetryAt <= day(days))
          step = fail(fire(step, "nextRetry"), nextRetryAt, overs[(days + 1) % 2]!)
        if (step.snapshot.context.escalation === null) {
          step = method(step, days, overs[days % 2]!)
          made += 1
        }
      }
      expect(step.snapshot.context.escalation).toEqual({ action: "pause", triggeredAt: day(11) })
      expect(made).toBeGreaterThan(10)
      expect(dunning(step).retriesMade).toBe(3)
    })

    it("while the retry falls due is followed by that retry immediately, which counts", () => {
      const trying = on(overdue(), { type: "method", at: day(1) - 600_000, methodId: "pm_new" })
      const failed = fail(trying, day(1) + 600_000)
      expect(timer(failed, "nextRetry").dueAt).toBe(day(1) + 600_000)
      const again = fire(failed, "nextRetry")
      expect(again.snapshot.context.bill).toMatchObject({ methodId: "pm_new", origin: "schedule" })
      expect(dunning(fail(again, day(1) + 600_000))).toMatchObject({ retriesMade: 1 })
    })

    it("after the unpaid deadline is followed by the retry that it delayed, unless that is cancelled (E21)", () => {
      const policy = { ...POLICY, maxAttempts: 1, cancelAfterDays: 1 }
      const trying = on(overdue({ policy }), { type: "method", at: day(1) - 600_000, methodId: null })
      const late = (over: object) => fail(trying, day(1) + 600_000, { policy, ...over })
      expect(status(fire(late({}), "nextRetry"))).toBe("past_due")
      expect(status(late(dead))).toBe("cancelled")
    })
  })

  it("is never charged after a cancelled trial", () => {
    const trial = start({ trialDays: 14 })
    expect(emitted(trial)).toEqual(["subscription.created"])
    const cancelling = on(trial, { type: "cancel", at: START + DAY_MS, atPeriodEnd: true, reason: "customer_request" })
    const end = on(cancelling, { type: timer(trial, "trialEnd").event, at: timer(trial, "trialEnd").dueAt })
    expect(status(end)).toBe("cancelled")
    expect(end.effects.some(({ type }) => type === "attemptCharge")).toBe(false)
    expect(end.snapshot.context.cancellationReason).toBe("customer_request")
  })

  it("bills the units of a last period at its end, for any way to cancel", () => {
    const counted = on(active(), { type: "units", at: START, quantity: 7, action: "increment" })
    const over = Date.UTC(2025, 1, 28)
    const bills = (event: object) => {
      const step = on(counted, { at: over, ...event })
      return [stateName(step.snapshot), status(step), allParamsOf(step, "attemptCharge").map(({ lines }) => lines)]
    }
    const asked = { type: "cancel", atPeriodEnd: true, reason: "other" }
    const charged = [[{ type: "overage", description: "Usage", quantity: 7, unit_amount: 100, amount: 700 }]]
    // Its timer has not fired yet.
    expect(bills({ ...asked, unitKobo: 100 })).toEqual(["ending", "active", charged])
    expect(bills({ type: "update", cancelAtPeriodEnd: true, unitKobo: 100 })).toEqual(["ending", "active", charged])
    const later = on(counted, { ...asked, at: START })
    const { event } = timer(active(), "periodEnd")
    const ended = (facts: object) => on(later, { type: event, at: over, unitKobo: 100, ...facts })
    expect(stateName(ended({}).snapshot)).toBe("ending")
    expect(stateName(ended({ unitKobo: 14 }).snapshot)).toBe("cancelled")
    const declined = fail(ended({}), over)
    expect(declined.effects.map(named)).toEqual([
      "settleCharge",
      "owed",
      "written_off",
      "charge.failed",
      "subscription.cancelled",
      "endService",
    ])
    expect(declined.snapshot.context).toMatchObject({ cancellationReason: "other", bill: null })
  })

  it("drops the units of a trial with it", () => {
    const trial = start({ trialDays: 14 })
    const counted = on(trial, { type: "units", at: START, quantity: 8, action: "increment" })
    const cancel = { type: "cancel", at: START + 1, atPeriodEnd: false, reason: "other" }
    expect(on(counted, cancel).snapshot.context.units).toBe(0)
    const { event: type, dueAt: at } = timer(trial, "trialEnd")
    const charging = on(counted, { type, at })
    for (const ended of [succeed(charging, START), fail(charging, START)]) expect(ended.snapshot.context.units).toBe(0)
  })

  it("credits a delivery that is still due, for any proration setting of the plan", () => {
    const pause = { type: "pause", at: START + 1, resumesAt: null, reason: null, proRate: false }
    const paused = on(succeed(start({ billingCycle: "per_delivery" }), START), pause)
    const resume = { type: "resume", at: START + DAY_MS, unitKobo: 0, proRate: false }
    expect(stateName(on(paused, resume).snapshot)).toBe("active.current")
  })

  it("sends the trial's notice 3 days before its end, or immediately if it is shorter", () => {
    expect(timer(start({ trialDays: 14 }), "trialWillEnd").dueAt).toBe(START + 11 * DAY_MS)
    const short = start({ trialDays: 2 })
    expect(emitted(short)).toEqual(["subscription.created", "subscription.trial_will_end"])
    expect(short.set.map(({ name }) => name)).toEqual(["trialEnd"])
  })

  it("owes back a payment that succeeds after cancellation", () => {
    const cancelled = on(fire(active(), "periodEnd"), {
      type: "cancel",
      at: START,
      atPeriodEnd: false,
      reason: "other",
    })
    const late = succeed(cancelled, START + DAY_MS)
    expect(status(late)).toBe("cancelled")
    expect(late.effects[0]).toMatchObject({ type: "settleCharge", params: { refundDue: true } })
  })

  it("ignores repeated and misplaced events, after any history", () => {
    const events = fc.constantFrom<object>(
      { type: "charge.succeeded" },
      { type: "charge.failed", retryable: true, policy: POLICY },
      { type: "charge.failed", retryable: false, policy: { ...POLICY, cancelAfterDays: null } },
      { type: "charge.unsettled" },
      { type: "cancel", atPeriodEnd: true, reason: "other" },
      { type: "cancel", atPeriodEnd: false, reason: "other" },
      { type: "keep" },
      { type: "xstate.after.periodEnd.subscription.active.current" },
      { type: "xstate.after.nextRetry.subscription.overdue.retrying" },
      { type: "xstate.after.unpaidTooLong.subscription.overdue" },
      { type: "xstate.after.billPeriodEnd.subscription.overdue" },
      { type: "xstate.after.trialEnd.subscription.trialing.running" },
    )
    fc.assert(
      fc.property(fc.array(events, { maxLength: 25 }), fc.constantFrom(0, 2, 14), (list, trialDays) => {
        let step = start({ trialDays })
        let open = step.effects.filter(({ type }) => type === "attemptCharge").length
        let at = START
        for (const event of list) {
          at += DAY_MS
          const before = step.snapshot
          // The rail answers only its own questions.
          if (String((event as { type: string }).type).startsWith("charge.") && open === 0) continue
          step = on(step, { ...event, at })
          if (["charge.succeeded", "charge.failed"].includes((event as { type: string }).type)) open = 0
          open += step.effects.filter(({ type }) => type === "attemptCharge").length
          const { context } = step.snapshot
          expect(open).toBeLessThanOrEqual(1)
          expect(context.periodEnd).toBeGreaterThan(context.periodStart)
          expect(context.dunning === null || context.bill !== null).toBe(true)
          expect((status(step) === "cancelled") === (context.cancelledAt !== null)).toBe(true)
          // A cancelled subscription is never charged again.
          if (before.context.cancelledAt !== null)
            expect(step.effects.some(({ type }) => type === "attemptCharge")).toBe(false)
          // A row stores the whole state.
          const again = restore(subscriptionMachine, stateName(step.snapshot), JSON.parse(JSON.stringify(context)))
          expect(again.value).toEqual(step.snapshot.value)
          expect(again.context).toEqual(context)
        }
      }),
      { numRuns: 300 },
    )
  })
})
