/** The wall clock of a process: this machine's, as far as a look at the database's says that they agree (decision D10). */
import { readdirSync, readFileSync } from "node:fs"
import { join } from "node:path"
import { afterEach, expect, it } from "vitest"
import { DAY_MS, SECOND_MS } from "../../src/base/time.ts"
import { clocksAgree, currentTime, disagreement, noteLook } from "../../src/base/wallClock.ts"

afterEach(() => noteLook(undefined))

/** A look of which the database's clock was so far ahead of this machine's, and that took so long. */
const look = (aheadMs: number, { tookMs = 0, agoMs = 0 } = {}) => {
  const answeredAt = performance.now() - agoMs
  noteLook({ databaseAt: Date.now() - agoMs + aheadMs - tookMs / 2, askedAt: answeredAt - tookMs, answeredAt })
}

it("is this machine's where no database says otherwise, and where it differs by less than two seconds", () => {
  expect(clocksAgree()).toBe(true)
  for (const ahead of [0, 1_900, -1_900]) {
    look(ahead)
    expect([ahead, clocksAgree(), disagreement()]).toEqual([ahead, true, undefined])
    expect(Math.abs(currentTime() - Date.now())).toBeLessThan(SECOND_MS)
  }
})

it("is the database's where they differ by more, and says both", () => {
  for (const ahead of [2_500, -2_500, 40 * DAY_MS, -40 * DAY_MS]) {
    look(ahead)
    expect([ahead, clocksAgree()]).toEqual([ahead, false])
    expect(Math.abs(currentTime() - (Date.now() + ahead))).toBeLessThan(SECOND_MS)
    const { machineAt, databaseAt } = disagreement()!
    expect(Math.abs(databaseAt - machineAt - ahead)).toBeLessThan(SECOND_MS)
  }
})

it("is not called wrong by an answer that was on its way for longer than they differ", () => {
  look(3_000, { tookMs: 4_000 })
  expect(clocksAgree()).toBe(true)
  look(5_000, { tookMs: 4_000 })
  expect(clocksAgree()).toBe(false)
})

it("is in doubt where the last look is old", () => {
  look(0, { agoMs: 9_000 })
  expect(clocksAgree()).toBe(true)
  look(0, { agoMs: 11_000 })
  expect([clocksAgree(), disagreement()]).toEqual([false, undefined])
})

it("is read in one place", () => {
  const src = join(import.meta.dirname, "../../src")
  /** By `stat` a file's age is told, on this machine's clock. */
  const allowed = ["wallClock.ts", "db/dataDirLock.ts"]
  const reading = readdirSync(src, { recursive: true, encoding: "utf8" }).filter(
    (name) =>
      name.endsWith(".ts") &&
      /Date\.now\(|new Date\(\)|Clock\.currentTime|DateTime\.now/.test(readFileSync(join(src, name), "utf8")),
  )
  expect(reading.sort()).toEqual(allowed.sort())
})
