/** Tests that concurrent requests share runs, up to a run's capacity, in lanes (src/concurrency/Batcher.ts). */
import { Context, Deferred, Effect, Exit } from "effect"
import { describe, expect, it } from "vitest"
import { Batcher } from "../../src/concurrency/Batcher.ts"

interface Question {
  readonly name: string
  readonly lane: string
  readonly size: number
}

const question = (name: string, size = 1, lane = "one"): Question => ({ name, lane, size })

/** Submits these at the same time, while a first run of each lane is blocked. Returns the names in each later run. */
const runsOf = async (questions: ReadonlyArray<Question>, most?: number) => {
  const runs: Array<string> = []
  const asking = Effect.gen(function* () {
    const go = yield* Deferred.make<void>()
    const work = (all: ReadonlyArray<Question>) =>
      Effect.gen(function* () {
        if (all[0]!.name === "first") yield* Deferred.await(go)
        else runs.push(all.map(({ name }) => name).join(" "))
        return new Map(all.map(({ name }) => [name, name.toUpperCase()]))
      })
    const together = new Batcher(Context.empty(), ({ name }: Question) => name, work, {
      laneOf: ({ lane }) => lane,
      sizeOf: ({ size }) => size,
      ...(most === undefined ? {} : { most }),
    })
    const lanes = [...new Set(questions.map(({ lane }) => lane))]
    const all = [...lanes.map((lane) => question("first", 1, lane)), ...questions]
    const answers = yield* Effect.all([...all.map((one) => together.ask(one)), Deferred.succeed(go, undefined)], {
      concurrency: "unbounded",
    })
    expect(answers.slice(0, all.length)).toEqual(all.map(({ name }) => name.toUpperCase()))
  })
  await Effect.runPromise(asking)
  return runs
}

describe("concurrent requests", () => {
  it("are one run, and duplicates run once", async () => {
    expect(await runsOf([question("a"), question("b"), question("a")])).toEqual(["a b"])
  })

  it("are split into several runs in order of arrival, with at least one request each", async () => {
    const asked = [question("a", 2), question("b", 2), question("c"), question("huge", 9), question("d", 4)]
    expect(await runsOf(asked, 4)).toEqual(["a b", "c", "huge", "d"])
  })

  it("are separate runs for each lane", async () => {
    const asked = [question("a"), question("b", 1, "two"), question("c")]
    expect((await runsOf(asked)).toSorted()).toEqual(["a c", "b"])
  })
})

describe("a run that cannot start", () => {
  it("fails for all requests that wait by then, and the next request starts a new run", async () => {
    let isOpen = false
    const asking = Effect.gen(function* () {
      const together = new Batcher<string, number, string, never>(
        Context.empty(),
        (name: string) => name,
        (names: ReadonlyArray<string>) => Effect.succeed(new Map(names.map((name) => [name, name.length]))),
        { admit: (_, run) => (isOpen ? run : Effect.andThen(Effect.yieldNow, Effect.fail("full"))) },
      )
      const ask = (names: ReadonlyArray<string>) =>
        Effect.all(
          names.map((name) => Effect.exit(together.ask(name))),
          { concurrency: "unbounded" },
        )
      expect(yield* ask(["a", "bb"])).toEqual([Exit.fail("full"), Exit.fail("full")])
      isOpen = true
      expect(yield* ask(["a", "bb"])).toEqual([Exit.succeed(1), Exit.succeed(2)])
    })
    await Effect.runPromise(asking)
  })

  it("does not fail for a request that came while it waited", async () => {
    const asking = Effect.gen(function* () {
      const [asked, refused] = [yield* Deferred.make<void>(), yield* Deferred.make<void, string>()]
      let isFirst = true
      const admit = <A, R>(_: string, run: Effect.Effect<A, string, R>) => {
        if (!isFirst) return run
        isFirst = false
        return Effect.andThen(Effect.andThen(Deferred.succeed(asked, undefined), Deferred.await(refused)), run)
      }
      const together = new Batcher<string, number, string, never>(
        Context.empty(),
        (name: string) => name,
        (names: ReadonlyArray<string>) => Effect.succeed(new Map(names.map((name) => [name, name.length]))),
        { admit },
      )
      const late = Effect.andThen(Deferred.await(asked), Effect.exit(together.ask("late")))
      const refuse = Effect.andThen(
        Effect.andThen(Deferred.await(asked), Effect.yieldNow),
        Deferred.fail(refused, "full"),
      )
      const [first, second] = yield* Effect.all([Effect.exit(together.ask("a")), late, refuse], {
        concurrency: "unbounded",
      })
      expect([first, second]).toEqual([Exit.fail("full"), Exit.succeed(4)])
    })
    await Effect.runPromise(asking)
  })
})
