import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { type BillingCycle, boundary } from "../../machines/calendar.ts"

const anchors = fc
  .date({ min: new Date("2000-01-01T00:00:00Z"), max: new Date("2060-12-31T23:59:59.999Z"), noInvalidDate: true })
  .map((date) => date.getTime())
const cycles = fc.constantFrom<BillingCycle>("daily", "weekly", "monthly", "quarterly")
const months = { monthly: 1, quarterly: 3 } as const

describe("boundary", () => {
  it("makes adjacent periods without overlap or gap: boundaries strictly increase", () => {
    fc.assert(
      fc.property(cycles, anchors, fc.integer({ min: 0, max: 400 }), (cycle, anchor, n) => {
        expect(boundary(cycle, anchor, n + 1)).toBeGreaterThan(boundary(cycle, anchor, n))
      }),
    )
  })

  it("starts at the anchor", () => {
    fc.assert(fc.property(cycles, anchors, (cycle, anchor) => void expect(boundary(cycle, anchor, 0)).toBe(anchor)))
  })

  it("keeps the anchor's day, or the last day of a shorter month, and always the time of day", () => {
    fc.assert(
      fc.property(
        fc.constantFrom("monthly" as const, "quarterly" as const),
        anchors,
        fc.integer({ min: 0, max: 400 }),
        (cycle, anchor, n) => {
          const from = new Date(anchor)
          const to = new Date(boundary(cycle, anchor, n))
          const month = from.getUTCFullYear() * 12 + from.getUTCMonth() + n * months[cycle]
          expect(to.getUTCFullYear() * 12 + to.getUTCMonth()).toBe(month)
          const last = new Date(Date.UTC(Math.floor(month / 12), (month % 12) + 1, 0)).getUTCDate()
          expect(to.getUTCDate()).toBe(Math.min(from.getUTCDate(), last))
          expect(to.getTime() % 86_400_000).toBe(from.getTime() % 86_400_000)
        },
      ),
    )
  })

  it("counts days and weeks as 24 hours and 7 days", () => {
    fc.assert(
      fc.property(anchors, fc.integer({ min: 0, max: 4000 }), (anchor, n) => {
        expect(boundary("daily", anchor, n) - anchor).toBe(n * 86_400_000)
        expect(boundary("weekly", anchor, n) - anchor).toBe(n * 7 * 86_400_000)
      }),
    )
  })

  it.each([
    ["2025-01-31", [["2025-02-28"], ["2025-03-31"], ["2025-04-30"], ["2025-05-31"]]],
    ["2024-01-31", [["2024-02-29"], ["2024-03-31"]]],
    ["2024-02-29", [["2024-03-29"]]],
  ])("%s monthly", (anchor, ends) => {
    const days = ends.map((_, index) =>
      new Date(boundary("monthly", Date.parse(anchor), index + 1)).toISOString().slice(0, 10),
    )
    expect(days).toEqual(ends.flat())
  })
})
