/** Tests the files of lists (decision R13). */
import { Effect, Stream } from "effect"
import { describe, expect, it } from "vitest"
import { type Cell, csvFile } from "../../src/dashboard/csv.ts"

const PAGE = 1_000

/** The text of a file that is read by pages. */
const textOf = async (read: (cursor?: string) => { rows: ReadonlyArray<ReadonlyArray<Cell>>; next: string | null }) => {
  const file = csvFile(
    "list",
    ["first"],
    (cursor) => Effect.sync(() => read(cursor)),
    (row) => row,
  )
  const { stream } = await Effect.runPromise(file)
  return Buffer.concat(await Effect.runPromise(Stream.runCollect(stream!))).toString()
}

/** The file of a list with this many rows, which are their numbers. */
const fileOf = (count: number) =>
  textOf((cursor = "0") => {
    const from = Number(cursor)
    const to = Math.min(from + PAGE, count)
    return { rows: Array.from({ length: to - from }, (_, at) => [from + at]), next: to < count ? String(to) : null }
  })

describe("a file of a list", () => {
  it("makes text of what a spreadsheet would compute, and quotes what would end a cell", async () => {
    const row = ["=1+1", "+2348031234567", "-1", "@x", "\tx", 'a "b", c', "a\nb", 5, -5, true, null]
    expect(await textOf(() => ({ rows: [row], next: null }))).toBe(
      '\uFEFFfirst\r\n\'=1+1,\'+2348031234567,\'-1,\'@x,\'\tx,"a ""b"", c","a\nb",5,-5,true,\r\n',
    )
  })

  it("has every row of a list", async () => {
    const lines = (await fileOf(2_500)).split("\r\n")
    expect(lines.length).toBe(1 + 2_500 + 1)
    expect(lines.slice(0, 3)).toEqual(["\uFEFFfirst", "0", "1"])
    expect(lines.at(-2)).toBe("2499")
  })

  it("ends after 100,000 rows, and says so", async () => {
    const lines = (await fileOf(100_001)).split("\r\n")
    expect(lines.length).toBe(1 + 100_000 + 1 + 1)
    expect(lines.at(-2)).toBe("The list goes on after 100000 rows: export it by its filters")
    expect((await fileOf(100_000)).split("\r\n").at(-2)).toBe("99999")
  })
})
