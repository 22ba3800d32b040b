import { Effect, Exit, Fiber } from "effect"
import { describe, expect, it } from "vitest"
import { FairSemaphore } from "../../src/concurrency/FairSemaphore.ts"
import { ReaderPool, type Taken } from "../../src/db/ReaderPool.ts"

/** Lets fibers that can continue run. */
const settle = Effect.forEach([1, 2, 3], () => Effect.yieldNow, { discard: true })

describe("permits of the write connections", () => {
  it("go to a tenant up to its share, and first to the tenant with the fewest", async () => {
    const places = new FairSemaphore(3, 2)
    const started: Array<string> = []
    const program = Effect.gen(function* () {
      const ends = new Map<string, () => void>()
      const work = (tenant: string, name: string) =>
        Effect.forkChild(
          places.within(
            tenant,
            Effect.callback<void>((resume) => {
              started.push(name)
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
      expect(started).toEqual(["a1", "a2", "b1"])
      yield* end("a1")
      // Not a3, which has waited longest: its tenant has a permit, and c has none.
      expect(started.at(-1)).toBe("c1")
      yield* end("b1")
      expect(started.at(-1)).toBe("b2")
      yield* end("a2")
      yield* end("c1")
      expect(started.slice(5)).toEqual(["a3", "a4"])
      for (const name of ["b2", "a3", "a4"]) yield* end(name)
      const exits = yield* Effect.forEach(fibers, Fiber.await)
      expect(exits.every(Exit.isSuccess)).toBe(true)
    })
    await Effect.runPromise(program)
  })
})

describe("reading sessions", () => {
  const client = (): never => ({}) as never

  it("are one for each tenant, shared by its requests while no other tenant waits, and passed on in turn", async () => {
    const sessions = new ReaderPool([client(), client()])
    const taken: Array<readonly [string, Taken]> = []
    const take = (tenant: string) =>
      Effect.forkChild(Effect.map(sessions.take(tenant), (one) => void taken.push([tenant, one])))
    const tenants = () => taken.map(([tenant]) => tenant)
    const release = (tenant: string) =>
      Effect.suspend(() => {
        const index = taken.findIndex(([name]) => name === tenant)
        sessions.release(taken.splice(index, 1)[0]![1].session)
        return settle
      })
    const program = Effect.gen(function* () {
      for (let n = 0; n < 34; n++) yield* take("a")
      yield* settle
      // 34 requests share it. Two wait, although a session is free.
      expect(tenants()).toEqual(Array.from({ length: 32 }, () => "a"))
      expect(new Set(taken.map(([, { session }]) => session)).size).toBe(1)
      yield* take("b")
      yield* take("c")
      yield* settle
      expect(tenants().slice(32)).toEqual(["b"])
      for (let n = 0; n < 31; n++) yield* release("a")
      // c has no session, so no more requests join a's.
      expect(tenants()).toEqual(["a", "b"])
      yield* release("a")
      expect(tenants()).toEqual(["b", "c"])
      yield* release("b")
      expect(tenants()).toEqual(["c", "a", "a"])
      for (const tenant of ["c", "a", "a"]) yield* release(tenant)
      expect(tenants()).toEqual([])
    })
    await Effect.runPromise(program)
  })

  it("are prepared by the first request of a tenant", async () => {
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
