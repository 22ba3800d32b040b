import { Effect, Exit } from "effect"
import { describe, expect, it } from "vitest"
import { PlanStartLimit } from "../../src/buying/instalment/PlanStartLimit.ts"
import { createLimits, type Limited } from "../../src/http/limits.ts"

const limits = () => createLimits({ live: 100, sandbox: 50, public: 10 }, 2)
const request = (): Limited => ({ headers: {}, ends: [] })
const end = ({ ends }: Limited) => {
  for (const one of ends.splice(0)) one()
}
const code = <A>(refused: Effect.Effect<A, { readonly code: string }>) => Effect.runSync(Effect.flip(refused)).code
const MIB = 1024 * 1024

describe("requests in progress", () => {
  it("are counted for each caller, until they end", () => {
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

describe("bodies of unknown callers", () => {
  it("are limited in size for each address, and for all together", () => {
    const { buffer } = limits()
    const fill = (address: string) => Array.from({ length: 32 }, () => ({ address, call: request() }))
    const reserved = Array.from({ length: 8 }, (_, n) => fill(`192.0.2.${n}`)).flat()
    for (const { address, call } of reserved) expect(buffer(call, address, MIB / 4)).toBeUndefined()
    expect(buffer(request(), "192.0.2.0", 1)?.code).toBe("too_many_in_flight")
    expect(buffer(request(), "198.51.100.1", 1)?.code).toBe("service_unavailable")
    end(reserved[0]!.call)
    expect(buffer(request(), "198.51.100.1", MIB / 4)).toBeUndefined()
    expect(buffer(request(), "192.0.2.0", MIB / 4)?.code).toBe("service_unavailable")
  })
})

describe("a rate", () => {
  it("allows a burst of twice the sustained rate, and a refusal says when to retry", () => {
    const { take } = limits()
    const call = request()
    for (let n = 0; n < 20; n++) Effect.runSync(take(call, "public", "192.0.2.1"))
    expect(code(take(call, "public", "192.0.2.1"))).toBe("rate_limited")
    expect(call.headers["retry-after"]).toBe("1")
    // A publishable key's rate at an address is separate.
    Effect.runSync(take(call, "publishable", "192.0.2.1"))
  })
})

describe("instalment plans started from an address", () => {
  it("are limited each hour, and a refusal says when to retry", () => {
    const begin = (address: string) => Effect.flatMap(PlanStartLimit, ({ take }) => take(address))
    const program = Effect.gen(function* () {
      for (let n = 0; n < 10; n++) yield* begin("203.0.113.7")
      yield* begin("203.0.113.8")
      return yield* Effect.flip(begin("203.0.113.7"))
    })
    const { code, status, retryAfterS } = Effect.runSync(Effect.provide(program, PlanStartLimit.layer(10)))
    expect([code, status]).toEqual(["rate_limited", 429])
    // Ten in any hour: the next one an hour after the first, less the test's own time.
    expect(retryAfterS).toBeGreaterThan(3_500)
    expect(retryAfterS).toBeLessThanOrEqual(3_600)
  })
})
