/** The list of event types against the code, and against what the specification names. */
import { readdirSync, readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import { describe, expect, it } from "vitest"
import { EVENT_TYPES, isEventPattern } from "../src/event/types.ts"

const ROOT = join(import.meta.dirname, "..")
const FAMILIES = [...new Set(EVENT_TYPES.map((type) => type.split(".")[0]!))]
/** Where types are listed or made up, rather than emitted. */
const NOT_EMITTING = new Set(["src/event/types.ts", "src/sandbox/samples.ts"])
/** What happens to machines and is no event of the API. */
const INTERNAL = new Set(["charge.unsettled"])

const files = (folder: string): ReadonlyArray<string> =>
  readdirSync(join(ROOT, folder)).flatMap((name) => {
    const path = `${folder}/${name}`
    return statSync(join(ROOT, path)).isDirectory() ? files(path) : path.endsWith(".ts") ? [path] : []
  })

describe("the event types", () => {
  it("are those that the code emits, all of them and no other", () => {
    const literal = new RegExp(`"((?:${FAMILIES.join("|")})\\.[a-z_]+)"`, "g")
    const emitted = new Set(
      [...files("machines"), ...files("src")]
        .filter((path) => !NOT_EMITTING.has(path))
        .flatMap((path) => [...readFileSync(join(ROOT, path), "utf8").matchAll(literal)].map(([, type]) => type!)),
    )
    expect([...emitted].filter((type) => !INTERNAL.has(type)).sort()).toEqual([...EVENT_TYPES].sort())
  })

  it("are what live endpoints can be enabled for, one by one or by family", () => {
    for (const type of EVENT_TYPES) expect(isEventPattern(type, true)).toBe(true)
    for (const family of FAMILIES) expect(isEventPattern(`${family}.*`, true)).toBe(true)
    for (const strange of ["charge.unsettled", "made.up", "made.*", "charge", "*.failed", "charge.*.failed", ""])
      expect(isEventPattern(strange, true)).toBe(false)
  })
})
