/** Background work while requests are answered: fewer batches at once, and nothing is left. */
import { Effect } from "effect"
import { afterEach, describe, expect, it, vi } from "vitest"
import { isServing, recordRequest } from "../../src/process/loadHint.ts"
import { sweep, type TimerHandler } from "../../src/runtime/fire.ts"

const HOUR_MS = 3_600_000
const real = performance.now.bind(performance)
/** What the process takes for the time since its start, apart from the real one by so much. */
const apart = (ms: number) => vi.spyOn(performance, "now").mockImplementation(() => real() + ms)

afterEach(() => {
  vi.restoreAllMocks()
})

/** A noun of which so many batches are due; `fired` sees, at each, how many are under way. */
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

describe("whether anybody else asks", () => {
  it("is not said of an account's own requests", () => {
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

  it("is said of requests that are of no account", () => {
    apart(-2.5 * HOUR_MS)
    recordRequest()
    recordRequest("acc_a")
    expect([isServing("acc_a"), isServing("acc_b")]).toEqual([true, true])
  })

  it("is forgotten after a minute, whoever goes on", () => {
    apart(-2.4 * HOUR_MS)
    recordRequest("acc_b")
    recordRequest("acc_a")
    apart(-2.4 * HOUR_MS + 61_000)
    recordRequest("acc_a")
    expect([isServing("acc_a"), isServing("acc_b")]).toEqual([false, true])
  })
})

describe("a sweep", () => {
  it("has three batches under way where nobody asks", async () => {
    apart(HOUR_MS)
    expect(isServing()).toBe(false)
    const seen: Array<number> = []
    expect(await Effect.runPromise(sweep([due(12, (underWay) => seen.push(underWay))]))).toBe(12)
    expect(Math.max(...seen)).toBe(3)
  })

  it("has two while requests are answered", async () => {
    // In the past, so that nobody who comes after this test is serving.
    apart(-HOUR_MS)
    recordRequest()
    const seen: Array<number> = []
    expect(await Effect.runPromise(sweep([due(12, (underWay) => seen.push(underWay))]))).toBe(12)
    expect(Math.max(...seen)).toBe(2)
  })

  it("goes on in two once a request comes, and fires all the same", async () => {
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
