import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { allParamsOf, begin, type Decision, decide, stateName } from "../../machines/decide.ts"
import { type Channel, type NudgeEvent, nudgeMachine, UNHEARD_AFTER_MS } from "../../machines/nudge.ts"
import { afterQuiet, remindersOf } from "../../machines/reminders.ts"
import { nudges } from "../../src/outbound/nudge/nudge.ts"

type Step = Decision<typeof nudgeMachine>

const AT = Date.UTC(2026, 0, 31)
const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
const ALL: ReadonlyArray<Channel> = ["whatsapp", "sms", "email"]

const start = (channels: ReadonlyArray<Channel>, sendAt: number | null = null): Step => {
  return begin(nudgeMachine, { type: "create", at: AT, channels, sendAt })
}
const emitted = (step: Step) => allParamsOf(step, "emit").map(({ type }) => type)

const channel = fc.constantFrom(...ALL)
const move = fc.oneof(
  fc.constant({ type: "messenger.accepted", receiptAt: null }),
  fc.constant({ type: "messenger.refused", reason: "no" }),
  fc.constant({ type: "messenger.unknown" }),
  fc.record({ type: fc.constant("messenger.busy"), retryAfterMs: fc.option(fc.integer({ min: 0, max: DAY_MS })) }),
  fc.record({ type: fc.constant("receipt.delivered"), channel }),
  fc.record({ type: fc.constant("receipt.failed"), channel, reason: fc.constant("late") }),
  fc.constant({ type: "timer" }),
  fc.constant({ type: "withdraw" }),
  fc.constant({ type: "postpone", sendAt: AT + DAY_MS }),
)

describe("a nudge, with any messengers' reports in any order", () => {
  it("is notified of each step at most once, counts once and only if it was sent, and tries each channel in order", () => {
    fc.assert(
      fc.property(fc.subarray([...ALL]), fc.boolean(), fc.array(move, { maxLength: 25 }), (channels, waits, moves) => {
        let step = start(channels, waits ? AT + HOUR_MS : null)
        let timers = new Map(step.set.map((timer) => [timer.name, timer]))
        const notified = [...emitted(step)]
        let counted = 0
        let now = AT
        for (const one of moves) {
          const [timer] = [...timers.values()].sort((a, b) => a.dueAt - b.dueAt)
          if (one.type === "timer" && timer === undefined) continue
          now = one.type === "timer" ? Math.max(now, timer!.dueAt) : now + 1
          const event = one.type === "timer" ? { type: timer!.event, at: now } : { ...one, at: now }
          const before = step.snapshot.context
          step = decide(nudgeMachine, step.snapshot, event as NudgeEvent)
          timers = new Map(timers)
          if (one.type === "timer") timers.delete(timer!.name)
          for (const name of step.cancel) timers.delete(name)
          for (const set of step.set) timers.set(set.name, set)
          notified.push(...emitted(step))
          counted += step.effects.filter(({ type }) => type === "count").length
          const { context } = step.snapshot
          // A delivery is on a channel that was tried. Otherwise channels are tried in order.
          if (context.deliveredAt === null) expect(context.position).toBeGreaterThanOrEqual(before.position)
          expect(context.counts).toBe(counted === 1)
          // The table's checks (migrations/0007_events_and_nudges.sql): a refused row would be stuck forever.
          const row = nudges.snapshotColumns(stateName(step.snapshot), context)
          if (row.counts) expect(row.sent_at).not.toBeNull()
          if (row.status === "sent" || row.status === "delivered") expect(row.sent_at).not.toBeNull()
          expect(row.status === "delivered").toBe(row.delivered_at !== null)
          if (row.channels.length === 0) expect(row.status).toBe("failed")
          // One try for each channel, in order. The last delivered one is the channel (decision H1).
          const tried = context.attempts.map(({ channel }) => channel)
          expect(tried).toEqual(context.channels.filter((channel) => tried.includes(channel)))
          if (context.deliveredAt !== null) expect(context.channels[context.position]).toBe(tried.at(-1))
        }
        expect(counted).toBeLessThanOrEqual(1)
        expect(notified.filter((type) => type === "nudge.sent").length).toBeLessThanOrEqual(1)
        for (const type of ["nudge.delivered", "nudge.failed"])
          expect(notified.filter((one) => one === type).length).toBeLessThanOrEqual(1)
        // A late delivery is final: nothing comes after it, and nothing before it was sent.
        if (notified.includes("nudge.delivered"))
          expect([notified.at(-1), notified.includes("nudge.sent")]).toEqual(["nudge.delivered", true])
        const state = stateName(step.snapshot)
        if (state === "delivered") expect(notified.at(-1)).toBe("nudge.delivered")
        if (state === "failed") expect(notified.at(-1)).toBe("nudge.failed")
        if (channels.length === 0) expect([state, notified]).toEqual(["failed", ["nudge.failed"]])
      }),
      { numRuns: 2_000 },
    )
  })

  it("keeps the order of its attempts when an earlier channel delivers after a later one was tried", () => {
    let step = decide(nudgeMachine, start(["whatsapp", "sms"]).snapshot, { type: "messenger.unknown", at: AT })
    step = decide(nudgeMachine, step.snapshot, { type: "messenger.accepted", at: AT, receiptAt: null })
    const late = { type: "receipt.delivered", at: AT + 1, channel: "whatsapp" } as const
    const { position, attempts } = decide(nudgeMachine, step.snapshot, late).snapshot.context
    expect([position, attempts.map(({ channel }) => channel)]).toEqual([1, ["whatsapp", "sms"]])
  })

  it("counts a day after it was sent, without a report", () => {
    const accepted: NudgeEvent = { type: "messenger.accepted", at: AT, receiptAt: null }
    const sent = decide(nudgeMachine, start(["sms"]).snapshot, accepted)
    const [timer] = sent.set
    expect(timer).toMatchObject({ name: "unheard", dueAt: AT + UNHEARD_AFTER_MS })
    const unreported = decide(nudgeMachine, sent.snapshot, { type: timer!.event, at: timer!.dueAt } as NudgeEvent)
    expect([stateName(unreported.snapshot), unreported.snapshot.context.counts]).toEqual(["sent", true])
  })
})

