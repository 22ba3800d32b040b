import { Effect, Exit, Fiber } from "effect"
import { describe, expect, it } from "vitest"
import { FairSemaphore } from "../../src/concurrency/FairSemaphore.ts"
import { ReaderPool, type Taken } from "../../src/db/ReaderPool.ts"

/** Lets what can go on go on. */
const settle = Effect.forEach([1, 2, 3], () => Effect.yieldNow, { discard: true })

describe("places at the writing connections", () => {
  it("go to a tenant up to its share, and to the one that has the fewest first", async () => {
    const places = new FairSemaphore(3, 2)
    const begun: Array<string> = []
    const program = Effect.gen(function* () {
      const ends = new Map<string, () => void>()
      const work = (tenant: string, name: string) =>
        Effect.forkChild(
          places.within(
            tenant,
            Effect.callback<void>((resume) => {
              begun.push(name)
              ends.set(name, () => resume(Effect.void))
            }),
          ),
        )
      const end = (name: string) =>
        Effect.andThen(
          Effect.sync(() => ends.get(name)!()),
          settle,
        )
      const fibers = [
        yield* work("a", "a1"),
        yield* work("a", "a2"),
        yield* work("a", "a3"),
        yield* work("a", "a4"),
        yield* work("b", "b1"),
        yield* work("b", "b2"),
        yield* work("c", "c1"),
      ]
      yield* settle
      expect(begun).toEqual(["a1", "a2", "b1"])
      yield* end("a1")
      // Not a3, which has waited longest: its tenant has a place, and c has none.
      expect(begun.at(-1)).toBe("c1")
      yield* end("b1")
      expect(begun.at(-1)).toBe("b2")
      yield* end("a2")
      yield* end("c1")
      expect(begun.slice(5)).toEqual(["a3", "a4"])
      for (const name of ["b2", "a3", "a4"]) yield* end(name)
      const exits = yield* Effect.forEach(fibers, Fiber.await)
      expect(exits.every(Exit.isSuccess)).toBe(true)
    })
    await Effect.runPromise(program)
  })
})

describe("reading sessions", () => {
  const client = (): never => ({}) as never

  it("are one for a tenant, joined by others of it while nobody waits, and handed on in turn", async () => {
    const sessions = new ReaderPool([client(), client()])
    const taken: Array<readonly [string, Taken]> = []
    const take = (tenant: string) =>
      Effect.forkChild(Effect.map(sessions.take(tenant), (one) => void taken.push([tenant, one])))
    const who = () => taken.map(([tenant]) => tenant)
    const release = (tenant: string) =>
      Effect.suspend(() => {
        const index = taken.findIndex(([name]) => name === tenant)
        sessions.release(taken.splice(index, 1)[0]![1].session)
        return settle
      })
    const program = Effect.gen(function* () {
      for (let n = 0; n < 34; n++) yield* take("a")
      yield* settle
      // So many share it; two wait, although a session is free.
      expect(who()).toEqual(Array.from({ length: 32 }, () => "a"))
      expect(new Set(taken.map(([, { session }]) => session)).size).toBe(1)
      yield* take("b")
      yield* take("c")
      yield* settle
      expect(who().slice(32)).toEqual(["b"])
      for (let n = 0; n < 31; n++) yield* release("a")
      // c has none: nobody joins a's any more.
      expect(who()).toEqual(["a", "b"])
      yield* release("a")
      expect(who()).toEqual(["b", "c"])
      yield* release("b")
      expect(who()).toEqual(["c", "a", "a"])
      for (const tenant of ["c", "a", "a"]) yield* release(tenant)
      expect(who()).toEqual([])
    })
    await Effect.runPromise(program)
  })

  it("are prepared by who takes them first for a tenant", async () => {
    const sessions = new ReaderPool([client()])
    const [one, two] = await Effect.runPromise(Effect.all([sessions.take("a"), sessions.take("a")]))
    expect([one.prepares, two.prepares]).toEqual([true, false])
    sessions.release(one.session)
    sessions.release(two.session)
    expect((await Effect.runPromise(sessions.take("a"))).prepares).toBe(false)
    sessions.forget(one.session)
    sessions.release(one.session)
    expect((await Effect.runPromise(sessions.take("a"))).prepares).toBe(true)
  })
})
