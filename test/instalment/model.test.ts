/**
 * Compares the machine of instalment plans with the running service. Walks that together take every reachable
 * transition run over HTTP with a test clock. After each step the API must show the state of the model.
 */
import fc from "fast-check"
import { expect, it } from "vitest"
import type { InstalmentInput } from "../../machines/instalment.ts"
import { isSaving } from "../../machines/instalment.ts"
import { hasMissed } from "../../machines/instalment_schedule.ts"
import { type InstalmentPlanRow, instalmentPlans, renderInstalmentPlan } from "../../src/buying/instalment/plan.ts"
import { amountOf, type Move, start, state, step, type World } from "../support/instalmentModel.ts"
import { beginPlan, cancel, createProduct, pay, type StartedPlan, useShop } from "../support/instalments.ts"
import { useInstance } from "../support/instance.ts"
import { advance, createClock, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const instance = useInstance()
const { api, database } = instance
useWhole(database)
const { buyers } = useShop(instance)

const START = Date.parse("2027-01-31T09:00:00Z")
const MAX_MOVES = 14
const TRIED = 3_000
const WALKS_AT_ONCE = 4

const TERMS = {
  fixed: { mode: "fixed", frequency: "weekly", targetKobo: 500_000, cycleMonths: 1 },
  flexible: { mode: "flexible", frequency: null, targetKobo: 100_000, cycleMonths: 1 },
} as const
type Kind = keyof typeof TERMS

const inputOf = (kind: Kind): InstalmentInput => ({
  at: START,
  lateFeeKobo: 10_000,
  refundWindowDays: 7,
  ...TERMS[kind],
})

const moves: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      type: fc.constant("pay" as const),
      share: fc.constantFrom(0, 0, 0.3, 1),
      declined: fc.constantFrom(false, false, true),
    }),
  },
  { weight: 4, arbitrary: fc.record({ type: fc.constant("wait" as const), days: fc.constantFrom(1, 5, 8, 40) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("extend" as const), days: fc.constantFrom(1, 10, 60) }) },
  {
    weight: 3,
    arbitrary: fc.record({ type: fc.constantFrom("cancel" as const, "ship" as const, "deliver" as const) }),
  },
)

interface Walk {
  readonly kind: Kind
  readonly moves: ReadonlyArray<Move>
}

/** The circumstances of a transition. */
const circumstances = ({ snapshot: { context } }: World): string =>
  `${context.mode} ${hasMissed(context)} ${context.pendingFeeKobo > 0}`

/** Walks that together take every transition that the tried walks take, in all its circumstances. */
const findWalks = (): { readonly walks: ReadonlyArray<Walk>; readonly taken: ReadonlySet<string> } => {
  const tried = fc.sample(
    fc.record({
      kind: fc.constantFrom("fixed" as const, "flexible" as const),
      moves: fc.array(moves, { minLength: 4, maxLength: MAX_MOVES, size: "max" }),
    }),
    { numRuns: TRIED, seed: 7 },
  )
  const seen = new Set<string>()
  const taken = new Set<string>()
  const walks = tried.flatMap(({ kind, moves }): ReadonlyArray<Walk> => {
    let world = start(inputOf(kind))
    let useful = 0
    for (const [n, move] of moves.entries()) {
      const next = step(world, move)
      for (const key of next.taken.slice(world.taken.length)) {
        taken.add(key)
        if (seen.has(`${key} ${circumstances(world)}`)) continue
        seen.add(`${key} ${circumstances(world)}`)
        useful = n + 1
      }
      world = next
    }
    return useful === 0 ? [] : [{ kind, moves: moves.slice(0, useful) }]
  })
  return { walks, taken }
}

const instant = (at: number): string => new Date(at).toISOString()

/** Does a move over HTTP. A move that the machine ignores is refused. */
const act = async (world: World, move: Move, plan: StartedPlan, clock: string): Promise<void> => {
  const path = `/provider-savings/${plan.id}`
  const here = state(world)
  switch (move.type) {
    case "wait":
      return advance(api, clock, instant(world.now + move.days * 86_400_000))
    case "pay": {
      const method = move.declined ? "pm_test_insufficient_funds" : "pm_test_visa"
      const { status } = await pay(plan, { payment_method: method, amount: amountOf(world, move.share) / 100 })
      return expect(status).toBe(isSaving(here) ? (move.declined ? 402 : 200) : here === "cancelled" ? 422 : 422)
    }
    case "extend": {
      const { status } = await api.post(`${path}/extend`, { days: move.days })
      return expect(status).toBe(here === "active" || here === "overdue" ? 200 : 422)
    }
    case "cancel":
      return expect((await cancel(buyers(), plan)).status).toBe(isSaving(here) ? 200 : 422)
    case "ship":
      return expect((await api.post(`${path}/ship`)).status).toBe(here === "completed" ? 200 : 422)
    case "deliver":
      return expect((await api.post(`${path}/deliver`)).status).toBe(here === "shipped" ? 200 : 422)
  }
}

/** The plan that the API must show, by the model. */
const expected = (world: World, id: string) => {
  const row = {
    id,
    livemode: false,
    created_at: START,
    product_name: "Inverter",
    product_image: null,
  } as InstalmentPlanRow
  return renderInstalmentPlan(instalmentPlans.withSnapshot(row, state(world), world.snapshot.context))
}

it("matches the machine on walks that take every transition", async () => {
  const { walks, taken } = findWalks()
  for (const from of ["pending", "active", "overdue"])
    for (const event of ["payment.succeeded", "payment.failed", "cancel"])
      expect(
        [...taken].some((key) => key.startsWith(`${from} ${event} `)),
        `${from} ${event}`,
      ).toBe(true)
  for (const key of [
    "pending xstate.after.expiry.instalment.pending cancelled",
    "active xstate.after.missed.instalment.active overdue",
    "overdue xstate.after.missed.instalment.overdue overdue",
    "overdue extend active",
    "overdue extend overdue",
    "active extend active",
    "completed ship shipped",
    "shipped deliver delivered",
  ])
    expect(taken).toContain(key)
  const products = {
    fixed: await createProduct(api, { price: 5_000, cycleMonths: 1, allowedFrequencies: ["weekly"] }),
    flexible: await createProduct(api, {
      price: 1_000,
      cycleMonths: 1,
      mode: "flexible",
      allowedFrequencies: undefined,
    }),
  }
  const waiting = [...walks]
  const lane = async () => {
    for (let walk = waiting.pop(); walk !== undefined; walk = waiting.pop()) {
      const clock = await createClock(api, instant(START))
      const plan = await beginPlan(buyers(), products[walk.kind], { testClock: clock })
      let world = start(inputOf(walk.kind))
      for (const [n, move] of walk.moves.entries()) {
        await act(world, move, plan, clock)
        world = step(world, move)
        const shown = data(await api.get(`/provider-savings/${plan.id}`))
        expect(shown, JSON.stringify(walk.moves.slice(0, n + 1))).toEqual(expected(world, plan.id))
      }
    }
  }
  await Promise.all(Array.from({ length: WALKS_AT_ONCE }, lane))
})
