/** Tests charges and refunds, with any reports of rails in any order. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { initialTransition, type SnapshotFrom } from "xstate"
import {
  type ChargeEvent,
  chargeMachine,
  MAX_ASKS_ABOUT_PAID,
  NOT_FOUND_AFTER_MS,
  PAGE_LIFETIME_MS,
} from "../../machines/charge.ts"
import { type Decision, decide, hasEffect, paramsOf, stateName } from "../../machines/decide.ts"
import { MAX_REFUND_FAILURES, REFUND_AGAIN_AFTER_MS, type RefundEvent, refundMachine } from "../../machines/refund.ts"

const AT = Date.UTC(2026, 0, 31)
const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 3_600_000

type ChargeSnapshot = SnapshotFrom<typeof chargeMachine>
const charge = (): ChargeSnapshot => initialTransition(chargeMachine, { at: AT })[0]

const charged = (events: ReadonlyArray<ChargeEvent>) => {
  let step: Decision<typeof chargeMachine> | undefined
  let snapshot = charge()
  for (const event of events) {
    step = decide(chargeMachine, snapshot, event)
    snapshot = step.snapshot
  }
  return { snapshot, state: stateName(snapshot), asksAt: step!.set.find(({ name }) => name === "ask")?.dueAt }
}

const unsettled = (at: number, more: object = {}): ChargeEvent => ({
  type: "rail.unsettled",
  at,
  knownAt: null,
  ...more,
})
const timer = (at: number): ChargeEvent => ({ type: "xstate.after.ask.charge.pending.waiting", at })

describe("a charge", () => {
  it("is verified after the end of a call without an answer: after 10 s, 1 min, 5 min, then hourly", () => {
    const ended = AT + 30 * SECOND_MS
    const events: Array<ChargeEvent> = [unsettled(ended, { endedAt: ended })]
    const asked: Array<number> = []
    for (let n = 0; n < 6; n++) {
      const at = charged(events).asksAt!
      asked.push(at - ended)
      events.push(timer(at), unsettled(at))
    }
    expect(asked).toEqual([10 * SECOND_MS, MINUTE_MS, 5 * MINUTE_MS, HOUR_MS, 2 * HOUR_MS, 3 * HOUR_MS])
  })

  it("that the rail rate-limited fails for that reason if the rail does not know it", () => {
    const { snapshot, state } = charged([
      unsettled(AT, { endedAt: AT, refusedFor: "rail_rate_limited" }),
      timer(AT + 10 * SECOND_MS),
      { type: "rail.not_found", at: AT + 11 * SECOND_MS },
    ])
    expect([state, snapshot.context.refusedFor]).toEqual(["failed", "rail_rate_limited"])
  })

  it("that succeeded is verified again a limited number of times, until it is contradicted", () => {
    let snapshot = decide(chargeMachine, charge(), { type: "rail.succeeded", at: AT }).snapshot
    const ask: ChargeEvent = { type: "rail.ask", at: AT }
    for (let n = 0; n < MAX_ASKS_ABOUT_PAID; n++) {
      const step = decide(chargeMachine, snapshot, ask)
      expect([stateName(step.snapshot), hasEffect(step, "ask")]).toEqual(["succeeded", true])
      snapshot = step.snapshot
    }
    expect(decide(chargeMachine, snapshot, ask).changed).toBe(false)
    const denied = charged([
      { type: "rail.succeeded", at: AT },
      { type: "rail.failed", at: AT, code: "processor_error", message: null },
    ])
    expect(denied.state).toBe("contradicted")
    expect(decide(chargeMachine, denied.snapshot, ask).changed).toBe(false)
  })

  it("on the rail's page is given up when the buyer has returned, or after half an hour, without a payment", () => {
    const open: ChargeEvent = { type: "rail.page", at: AT }
    const abandoned = (at: number): ChargeEvent => ({ type: "rail.abandoned", at })
    const look: ChargeEvent = { type: "rail.ask", at: AT + MINUTE_MS }
    expect(charged([open, look, abandoned(AT + MINUTE_MS)]).state).toBe("pending.waiting")
    const back: ChargeEvent = { type: "rail.return", at: AT + MINUTE_MS }
    expect(charged([open, back, abandoned(AT + MINUTE_MS)]).state).toBe("failed")
    expect(charged([open, look, back, abandoned(AT + MINUTE_MS)]).state).toBe("failed")
    expect(charged([open, timer(AT + 10 * SECOND_MS), abandoned(AT + PAGE_LIFETIME_MS)]).state).toBe("failed")
    // If the rail still waits for the buyer, a buyer who has returned may continue.
    const ongoing = unsettled(AT + MINUTE_MS, { ongoing: true })
    expect(charged([open, back, ongoing]).snapshot.context.page).toMatchObject({ returned: false })
    expect(charged([open, back, ongoing, look, abandoned(AT + 2 * MINUTE_MS)]).state).toBe("pending.waiting")
    expect(charged([ongoing]).snapshot.context.page).toBeNull()
    // The rail is asked at exactly that moment.
    expect(charged([open, timer(AT + 5 * MINUTE_MS), unsettled(AT + 5 * MINUTE_MS)]).asksAt).toBeLessThanOrEqual(
      AT + PAGE_LIFETIME_MS,
    )
  })

  it("on a page that the buyer left, unknown to the rail, is verified as long as any other", () => {
    const back = (at: number): ChargeEvent => ({ type: "rail.return", at, returnedAt: at })
    const unknown = (at: number): ChargeEvent => ({ type: "rail.not_found", at })
    const returned = AT + MINUTE_MS
    const looked = [{ type: "rail.page", at: AT } as const, back(returned), unknown(returned)]
    const first = charged(looked)
    expect([first.state, first.snapshot.context.notFound]).toEqual(["pending.waiting", 1])
    // Verified every five seconds.
    const events: Array<ChargeEvent> = [...looked]
    const ends = returned + NOT_FOUND_AFTER_MS
    for (let at = returned + 5 * SECOND_MS; at < ends; at += 5 * SECOND_MS)
      events.push({ type: "rail.ask", at }, unknown(at))
    expect(charged(events)).toMatchObject({ state: "pending.waiting", asksAt: ends })
    expect(charged([...events, timer(ends), unknown(ends)]).state).toBe("failed")
    expect(charged([...events, timer(ends), { type: "rail.succeeded", at: ends }]).state).toBe("succeeded")
    // A buyer who continues and returns again may have just paid. A page's lifetime still limits this.
    const again = [...events, back(ends - 1), unknown(ends - 1)]
    expect(charged([...again, timer(ends), unknown(ends)]).state).toBe("pending.waiting")
    const over = AT + PAGE_LIFETIME_MS
    expect(charged([...looked, back(over - 1), unknown(over - 1), timer(over), unknown(over)]).state).toBe("failed")
    // Journals older than this rule.
    expect(charged([looked[0]!, { type: "rail.return", at: returned }, unknown(returned)]).state).toBe("failed")
  })

  it("is sent again once if its process was lost and the rail does not know it, also after a late answer to another question", () => {
    const lost: ChargeEvent = { type: "rail.unsettled", at: AT, knownAt: null, endedAt: AT, lost: true }
    const unknown = (at: number, more: object = {}): ChargeEvent => ({ type: "rail.not_found", at, ...more })
    const over = AT + NOT_FOUND_AFTER_MS
    const thrice = [timer(AT + MINUTE_MS), unknown(AT + MINUTE_MS), timer(over), unknown(over), timer(over)]
    const sent = charged([lost, ...thrice, unknown(over + 1)])
    expect([sent.state, sent.snapshot.context]).toMatchObject([
      "pending.sending",
      { resend: "made", notFound: 0, asks: 0 },
    ])
    expect(hasEffect(decide(chargeMachine, sent.snapshot, unknown(over + 2)), "sendAgain")).toBe(true)
    // Not if its call ended, nor if its purpose is gone.
    const ended: ChargeEvent = { type: "rail.unsettled", at: AT, knownAt: null, endedAt: AT }
    expect(charged([ended, ...thrice, unknown(over + 1)]).state).toBe("failed")
    expect(charged([lost, ...thrice, unknown(over + 1, { unwanted: true })]).state).toBe("failed")
    // The process is lost the second time too: no third try.
    const again = over + 2
    const twice = [lost, ...thrice, unknown(over + 1), { ...lost, at: again, endedAt: again }]
    const late = again + NOT_FOUND_AFTER_MS
    const rest = [timer(late), unknown(late), timer(late), unknown(late), timer(late), unknown(late)]
    expect(charged([...twice, ...rest]).state).toBe("failed")
  })

  const railResult = fc.oneof(
    fc.constant({ type: "rail.succeeded" }),
    fc.constant({ type: "rail.failed", code: "do_not_honor", message: null }),
    fc.constant({ type: "rail.unsettled", knownAt: null }),
    fc.constant({ type: "rail.unsettled", knownAt: null, refusedFor: "rail_rate_limited" }),
    fc.constant({ type: "rail.unsettled", knownAt: null, lost: true }),
    fc.constant({ type: "rail.not_found" }),
    fc.constant({ type: "rail.not_found", unwanted: true }),
    fc.constant({ type: "rail.page" }),
    fc.constant({ type: "rail.abandoned" }),
    fc.constant({ type: "rail.ask" }),
    fc.constant({ type: "rail.return" }),
    fc.constant({ type: "rail.return", returnedAt: AT }),
    fc.constant({ type: "xstate.after.ask.charge.pending.waiting" }),
  )

  it("settles at most once, is verified while it is pending, and stores contradictions", () => {
    fc.assert(
      fc.property(fc.array(fc.tuple(railResult, fc.integer({ min: 1, max: HOUR_MS })), { maxLength: 30 }), (all) => {
        let snapshot = charge()
        let now = AT
        let settlements = 0
        let timerAt: number | undefined
        for (const [event, later] of all) {
          now += later
          const before = stateName(snapshot)
          const step = decide(chargeMachine, snapshot, { ...event, at: now } as ChargeEvent)
          snapshot = step.snapshot
          const state = stateName(snapshot)
          if (hasEffect(step, "settled")) settlements++
          if (step.cancel.includes("ask")) timerAt = undefined
          timerAt = step.set.find(({ name }) => name === "ask")?.dueAt ?? timerAt
          // A settled charge stays settled.
          if (!before.startsWith("pending")) expect([before, "contradicted"]).toContain(state)
          expect(hasEffect(step, "contradicted")).toBe(state === "contradicted" && before !== state)
          if (state === "pending.waiting") expect(timerAt! - now).toBeLessThanOrEqual(HOUR_MS)
          if (state === "pending.waiting" && before !== state) expect(timerAt!).toBeGreaterThanOrEqual(now)
        }
        expect(settlements).toBe(stateName(snapshot).startsWith("pending") ? 0 : 1)
      }),
      { numRuns: 500 },
    )
  })
})

type RefundSnapshot = SnapshotFrom<typeof refundMachine>
const refund = (): RefundSnapshot => initialTransition(refundMachine, { at: AT })[0]

const through = (events: ReadonlyArray<RefundEvent>) => {
  let step: Decision<typeof refundMachine> | undefined
  let snapshot = refund()
  for (const event of events) {
    step = decide(refundMachine, snapshot, event)
    snapshot = step.snapshot
  }
  return { step: step!, state: stateName(snapshot), context: snapshot.context }
}

const waited = (at: number): RefundEvent => ({ type: "xstate.after.ask.refund.pending.waiting", at })

describe("a refund", () => {
  it("that the rail has accepted is verified; one without an answer is requested again", () => {
    const accepted: RefundEvent = { type: "rail.accepted", at: AT, refundId: null }
    expect(through([accepted, waited(AT + MINUTE_MS)]).state).toBe("pending.asking")
    expect(through([{ type: "rail.unclear", at: AT }, waited(AT + MINUTE_MS)]).state).toBe("pending.requesting")
    expect(through([accepted, { type: "rail.ask", at: AT + 1 }]).state).toBe("pending.asking")
  })

  it("that fails is requested again each day for a week, and then given up", () => {
    const events: Array<RefundEvent> = []
    let at = AT
    for (let n = 1; n <= MAX_REFUND_FAILURES; n++) {
      events.push({ type: "rail.failed", at, message: "Balance too low" })
      const { state, step, context } = through(events)
      expect([context.failures, context.message]).toEqual([n, "Balance too low"])
      expect(state).toBe(n < MAX_REFUND_FAILURES ? "failed.waiting" : "failed.given_up")
      if (n === MAX_REFUND_FAILURES) break
      at += REFUND_AGAIN_AFTER_MS
      expect(step.set).toEqual([expect.objectContaining({ name: "again", dueAt: at })])
      events.push({ type: "xstate.after.again.refund.failed.waiting", at })
      expect(through(events).state).toBe("pending.requesting")
    }
    expect(at - AT).toBe(7 * 24 * HOUR_MS)
  })

  it("is returned once", () => {
    const { step } = through([{ type: "rail.returned", at: AT }])
    expect([hasEffect(step, "returned"), paramsOf(step, "returned")]).toEqual([true, {}])
    const later = through([
      { type: "rail.returned", at: AT },
      { type: "rail.returned", at: AT + 1 },
      { type: "rail.failed", at: AT + 2, message: null },
    ])
    expect([later.state, later.step.changed]).toEqual(["returned", false])
  })
})
