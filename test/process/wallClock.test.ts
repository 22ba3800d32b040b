/** Tests the wall clock of a process: this machine's, if checks against the database's agree (decision D10). */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { DAY_MS, SECOND_MS } from "../../src/base/time.ts"
import { clocksAgree, currentTime, disagreement, recordClockCheck } from "../../src/base/wallClock.ts"

afterEach(() => recordClockCheck(undefined))

/** A check in which the database's clock was this far ahead, and which took this long. */
const look = (aheadMs: number, { tookMs = 0, agoMs = 0 } = {}) => {
  const answeredAt = performance.now() - agoMs
  recordClockCheck({ databaseAt: Date.now() - agoMs + aheadMs - tookMs / 2, askedAt: answeredAt - tookMs, answeredAt })
}

it("is this machine's if no database differs, or differs by less than two seconds", () => {
  expect(clocksAgree()).toBe(true)
  for (const ahead of [0, 1_900, -1_900]) {
    look(ahead)
    expect([ahead, clocksAgree(), disagreement()]).toEqual([ahead, true, undefined])
    expect(Math.abs(currentTime() - Date.now())).toBeLessThan(SECOND_MS)
  }
})

it("is the database's if they differ by more, and reports both", () => {
  for (const ahead of [2_500, -2_500, 40 * DAY_MS, -40 * DAY_MS]) {
    look(ahead)
    expect([ahead, clocksAgree()]).toEqual([ahead, false])
    expect(Math.abs(currentTime() - (Date.now() + ahead))).toBeLessThan(SECOND_MS)
    const { machineAt, databaseAt } = disagreement()!
    expect(Math.abs(databaseAt - machineAt - ahead)).toBeLessThan(SECOND_MS)
  }
})

it("is not called wrong by an answer that took longer than the difference", () => {
  look(3_000, { tookMs: 4_000 })
  expect(clocksAgree()).toBe(true)
  look(5_000, { tookMs: 4_000 })
  expect(clocksAgree()).toBe(false)
})

it("is in doubt if the last check is old", () => {
  look(0, { agoMs: 9_000 })
  expect(clocksAgree()).toBe(true)
  look(0, { agoMs: 11_000 })
  expect([clocksAgree(), disagreement()]).toEqual([false, undefined])
})

it("is read in one place", () => {
  const src = join(import.meta.dirname, "../../src")
  /** `stat` gives a file's age on this machine's clock. */
  const allowed = ["base/wallClock.ts", "postgres/dataDirLock.ts"]
  const reading = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (name) =>
      name.endsWith(".ts") &&
      /Date\.now\(|new Date\(\)|Clock\.currentTime|DateTime\.now/.test(readFileSync(join(src, name), "utf8")),
  )
  expect(reading.sort()).toEqual(allowed.sort())
})