describe("reminders", () => {
  const rules = { enabled: true, pre_due_days: [3, 7, 3, 30], post_due_days: [1, 3] }
  const facts = { since: AT, nextChargeAt: AT + 28 * DAY_MS, firstFailedAt: null, cancelling: false }
  const days = (found: ReturnType<typeof remindersOf>) =>
    found.map(({ rule, day, at }) => [rule, day, (at - AT) / DAY_MS])

  it("before the due date lie within the period, each day once, in order", () => {
    expect(days(remindersOf({ ...facts, state: "active.current" }, rules, null))).toEqual([
      ["pre_due", 7, 21],
      ["pre_due", 3, 25],
    ])
    expect(remindersOf({ ...facts, state: "active.charging" }, rules, null)).toEqual([])
    // One that ends after its first period pays for that.
    expect(days(remindersOf({ ...facts, state: "scheduled", cancelling: true }, rules, null))).toHaveLength(2)
    expect(remindersOf({ ...facts, state: "active.current", nextChargeAt: null }, rules, null)).toEqual([])
    expect(remindersOf({ ...facts, state: "active.current" }, { ...rules, enabled: false }, null)).toEqual([])
  })

  it("after a failure are counted from the first failure", () => {
    const overdue = { ...facts, firstFailedAt: AT + DAY_MS / 2, nextChargeAt: null }
    expect(days(remindersOf({ ...overdue, state: "overdue.waiting" }, rules, null))).toEqual([
      ["post_due", 1, 1.5],
      ["post_due", 3, 3.5],
    ])
    expect(remindersOf({ ...overdue, state: "overdue.waiting", cancelling: true }, rules, null)).toEqual([])
  })

  it("wait for the end of quiet hours in Lagos, and never come after the due instant", () => {
    const quiet = { from: 20, to: 8 }
    const lagos = (hour: number, minute = 0) => Date.UTC(2026, 0, 31, hour - 1, minute)
    for (const [at, then] of [
      [lagos(19, 59), lagos(19, 59)],
      [lagos(20), lagos(32)],
      [lagos(23, 59), lagos(32)],
      [lagos(24), lagos(32)],
      [lagos(31, 59), lagos(32)],
      [lagos(32), lagos(32)],
    ] as const)
      expect(new Date(afterQuiet(at, quiet)).toISOString()).toBe(new Date(then).toISOString())
    expect(afterQuiet(lagos(13), { from: 12, to: 14 })).toBe(lagos(14))
    const daily = {
      state: "active.current",
      since: AT,
      nextChargeAt: AT + 31 * HOUR_MS,
      firstFailedAt: null,
      cancelling: false,
    }
    // A day before 08:00 Lagos is 08:00. A day before 06:00 is quiet until 08:00 of that day.
    expect(remindersOf(daily, { ...rules, pre_due_days: [1] }, quiet)).toMatchObject([{ at: AT + 7 * HOUR_MS }])
    fc.assert(
      fc.property(
        fc.integer({ min: 0, max: 4e12 }),
        fc.integer({ min: 0, max: 23 }),
        fc.integer({ min: 1, max: 23 }),
        (at, from, length) => {
          const to = (from + length) % 24
          const then = afterQuiet(at, { from, to })
          expect(then).toBeGreaterThanOrEqual(at)
          expect(then - at).toBeLessThanOrEqual(length * HOUR_MS)
          expect(afterQuiet(then, { from, to })).toBe(then)
        },
      ),
    )
  })
})
