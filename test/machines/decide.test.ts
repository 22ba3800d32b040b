/**
 * Tests `decide`, which uses internal parts of XState for speed, against XState's public `transition`. Random walks of
 * every machine cover all its events and delays.
 */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type AnyMachineSnapshot, type AnyStateMachine, initialTransition, transition } from "xstate"
import { chargeMachine } from "../../machines/charge.ts"
import { checkoutMachine } from "../../machines/checkout.ts"
import { clockMachine } from "../../machines/clock.ts"
import { create, decide, delayOf, restore, stateName } from "../../machines/decide.ts"
import { deliveryMachine } from "../../machines/delivery.ts"
import { instalmentMachine } from "../../machines/instalment.ts"
import { invoiceMachine } from "../../machines/invoice.ts"
import { liveAccessMachine } from "../../machines/live_access.ts"
import { nudgeMachine } from "../../machines/nudge.ts"
import { refundMachine } from "../../machines/refund.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { webhookEndpointMachine } from "../../machines/webhook_endpoint.ts"

const MACHINES: Readonly<Record<string, AnyStateMachine>> = {
  charge: chargeMachine,
  checkout: checkoutMachine,
  clock: clockMachine,
  delivery: deliveryMachine,
  instalment: instalmentMachine,
  invoice: invoiceMachine,
  liveAccess: liveAccessMachine,
  nudge: nudgeMachine,
  refund: refundMachine,
  subscription: subscriptionMachine,
  webhookEndpoint: webhookEndpointMachine,
}

const DAY_MS = 86_400_000
const START = Date.UTC(2025, 0, 31)

/** The possible fields of a machine's input. */
const input = fc.record({
  type: fc.constant("create"),
  at: fc.constant(START),
  billingCycle: fc.constantFrom("daily", "weekly", "monthly", "per_delivery"),
  priceKobo: fc.constantFrom(50, 500_000),
  quantity: fc.integer({ min: 1, max: 3 }),
  trialDays: fc.constantFrom(0, 2, 7),
  startAt: fc.constantFrom(START, START + 3 * DAY_MS),
  checkout: fc.boolean(),
  expiresAt: fc.constant(START + DAY_MS),
  dueAt: fc.constant(START + 7 * DAY_MS),
  once: fc.boolean(),
  attempt: fc.integer({ min: 0, max: 3 }),
  page: fc.constant(null),
  channels: fc.constantFrom(["whatsapp"], ["whatsapp", "sms", "email"]),
  sendAt: fc.constantFrom(null, START + DAY_MS),
  mode: fc.constantFrom("fixed", "flexible"),
  frequency: fc.constantFrom("weekly", "monthly"),
  cycleMonths: fc.integer({ min: 1, max: 6 }),
  targetKobo: fc.constant(6_000_000),
  lateFeeKobo: fc.constantFrom(0, 50_000),
  refundWindowDays: fc.constant(7),
})

/** The possible fields of an event. */
const payload = fc.record({
  hours: fc.constantFrom(0, 1, 24, 200, 800),
  methodId: fc.constantFrom(null, "pm_1"),
  retryable: fc.boolean(),
  policy: fc.record({
    maxAttempts: fc.integer({ min: 0, max: 2 }),
    intervalsDays: fc.constant([1, 2]),
    escalation: fc.constantFrom("pause_service", "restrict_access", "hold_delivery", "none"),
    cancelAfterDays: fc.constantFrom(null, 3),
  }),
  atPeriodEnd: fc.boolean(),
  cancelAtPeriodEnd: fc.boolean(),
  reason: fc.constantFrom(null, "customer_request", "number_unreachable"),
  resumesAt: fc.constantFrom(null, START + 40 * DAY_MS),
  proRate: fc.boolean(),
  unitKobo: fc.constantFrom(0, 100),
  quantity: fc.integer({ min: 0, max: 3 }),
  action: fc.constantFrom("increment", "set"),
  deliveries: fc.integer({ min: 0, max: 2 }),
  rule: fc.constantFrom("pre_due", "post_due"),
  day: fc.integer({ min: 1, max: 3 }),
  code: fc.constant("insufficient_funds"),
  message: fc.constant(null),
  knownAt: fc.constantFrom(null, START),
  refundId: fc.constantFrom(null, "1"),
  channel: fc.constantFrom("whatsapp", "sms", "email"),
  messageId: fc.constantFrom(null, "m_1"),
  chargeId: fc.constantFrom("chg_1", "chg_2"),
  amountKobo: fc.constantFrom(20_000, 1_000_000),
  byMs: fc.constant(DAY_MS),
  targetAt: fc.constant(START + 30 * DAY_MS),
  jitter: fc.constantFrom(-1, 0, 1),
  retryAfterMs: fc.constantFrom(null, 60_000),
})

