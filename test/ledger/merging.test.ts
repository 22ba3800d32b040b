/** Tests merging the books of several cells into one journal, in the order of their days. */
import { Effect, Stream } from "effect"
import { expect, it } from "vitest"
import { merged } from "../../src/cli/merging.ts"

const merge = (...sources: ReadonlyArray<ReadonlyArray<ReadonlyArray<string>>>) =>
  Effect.runPromise(
    Effect.map(
      Stream.runCollect(
        merged(
          sources.map((batches) => Stream.fromIterable(batches)),
          (item) => item.slice(0, 1),
        ),
      ),
      (batches) => batches.flat(),
    ),
  )

it("keeps each source's order, and keeps entries of one day together", async () => {
  const one = [["a1", "a2", "b1"], [], ["d1", "d2"]]
  const other = [["a3", "c1"], ["c2", "d3"], ["e1"]]
  expect(await merge(one, other)).toEqual(["a1", "a2", "a3", "b1", "c1", "c2", "d3", "d1", "d2", "e1"])
  expect(await merge(other, [])).toEqual(other.flat())
  expect(await merge([], [])).toEqual([])
})

it("fails if a source fails", async () => {
  const failing = Stream.concat(Stream.make(["a"]), Stream.fail("broken"))
  const all = merged([failing, Stream.make(["b"])], (item) => item)
  expect(await Effect.runPromise(Effect.flip(Stream.runCollect(all)))).toBe("broken")
})
