/**
 * Compares the machine with the running service. Paths that `xstate/graph` finds take every transition, and run over
 * HTTP with a test clock. After each step the API must show the state of the model.
 */
import { describe, expect, it } from "vitest"
import { getShortestPaths } from "xstate/graph"
import { stateName } from "../../machines/decide.ts"
import { useInstance } from "../support/instance.ts"
import {
  expected,
  METHODS,
  type Method,
  type Move,
  model,
  movesFrom,
  SCENARIOS,
  type Scenario,
  START,
  situation,
  step,
  TRANSITIONS,
  type World,
} from "../support/model.ts"
import { advance, createClock, createCustomer, createPlan, data } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { api, database } = useInstance()
useWhole(database)

/** The longest walk: far enough to see the last retry of a renewal fail and the steps after it. */
const MAX_MOVES = 8
/** Clocks that move in parallel, and walks on one clock that run in parallel. */
const CLOCKS_AT_ONCE = 3
const WALKS_AT_ONCE = 4

/** Transitions that no caller can take, each with its reason. */
const OUT_OF_REACH: ReadonlyMap<string, string> = new Map([
  ["overdue.charging on retry #0", "the API refuses a retry while a charge is pending"],
  ...["active.current on cancel #0", "active.current on update #0"].map(
    (key) => [key, "only until the timer of the period's end fires: test/machines/subscription.test.ts"] as const,
  ),
  ["ending on charge.succeeded #0", "takes more moves: test/scenarios/ending.test.ts"],
  ...TRANSITIONS.filter((key) => key.includes(" on charge.found ")).map(
    (key) => [key, "enters a rail's payments after a backup: test/faults/restore.test.ts"] as const,
  ),
  ...["opening on cancel #0", "opening on cancel #1", "opening on cancel #2", "opening on update #0"].map(
    (key) => [key, "only while the creating request runs: test/faults/races.test.ts"] as const,
  ),
  ...["scheduled", "trialing.running", "active.current", "overdue.retrying", "overdue.waiting"].map(
    (state) => [`${state} on reminder #0`, "moves nothing: test/nudge/nudge.test.ts"] as const,
  ),
  ...["trialing.charging", "active.charging", "active.resuming", "overdue", "overdue.charging"].map(
    (state) =>
      [`${state} on method.removed #0`, "needs a second payment method: test/scenarios/dunning.test.ts"] as const,
  ),
])

const options = {
  events: movesFrom as never,
  serializeState: situation as never,
  stopWhen: ((world: World) => world.moves >= MAX_MOVES) as never,
}

interface Walks {
  readonly situations: number
  readonly chosen: ReadonlyArray<ReadonlyArray<Move>>
  readonly taken: ReadonlySet<string>
}

/** The circumstances of a transition, which may change its effects. */
const circumstances = ({ snapshot }: World): string => {
  const { cancelAtPeriodEnd, escalation } = snapshot.context
  return `${stateName(snapshot)} ${cancelAtPeriodEnd} ${escalation?.action}`
}

/** Short walks that take every transition of any walk, in all its circumstances. */
const findWalks = (): Walks => {
  const paths = getShortestPaths(model as never, options as never) as unknown as ReadonlyArray<{
    readonly steps: ReadonlyArray<{ readonly event: Move }>
  }>
  const situations = paths
    .map(({ steps }) => steps.map(({ event }) => event).filter(({ type }) => (type as string) !== "xstate.init"))
    .toSorted((a, b) => a.length - b.length)
  const seen = new Set<string>()
  const taken = new Set<string>()
  const found: Array<ReadonlyArray<Move>> = []
  for (const path of situations) {
    const here = path.reduce(step, model.getInitialSnapshot())
    if (here.moves >= MAX_MOVES) continue
    for (const move of movesFrom(here)) {
      const next = step(here, move)
      const fresh = next.taken.map((key) => `${key} ${circumstances(here)}`).filter((key) => !seen.has(key))
      if (fresh.length === 0) continue
      found.push([...path, move])
      for (const key of fresh) seen.add(key)
      for (const key of next.taken) taken.add(key)
    }
  }
  // A walk that is the start of a longer one is covered by that.
  const beginnings = new Set(found.flatMap((moves) => moves.map((_, n) => JSON.stringify(moves.slice(0, n)))))
  return {
    situations: situations.length,
    chosen: found.filter((moves) => !beginnings.has(JSON.stringify(moves))),
    taken,
  }
}

const submitPage = (url: string, body: object): Promise<Response> =>
  fetch(`${url}/complete`, {
    method: "POST",
    headers: { accept: "application/json", "content-type": "application/json" },
    body: JSON.stringify(body),
  })

const instant = (at: number) => new Date(at).toISOString()

interface Made {
  /** The subscription. */
  readonly id: string
  /** Its checkout session, if it has one. */
  readonly session?: { readonly id: string; readonly url: string }
}