/** The result of a call, or its exception: an event may lack a field that its machine needs. */
const attempt = <A>(call: () => A): A | "throws" => {
  try {
    return call()
  } catch {
    return "throws"
  }
}

/** The decision from the actions that XState returns. */
const decided = (
  machine: AnyStateMachine,
  snapshot: AnyMachineSnapshot,
  event: { readonly type: string; readonly at: number },
) => {
  const [next, actions] = transition(machine, snapshot, event)
  const set = new Map<string, { name: string; dueAt: number; event: string }>()
  const cancel = new Set<string>()
  const effects: Array<unknown> = []
  for (const action of actions as ReadonlyArray<{ readonly type: string; readonly params: unknown }>) {
    const params = (action.params ?? {}) as Readonly<Record<string, unknown>>
    if (action.type === "xstate.raise") {
      const { event: raised, delay } = params as { event: { type: string }; delay: number | undefined }
      const name = delayOf(raised.type)!
      if (delay === undefined || !Number.isFinite(delay)) continue
      cancel.delete(name)
      set.set(name, { name, dueAt: event.at + Math.max(0, delay), event: raised.type })
    } else if (action.type === "xstate.cancel") {
      const name = delayOf(String(params.sendId))!
      set.delete(name)
      cancel.add(name)
    } else if (!action.type.startsWith("xstate.")) effects.push({ type: action.type, params })
  }
  return {
    next,
    changed: next !== snapshot || actions.length > 0,
    effects,
    set: [...set.values()],
    cancel: [...cancel],
  }
}

const sight = (snapshot: AnyMachineSnapshot) => ({
  state: stateName(snapshot),
  context: snapshot.context,
  status: snapshot.status,
})

describe.each(Object.entries(MACHINES))("the %s machine", (_, machine) => {
  const step = fc.tuple(fc.constantFrom(...machine.events), payload)
  const walks = fc.tuple(input, fc.array(step, { minLength: 1, maxLength: 40 }))

  it("starts and continues as XState's own transition does", () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(walks, ([given, steps]) => {
        const first = attempt(() => initialTransition(machine, given)[0])
        const ours = attempt(() => create(machine, given))
        if (first === "throws" || ours === "throws") return expect(ours).toBe(first)
        expect(sight(ours)).toEqual(sight(first))
        let snapshot: AnyMachineSnapshot = ours
        let at = START
        for (const [type, { hours, ...rest }] of [["create", { hours: 0 }] as const, ...steps]) {
          at += hours * 3_600_000
          const event = { ...given, ...rest, type, at, deliveredAt: at }
          const theirs = attempt(() => decided(machine, snapshot, event))
          const decision = attempt(() => decide(machine, snapshot, event))
          if (theirs === "throws" || decision === "throws") {
            expect(decision).toBe(theirs)
            continue
          }
          const { next, ...expected } = theirs
          const { snapshot: after, ...found } = decision
          expect(found).toEqual(expected)
          expect(sight(after)).toEqual(sight(next))
          if (decision.changed) seen.add(stateName(after))
          // As from a row.
          snapshot = restore(machine, stateName(after), after.context)
          expect(sight(snapshot)).toMatchObject({ state: stateName(next), context: next.context })
        }
      }),
      { numRuns: 150 },
    )
    // The walks have changed the state.
    expect(seen.size).toBeGreaterThan(1)
  })
})
