import { Effect, Exit } from "effect"
import { describe, expect, it } from "vitest"
import { Creations } from "../../src/buying/instalment/Creations.ts"
import { createLimits, type Limited } from "../../src/http/limits.ts"

const limits = () => createLimits({ live: 100, sandbox: 50, public: 10 }, 2)
const request = (): Limited => ({ headers: {}, ends: [] })
const end = ({ ends }: Limited) => {
  for (const one of ends.splice(0)) one()
}
const code = <A>(refused: Effect.Effect<A, { readonly code: string }>) => Effect.runSync(Effect.flip(refused)).code
const MIB = 1024 * 1024

describe("requests under way", () => {
  it("are counted for each of whom they are, until they end", () => {
    const { enter } = limits()
    const [one, two, three, other] = [request(), request(), request(), request()]
    Effect.runSync(Effect.all([enter(one, "a"), enter(two, "a"), enter(other, "b")]))
    expect(code(enter(three, "a"))).toBe("too_many_in_flight")
    end(two)
    Effect.runSync(enter(three, "a"))
    for (const ended of [one, three, other]) end(ended)
    expect(Exit.isSuccess(Effect.runSyncExit(Effect.all([enter(one, "a"), enter(two, "a")])))).toBe(true)
  })
})

describe("bodies of callers that are not known", () => {
  it("are held up to a size for each address, and for all together", () => {
    const { hold } = limits()
    const fill = (address: string) => Array.from({ length: 32 }, () => ({ address, call: request() }))
    const held = Array.from({ length: 8 }, (_, n) => fill(`192.0.2.${n}`)).flat()
    for (const { address, call } of held) expect(hold(call, address, MIB / 4)).toBeUndefined()
    expect(hold(request(), "192.0.2.0", 1)?.code).toBe("too_many_in_flight")
    expect(hold(request(), "198.51.100.1", 1)?.code).toBe("service_unavailable")
    end(held[0]!.call)
    expect(hold(request(), "198.51.100.1", MIB / 4)).toBeUndefined()
    expect(hold(request(), "192.0.2.0", MIB / 4)?.code).toBe("service_unavailable")
  })
})

describe("a rate", () => {
  it("has twice what is sustained at once, and says on refusal when to come again", () => {
    const { take } = limits()
    const call = request()
    for (let n = 0; n < 20; n++) Effect.runSync(take(call, "public", "192.0.2.1"))
    expect(code(take(call, "public", "192.0.2.1"))).toBe("rate_limited")
    expect(call.headers["retry-after"]).toBe("1")
    // A publishable key's rate at an address is another one.
    Effect.runSync(take(call, "publishable", "192.0.2.1"))
  })
})

describe("instalment plans that an address begins", () => {
  it("are so many in an hour, and the next one is told when to come back", () => {
    const begin = (address: string) => Effect.flatMap(Creations, ({ take }) => take(address))
    const program = Effect.gen(function* () {
      for (let n = 0; n < 10; n++) yield* begin("203.0.113.7")
      yield* begin("203.0.113.8")
      return yield* Effect.flip(begin("203.0.113.7"))
    })
    const { code, status, retryAfterS } = Effect.runSync(Effect.provide(program, Creations.layer(10)))
    expect([code, status]).toEqual(["rate_limited", 429])
    // Ten in any hour: the next one an hour after the first, less what the test took.
    expect(retryAfterS).toBeGreaterThan(3_500)
    expect(retryAfterS).toBeLessThanOrEqual(3_600)
  })
})