/** Does a move over HTTP. The clock is moved once for all walks on it. */
const act = async (world: World, move: Move, { id, session }: Made): Promise<void> => {
  const path = `/subscriptions/${id}`
  const methodOf = (method: Method) => METHODS[method].id
  switch (move.type) {
    case "create":
      throw new Error("A walk creates once.")
    case "clock":
    case "nap":
      return
    case "pause": {
      const resumes_at = move.days === null ? null : instant(world.now + move.days * 86_400_000)
      return void data(await api.post(`${path}/pause`, { resumes_at }))
    }
    case "resume":
      return void data(await api.post(`${path}/resume`))
    case "cancel":
      return void data(
        await api.post(`${path}/cancel`, { at_period_end: move.atPeriodEnd, reason: move.reason ?? null }),
      )
    case "patch":
      return void data(await api.patch(path, { cancel_at_period_end: move.cancelAtPeriodEnd }))
    case "method":
      return void data(await api.patch(path, { payment_method: methodOf(move.method) }))
    case "retry": {
      const { latest_charge } = data(await api.get(path))
      const body = move.method === null ? {} : { payment_method: methodOf(move.method) }
      return void data(await api.post(`/charges/${latest_charge}/retry`, body), 201)
    }
    case "submit": {
      const { succeeds, afterMs } = METHODS[move.method]
      // A trial starts with any result that the method would have.
      const goesOn = succeeds || afterMs > 0 || SCENARIOS[world.scenario].trialDays > 0
      const { status } = await submitPage(session!.url, { payment_method: methodOf(move.method) })
      return void expect(status).toBe(goesOn ? 200 : 402)
    }
    case "expire":
      return void data(await api.post(`/checkout-sessions/${session!.id}/expire`))
    case "units":
    case "deliver":
      return void data(await api.post(`${path}/unit-records`, { quantity: 1 }), 201)
  }
}

const plans = new Map<Scenario, Promise<string>>()

/** The plan of a scenario, shared by all of its walks. */
const planOf = (scenario: Scenario): Promise<string> => {
  const { cycle, proRate, policy, trialDays, unitKobo = 0, checkout = false } = SCENARIOS[scenario]
  const plan =
    plans.get(scenario) ??
    createPlan(api, {
      amount: 100_000,
      billing_cycle: cycle,
      ...(unitKobo === 0 ? {} : { overage_per_unit: unitKobo }),
      // A session takes the trial of its plan.
      ...(checkout ? { trial_days: trialDays } : {}),
      pause_enabled: true,
      pro_rate: proRate,
      retry_logic: {
        max_attempts: policy.maxAttempts,
        retry_intervals_days: policy.intervalsDays,
        escalation_on_failure: policy.escalation,
        cancel_after_days_unpaid: policy.cancelAfterDays,
      },
    })
  plans.set(scenario, plan)
  return plan
}

const create = async (move: Extract<Move, { type: "create" }>, clock: string): Promise<Made> => {
  const { trialDays, startsInDays, checkout = false } = SCENARIOS[move.scenario]
  const [customer, plan] = await Promise.all([createCustomer(api, { test_clock: clock }), planOf(move.scenario)])
  if (checkout) {
    const pages = { success_url: "https://shop.example/done", cancel_url: "https://shop.example" }
    const session = data(await api.post("/checkout-sessions", { mode: "subscription", customer, plan, ...pages }), 201)
    return { id: session.subscription, session }
  }
  const { id } = data(
    await api.post("/subscriptions", {
      customer,
      plan,
      payment_method: METHODS[move.method].id,
      trial_days: trialDays,
      ...(startsInDays === 0 ? {} : { start_at: instant(START + startsInDays * 86_400_000) }),
    }),
    201,
  )
  return { id }
}

const movesClock = ({ type }: Move) => type === "clock" || type === "nap"

/** The instants at which a walk stops its clock, in order. */
const stopsOf = (moves: ReadonlyArray<Move>): ReadonlyArray<number> => {
  const stops: Array<number> = []
  moves.reduce((world, move) => {
    const next = step(world, move)
    if (movesClock(move)) stops.push(next.now)
    return next
  }, model.getInitialSnapshot())
  return stops
}

/** A walk on a shared clock: stops before each of its clock's moves, and continues after it. */
async function* walk(moves: ReadonlyArray<Move>, clock: string) {
  const [first, ...rest] = moves
  const made = await create(first as Extract<Move, { type: "create" }>, clock)
  let world = step(model.getInitialSnapshot(), first!)
  const check = async (done: number) => {
    const shown = data(await api.get(`/subscriptions/${made.id}`))
    expect(shown, JSON.stringify(moves.slice(0, done))).toMatchObject(expected(world))
  }
  await check(1)
  for (const [index, move] of rest.entries()) {
    if (movesClock(move)) yield
    await act(world, move, made)
    world = step(world, move)
    await check(index + 2)
  }
}

/** Walks that move their clocks in the same way, on one clock. */
const walkTogether = async (walks: ReadonlyArray<ReadonlyArray<Move>>): Promise<void> => {
  const clock = await createClock(api, instant(START))
  const going = walks.map((moves) => walk(moves, clock))
  const goOn = () => inTurns(going, WALKS_AT_ONCE, (one) => one.next())
  await goOn()
  for (const stop of stopsOf(walks[0]!)) {
    await advance(api, clock, instant(stop))
    await goOn()
  }
  for (const one of going) expect((await one.next()).done).toBe(true)
}

const inTurns = async <T>(items: ReadonlyArray<T>, atOnce: number, work: (item: T) => Promise<unknown>) => {
  const queue = [...items]
  await Promise.all(
    Array.from({ length: atOnce }, async () => {
      for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
    }),
  )
}

describe("the model", () => {
  const { situations, chosen, taken } = findWalks()

  it("takes every transition of the machine", () => {
    const missed = TRANSITIONS.filter((key) => !taken.has(key) && !OUT_OF_REACH.has(key))
    expect(missed).toEqual([])
    expect([...OUT_OF_REACH.keys()].filter((key) => !TRANSITIONS.includes(key) || taken.has(key))).toEqual([])
  })

  it("has enough situations and walks to prove something", () => {
    expect(situations).toBeGreaterThan(1000)
    expect(chosen.length).toBeGreaterThan(100)
  })

  it("matches the API, on every walk", async () => {
    const together = Map.groupBy(chosen, (moves) => stopsOf(moves).join())
    await inTurns([...together.values()], CLOCKS_AT_ONCE, walkTogether)
  })
})
