/** Tests background work while requests are answered: fewer batches in parallel, and all work is done. */
import { Effect } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { isServing, recordRequest } from "../../src/process/loadHint.ts"
import { sweep, type TimerHandler } from "../../src/runtime/fire.ts"

const HOUR_MS = 3_600_000
const real = performance.now.bind(performance)
/** The process's clock since its start, this far ahead of the real one. */
const apart = (ms: number) => vi.spyOn(performance, "now").mockImplementation(() => real() + ms)

afterEach(() => {
  vi.restoreAllMocks()
})

/** A noun with this many due batches. `fired` gets the number in progress at each batch. */
const due = (batches: number, fired: (underWay: number) => void): TimerHandler<never> => {
  let left = batches
  let underWay = 0
  return {
    kind: "charge",
    fire: () => Effect.die("not on a clock"),
    fireBatch: () =>
      Effect.gen(function* () {
        if (left === 0) return 0
        left--
        fired(++underWay)
        yield* Effect.promise(() => new Promise(setImmediate))
        underWay--
        return 1
      }),
  }
}

describe("requests of other accounts", () => {
  it("do not include an account's own requests", () => {
    apart(-4 * HOUR_MS)
    recordRequest("acc_a")
    apart(-3 * HOUR_MS)
    const asking = () => [isServing(), isServing("acc_a"), isServing("acc_b")]
    expect(asking()).toEqual([false, false, false])
    recordRequest("acc_a")
    recordRequest("acc_a")
    expect(asking()).toEqual([true, false, true])
    recordRequest("acc_b")
    expect(asking()).toEqual([true, true, true])
    recordRequest("acc_a")
    expect(asking()).toEqual([true, true, true])
  })

  it("include requests without an account", () => {
    apart(-2.5 * HOUR_MS)
    recordRequest()
    recordRequest("acc_a")
    expect([isServing("acc_a"), isServing("acc_b")]).toEqual([true, true])
  })

  it("are forgotten after a minute, even if the account's own continue", () => {
    apart(-2.4 * HOUR_MS)
    recordRequest("acc_b")
    recordRequest("acc_a")
    apart(-2.4 * HOUR_MS + 61_000)
    recordRequest("acc_a")
    expect([isServing("acc_a"), isServing("acc_b")]).toEqual([false, true])
  })
})

describe("a sweep", () => {
  it("runs three batches in parallel if there are no requests", async () => {
    apart(HOUR_MS)
    expect(isServing()).toBe(false)
    const seen: Array<number> = []
    expect(await Effect.runPromise(sweep([due(12, (underWay) => seen.push(underWay))]))).toBe(12)
    expect(Math.max(...seen)).toBe(3)
  })

  it("runs two while requests are answered", async () => {
    // In the past, so that later tests see no requests.
    apart(-HOUR_MS)
    recordRequest()
    const seen: Array<number> = []
    expect(await Effect.runPromise(sweep([due(12, (underWay) => seen.push(underWay))]))).toBe(12)
    expect(Math.max(...seen)).toBe(2)
  })

  it("continues with two after a request comes, and fires all timers", async () => {
    apart(-2 * HOUR_MS)
    recordRequest()
    apart(-HOUR_MS)
    const seen: Array<number> = []
    const fired = (underWay: number) => {
      seen.push(underWay)
      if (seen.length === 6) recordRequest()
    }
    expect(await Effect.runPromise(sweep([due(30, fired)]))).toBe(30)
    expect(Math.max(...seen.slice(0, 6))).toBe(3)
    expect(Math.max(...seen.slice(9))).toBe(2)
  })
})
