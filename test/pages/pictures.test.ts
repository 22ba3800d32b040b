import { describe, expect, it } from "vitest"
import { type Arrow, arrowCounts, draw, type Picture } from "../../src/pages/pictures/draw.ts"

const state = (name: string, isGroup = false) => ({ name, x: 10, y: 10, width: 80, height: 30, isGroup })
const arrow = (from: string, to: string, triggers: ReadonlyArray<string>): Arrow => ({
  from,
  to,
  triggers,
  points: [
    [0, 0],
    [1, 1],
  ],
  label: { x: 0, y: 0, lines: triggers },
})

const picture: Picture = {
  width: 100,
  height: 100,
  states: [state("idle"), state("busy", true), state("busy.first")],
  arrows: [
    arrow("idle", "busy", ["begin"]),
    arrow("busy", "idle", ["end"]),
    arrow("busy.first", "busy.second", ["go"]),
  ],
}

describe("the picture of a machine", () => {
  it("marks the present state and the path taken, without a style of its own", () => {
    const drawn = draw(picture, {
      title: "A & B",
      path: [{ from: "idle", to: "busy.first", trigger: "begin" }],
      current: "busy.first",
    })
    expect(drawn).toContain('<g data-state="busy.first" aria-current="true" class="visited">')
    expect(drawn).toContain('class="arrow taken" data-from="idle" data-to="busy"')
    expect(drawn).toContain('role="img" aria-label="A &amp; B"')
    expect(drawn).not.toMatch(/style|data-count/)
    expect(draw(picture, { title: "x" }, ".machine{}")).toContain("<style>.machine{}</style>")
  })

  it("shows counts, short enough for a badge, and leads to lists", () => {
    const drawn = draw(picture, {
      title: "Counts",
      states: new Map([
        ["idle", { count: 1_234_567, href: '/list?status="idle"' }],
        ["busy", { count: 0, href: null }],
      ]),
      arrows: arrowCounts(picture.arrows, [
        { from: "idle", to: "busy.first", trigger: "begin", transitions: 12_345 },
        { from: "busy.first", to: "idle", trigger: "end", transitions: 7 },
        { from: "busy.first", to: "idle", trigger: "unknown", transitions: 9 },
      ]),
    })
    expect(drawn).toContain('data-state="idle" data-count="1234567"')
    expect(drawn).toContain(">1.2M</text>")
    expect(drawn).toContain('<a href="/list?status=&quot;idle&quot;">')
    expect(drawn).toContain('data-state="busy" data-count="0"')
    expect(drawn).toContain('role="group"')
    expect(drawn).toContain('data-from="idle" data-to="busy" data-count="12345"')
    expect(drawn).toContain("12.3k ×")
    expect(drawn).toContain('data-from="busy" data-to="idle" data-count="7"')
    expect(drawn).toContain('data-from="busy.first" data-to="busy.second" data-count="0"')
  })
})
