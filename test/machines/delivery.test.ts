import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type Decision, decide, restore, stateName } from "../../machines/decide.ts"
import { DELIVERY_DELAYS_MS, deliveryMachine, JITTER } from "../../machines/delivery.ts"
import { type WebhookEndpointEvent, webhookEndpointMachine } from "../../machines/webhook_endpoint.ts"

const AT = Date.UTC(2026, 0, 31)

const first = (once: boolean): Pick<Decision<typeof deliveryMachine>, "snapshot" | "set"> => ({
  snapshot: restore(deliveryMachine, "due", { attempt: 0, once }),
  set: [],
})

const failing = (jitter: number, retryAfterMs: number | null) =>
  ({ type: "try.failed", at: AT, jitter, retryAfterMs }) as const

describe("a delivery", () => {
  it("is tried eight times, with each wait within its spread and at most the maximum", () => {
    const tried = fc.record({
      jitter: fc.double({ min: -1, max: 1, noNaN: true }),
      retryAfterMs: fc.option(fc.integer({ min: 0, max: 1_000_000_000 })),
    })
    fc.assert(
      fc.property(fc.array(tried, { minLength: 8, maxLength: 8 }), (tries) => {
        let step = first(false)
        tries.forEach(({ jitter, retryAfterMs }, index) => {
          step = decide(deliveryMachine, step.snapshot, failing(jitter, retryAfterMs))
          expect(step.snapshot.context.attempt).toBe(index + 1)
          const usual = DELIVERY_DELAYS_MS[index]
          if (usual === undefined) return
          expect(stateName(step.snapshot)).toBe("waiting")
          const [timer] = step.set
          const wait = timer!.dueAt - AT
          expect(wait).toBeGreaterThanOrEqual(Math.floor(usual * (1 - JITTER)))
          expect(wait).toBeGreaterThanOrEqual(Math.min(retryAfterMs ?? 0, DELIVERY_DELAYS_MS.at(-1)!))
          expect(wait).toBeLessThanOrEqual(DELIVERY_DELAYS_MS.at(-1)! * (1 + JITTER))
          step = decide(deliveryMachine, step.snapshot, {
            type: timer!.event as "xstate.after.nextTry.delivery.waiting",
            at: timer!.dueAt,
          })
          expect(stateName(step.snapshot)).toBe("due")
        })
        expect(stateName(step.snapshot)).toBe("failed")
        expect(step.set).toEqual([])
      }),
    )
  })

  it("that is sent once is over after that", () => {
    const step = first(true)
    expect(stateName(decide(deliveryMachine, step.snapshot, failing(0, null)).snapshot)).toBe("failed")
    expect(stateName(decide(deliveryMachine, step.snapshot, { type: "try.succeeded", at: AT }).snapshot)).toBe(
      "succeeded",
    )
  })
})

describe("a webhook endpoint", () => {
  it("stores the reason it is disabled, drops waiting deliveries at that moment, and notifies its owner once", () => {
    const events = fc.constantFrom<WebhookEndpointEvent["type"]>(
      "enable",
      "disable",
      "endpoint.gone",
      "endpoint.failing",
    )
    fc.assert(
      fc.property(fc.array(events), (types) => {
        let step: Pick<Decision<typeof webhookEndpointMachine>, "snapshot"> = {
          snapshot: restore(webhookEndpointMachine, "enabled", { reason: null }),
        }
        for (const type of types) {
          const before = stateName(step.snapshot)
          const decision = decide(webhookEndpointMachine, step.snapshot, { type, at: AT })
          step = decision
          const now = stateName(step.snapshot)
          const effects = decision.effects.map((effect) => effect.type)
          const wasDisabled = before === "enabled" && now === "disabled"
          expect(effects.includes("giveUpWaiting")).toBe(wasDisabled)
          expect(effects.includes("emailOwner")).toBe(wasDisabled && type === "endpoint.failing")
          if (now === "enabled") expect(step.snapshot.context.reason).toBeNull()
          if (wasDisabled)
            expect(step.snapshot.context.reason).toBe(
              {
                "endpoint.gone": "endpoint_gone",
                "endpoint.failing": "repeated_failures",
                disable: null,
                enable: null,
              }[type],
            )
        }
      }),
    )
  })
})
