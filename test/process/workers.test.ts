/** How background work begins, and goes on. */
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { every } from "../../src/process/workers.ts"

describe("background work", () => {
  it.live("begins one after the other", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const begun: Array<string> = []
        const [go, done] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const noted = (name: string, work: Effect.Effect<unknown>) =>
          Effect.andThen(
            Effect.sync(() => begun.push(name)),
            work,
          )
        yield* every("first", Effect.never, noted("first", Deferred.await(go)))
        yield* every("second", Effect.never, noted("second", Deferred.succeed(done, undefined)))
        yield* Effect.yieldNow
        expect(begun).toEqual(["first"])
        yield* Deferred.succeed(go, undefined)
        yield* Deferred.await(done)
        expect(begun).toEqual(["first", "second"])
      }),
    ),
  )

  it.live("begins, whatever the one before it waits for", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const done = yield* Deferred.make<void>()
        yield* every("endless", Effect.never, Effect.never)
        yield* every("other", Effect.never, Deferred.succeed(done, undefined))
        yield* Deferred.await(done)
      }),
    ),
  )

  it.live("begins, where the one before it was stopped while it waited for its turn", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const [go, done] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        yield* every("first", Effect.never, Deferred.await(go))
        const stopped = yield* every("stopped", Effect.never, Effect.never)
        yield* Effect.yieldNow
        yield* Fiber.interrupt(stopped)
        yield* every("other", Effect.never, Deferred.succeed(done, undefined))
        yield* Deferred.succeed(go, undefined)
        yield* Deferred.await(done)
      }),
    ),
  )
})
