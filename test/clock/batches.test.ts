/** Tests the order in which timers fire on a test clock, and the order of IDs. Pure. */
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { closeWindow, isId, newId, opensAt, openWindow } from "../../src/base/ids.ts"
import { batchOf, type NextTimer } from "../../src/runtime/clockBatches.ts"

const DAY_MS = 86_400_000

const anyTimer: fc.Arbitrary<NextTimer> = fc
  .record({
    customer_id: fc.constantFrom("cus_a", "cus_b", "cus_c", "cus_d"),
    due_at: fc.integer({ min: 0, max: 4 }),
    rank: fc.integer({ min: 0, max: 2 }),
    actor_kind: fc.constantFrom("charge", "subscription"),
    no: fc.integer({ min: 0, max: 99 }),
  })
  .map(({ no, ...timer }) => ({ ...timer, actor_id: `${timer.actor_kind} ${no}` }))

const compare = (a: NextTimer, b: NextTimer): number =>
  a.due_at - b.due_at || a.rank - b.rank || (a.actor_id < b.actor_id ? -1 : 1)

const inOrder = fc
  .uniqueArray(anyTimer, { selector: ({ actor_id }) => actor_id, maxLength: 30 })
  .map((timers) => [...timers].sort(compare))

/** All batches until nothing is due. */
const roundsOf = (timers: ReadonlyArray<NextTimer>): ReadonlyArray<ReadonlyArray<NextTimer>> => {
  const rounds: Array<ReadonlyArray<NextTimer>> = []
  for (let left = timers; left.length > 0; ) {
    const round = batchOf(left)
    expect(round.length).toBeGreaterThan(0)
    rounds.push(round)
    left = left.filter((timer) => !round.includes(timer))
  }
  return rounds
}

describe("batches", () => {
  it("fire all timers once: in order for each customer, and by rank within one instant", () => {
    fc.assert(
      fc.property(inOrder, (timers) => {
        const rounds = roundsOf(timers)
        expect(rounds.flat().sort(compare)).toEqual(timers)
        const roundOfTimer = new Map(rounds.flatMap((round, no) => round.map((timer) => [timer, no])))
        for (const [n, one] of timers.entries())
          for (const later of timers.slice(n + 1)) {
            const [first, second] = [roundOfTimer.get(one)!, roundOfTimer.get(later)!]
            if (one.customer_id === later.customer_id && one.due_at < later.due_at) expect(first).toBeLessThan(second)
            if (one.due_at === later.due_at && one.rank < later.rank) expect(first).toBeLessThan(second)
            if (one.due_at === later.due_at && one.rank === later.rank && one.actor_kind === later.actor_kind)
              expect(first).toBe(second)
          }
      }),
    )
  })

  it("take one timer of each customer if each is due at its own instant", () => {
    const timers = Array.from(
      { length: 500 },
      (_, n): NextTimer => ({
        customer_id: `cus_${n}`,
        actor_id: `sub_${n}`,
        actor_kind: "subscription",
        due_at: n,
        rank: 3,
      }),
    )
    expect(batchOf(timers)).toEqual(timers)
  })
})

describe("IDs of a window", () => {
  const clock = "clock_0"
  const holder = {}

  it("follow the clock's time, not the time of creation: after all earlier IDs, before all later ones", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: DAY_MS - 1 }), { maxLength: 50 }), (instants) => {
        const fromAt = Date.UTC(2025, 0, 31)
        const before = newId("event")
        openWindow(clock, holder, { fromAt, openedAt: opensAt(null) })
        const made = instants.map((ms) => ({ ms, id: newId("event", { test_clock_id: clock, at: fromAt + ms }) }))
        closeWindow(clock, holder)
        const after = newId("event")
        const byId = [...made].sort((a, b) => (a.id < b.id ? -1 : 1))
        // IDs of one instant keep the order of creation: the sort by instant is stable.
        expect(byId).toEqual([...made].sort((a, b) => a.ms - b.ms))
        expect(new Set(made.map(({ id }) => id)).size).toBe(made.length)
        for (const { id } of made) {
          expect(isId("event", id)).toBe(true)
          expect(before < id && id < after).toBe(true)
        }
      }),
    )
  })

  it("continue in order when another process takes over", () => {
    const fromAt = Date.UTC(2025, 0, 31)
    const openedAt = opensAt(null)
    const make = (ms: number) => newId("charge", { test_clock_id: clock, at: fromAt + ms })
    openWindow(clock, holder, { fromAt, openedAt })
    const later = make(5_000)
    closeWindow(clock, holder)
    openWindow(clock, holder, { fromAt, openedAt })
    const [earlier, last] = [make(4_999), make(5_001)]
    closeWindow(clock, holder)
    expect([later, earlier, last].sort()).toEqual([earlier, later, last])
  })

  it("are later than those of the window before, even if its process's clock was ahead", () => {
    const ahead = Date.now() + 60_000
    expect(opensAt(ahead)).toBeGreaterThan(ahead + 2)
  })

  it("are those of the current run when an ended run closes the window", () => {
    const window = { fromAt: Date.UTC(2025, 0, 31), openedAt: opensAt(null) }
    openWindow(clock, holder, window)
    const next = {}
    openWindow(clock, next, window)
    closeWindow(clock, holder)
    const [later, earlier] = [1_000, 0].map((ms) => newId("event", { test_clock_id: clock, at: window.fromAt + ms }))
    closeWindow(clock, next)
    expect(earlier! < later!).toBe(true)
  })
})
