/** Tests the start of background work. */
import { describe, expect, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { every } from "../../src/process/workers.ts"

describe("background work", () => {
  it.live("starts one worker after the other", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const started: Array<string> = []
        const [go, done] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const noted = (name: string, work: Effect.Effect<unknown>) =>
          Effect.andThen(
            Effect.sync(() => started.push(name)),
            work,
          )
        yield* every("first", Effect.never, noted("first", Deferred.await(go)))
        yield* every("second", Effect.never, noted("second", Deferred.succeed(done, undefined)))
        yield* Effect.yieldNow
        expect(started).toEqual(["first"])
        yield* Deferred.succeed(go, undefined)
        yield* Deferred.await(done)
        expect(started).toEqual(["first", "second"])
      }),
    ),
  )

  it.live("starts, even if the worker before it is waiting", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const done = yield* Deferred.make<void>()
        yield* every("endless", Effect.never, Effect.never)
        yield* every("other", Effect.never, Deferred.succeed(done, undefined))
        yield* Deferred.await(done)
      }),
    ),
  )

  it.live("starts, if the worker before it was stopped while it waited for its turn", () =>
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
