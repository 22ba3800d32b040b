import { Effect, Exit } from "effect"
import fc from "fast-check"
import { describe, expect, it } from "vitest"
import { Problem } from "../../src/base/problem.ts"
import { planApi } from "../../src/billing/plan/api.ts"
import { parseBody } from "../../src/http/parseBody.ts"
import { validatorsOf } from "../../src/http/validation.ts"

const { body: judge } = validatorsOf(planApi.create)

const fault = (body: unknown) => {
  const error = Effect.runSync(Effect.flip(judge(body).decoded))
  if (!(error instanceof Problem)) throw error
  return [error.code, error.param]
}

const plan = { name: "Gym", amount: 500_000, currency: "NGN", billing_cycle: "monthly" }

describe("errors in a body", () => {
  it("are found in one pass, however many there are", () => {
    const strange = Object.fromEntries(Array.from({ length: 3_000 }, (_, n) => [`unknown_${n}`, n]))
    let looks = 0
    const body = new Proxy(
      { ...plan, ...strange },
      {
        ownKeys: (target) => {
          looks++
          return Reflect.ownKeys(target)
        },
      },
    )
    expect(fault(body)).toEqual(["parameter_unknown", "unknown_0"])
    expect(looks).toBeLessThan(10)
  })

  it("are reported in the order of the body, at any depth", () => {
    const faulty = {
      name: [17, "parameter_invalid", "name"],
      amount: ["much", "parameter_invalid", "amount"],
      retry_logic: [{ enabled: true, max_attempts: "3" }, "parameter_invalid", "retry_logic.max_attempts"],
      reminders: [{ strange: 1, pre_due_days: "x" }, "parameter_unknown", "reminders.strange"],
      typo: [1, "parameter_unknown", "typo"],
    } as const
    const names = Object.keys(faulty) as ReadonlyArray<keyof typeof faulty>
    const some = fc.shuffledSubarray([...names], { minLength: 1 })
    fc.assert(
      fc.property(some, fc.boolean(), (order, complete) => {
        const rest = complete ? Object.entries(plan).filter(([name]) => !(name in faulty)) : []
        const body = Object.fromEntries([...rest, ...order.map((name) => [name, faulty[name][0]])])
        expect(fault(body)).toEqual(faulty[order[0]!].slice(1))
      }),
    )
  })

  it("are limited in number, and so is the size of a body", () => {
    const parse = (value: unknown) => Effect.runSyncExit(parseBody(JSON.stringify(value)))
    expect(Exit.isSuccess(parse({ list: Array.from({ length: 9_000 }, () => 1) }))).toBe(true)
    expect(Exit.isSuccess(parse({ list: Array.from({ length: 10_001 }, () => 1) }))).toBe(false)
  })
})
