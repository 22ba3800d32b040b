/** Compares the list of event types with the machines, and with the types that endpoints can be enabled for. */
import { describe, expect, it } from "vitest"
import { CHECKOUT_EVENT_TYPES } from "../machines/checkout.ts"
import { SUBSCRIPTION_EVENT_TYPES } from "../machines/events.ts"
import { INSTALMENT_EVENT_TYPES } from "../machines/instalment.ts"
import { NUDGE_EVENT_TYPES } from "../machines/nudge.ts"
import { machinesDocument } from "../scripts/machines/document.ts"
import { EVENT_TYPES, isEventPattern } from "../src/outbound/event/types.ts"

const FAMILIES = [...new Set(EVENT_TYPES.map((type) => type.split(".")[0]!))]

/** The last column of the machines' tables of transitions, which is generated from the machines. */
const emittedByMachines = () =>
  new Set(
    machinesDocument()
      .split("\n")
      .flatMap((line) => /^\|.*\| ([a-z_., ]*) \|$/.exec(line)?.[1]?.split(", ") ?? [])
      .filter((type) => type.includes(".")),
  )

describe("the event types", () => {
  // The compiler checks the rest: the code beside the machines emits all other types and no unknown ones (NewEvent).
  it("are exactly those that the machines emit", () => {
    expect([...emittedByMachines()].sort()).toEqual(
      [
        ...SUBSCRIPTION_EVENT_TYPES,
        ...CHECKOUT_EVENT_TYPES,
        ...INSTALMENT_EVENT_TYPES,
        ...NUDGE_EVENT_TYPES,
        "test_clock.ready",
      ].sort(),
    )
  })

  it("can be enabled for live endpoints, singly or by family", () => {
    for (const type of EVENT_TYPES) expect(isEventPattern(type, true)).toBe(true)
    for (const family of FAMILIES) expect(isEventPattern(`${family}.*`, true)).toBe(true)
    for (const strange of ["charge.unsettled", "made.up", "made.*", "charge", "*.failed", "charge.*.failed", ""])
      expect(isEventPattern(strange, true)).toBe(false)
  })
})
