/**
 * Models the machine of instalment plans: the moves of buyers, the merchant and the clock, over the machine and its
 * timers. No database, no HTTP: walks are tried here, and then taken over HTTP.
 */
import fc from "fast-check"
import type { SnapshotFrom } from "xstate"
import { begin, type Decision, decide, stateName, type TimerToSet } from "../../machines/decide.ts"
import { type InstalmentEvent, type InstalmentInput, instalmentMachine, isSaving } from "../../machines/instalment.ts"
import { dueKobo, FREQUENCIES, payableKobo } from "../../machines/instalment_schedule.ts"

const DAY_MS = 86_400_000

export type Move =
  /** `share`: the part of the amount payable above the amount due. `meanwhile`: the move before the rail's answer. */
  | {
      readonly type: "pay"
      readonly share: number
      readonly declined: boolean
      readonly meanwhile?: Interruption | undefined
    }
  | { readonly type: "wait"; readonly days: number }
  | { readonly type: "extend"; readonly days: number }
  | { readonly type: "cancel" | "ship" | "deliver" }

type Interruption = Extract<Move, { readonly type: "wait" }> | { readonly type: "cancel" }

const INTERRUPTIONS: ReadonlyArray<Interruption | undefined> = [
  ...Array.from({ length: 4 }, () => undefined),
  { type: "wait", days: 2 },
  { type: "cancel" },
]

/** Any move of anyone. */
export const moves: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      type: fc.constant("pay" as const),
      share: fc.constantFrom(0, 0, 0.2, 0.5, 0.9, 1),
      declined: fc.boolean(),
      meanwhile: fc.constantFrom(...INTERRUPTIONS),
    }),
  },
  { weight: 6, arbitrary: fc.record({ type: fc.constant("wait" as const), days: fc.integer({ min: 0, max: 20 }) }) },
  { weight: 2, arbitrary: fc.record({ type: fc.constant("extend" as const), days: fc.integer({ min: 1, max: 90 }) }) },
  { weight: 3, arbitrary: fc.record({ type: fc.constantFrom("ship" as const, "deliver" as const) }) },
  { weight: 1, arbitrary: fc.constant({ type: "cancel" as const }) },
)

/** Plans of any terms, from a day on which months differ. */
export const inputs: fc.Arbitrary<InstalmentInput> = fc
  .record({
    mode: fc.constantFrom("fixed" as const, "flexible" as const),
    frequency: fc.constantFrom(...FREQUENCIES),
    naira: fc.integer({ min: 8_000, max: 1_000_000 }),
    cycleMonths: fc.integer({ min: 1, max: 3 }),
    lateFee: fc.integer({ min: 0, max: 500 }),
  })
  .map(({ mode, frequency, naira, cycleMonths, lateFee }) => ({
    at: Date.parse("2027-01-31T09:00:00Z"),
    mode,
    frequency: mode === "fixed" ? frequency : null,
    targetKobo: naira * 100,
    cycleMonths,
    lateFeeKobo: lateFee * 100,
    refundWindowDays: 7,
  }))

/** Fixed walks to all important states, in addition to the random ones. */
export const EXAMPLES: Array<[InstalmentInput, Array<Move>]> = (
  [
    [{ type: "pay", share: 1, declined: false }, { type: "ship" }, { type: "deliver" }],
    [
      { type: "pay", share: 0, declined: false },
      { type: "wait", days: 50 },
      { type: "extend", days: 1 },
      { type: "pay", share: 0, declined: false },
      { type: "cancel" },
    ],
    [{ type: "pay", share: 0.9, declined: false, meanwhile: { type: "cancel" } }],
    [{ type: "pay", share: 0.9, declined: false, meanwhile: { type: "wait", days: 2 } }],
    [{ type: "wait", days: 0 }],
    // The last instalment is missed during its payment: only its fee is left.
    [
      { type: "pay", share: 0, declined: false },
      { type: "wait", days: 28 },
      { type: "pay", share: 0, declined: false },
      { type: "wait", days: 31 },
      { type: "pay", share: 0, declined: false, meanwhile: { type: "wait", days: 2 } },
      { type: "wait", days: 20 },
      { type: "pay", share: 0, declined: false },
    ],
  ] satisfies Array<Array<Move>>
).map((moves) => [
  {
    at: Date.parse("2027-01-31T09:00:00Z"),
    mode: "fixed",
    frequency: "monthly",
    targetKobo: 1_000_000,
    cycleMonths: 3,
    lateFeeKobo: 10_000,
    refundWindowDays: 7,
  },
  moves,
])

export interface World {
  readonly snapshot: SnapshotFrom<typeof instalmentMachine>
  readonly timers: ReadonlyMap<string, TimerToSet>
  readonly now: number
  /** Transitions, as from, event and to. */
  readonly taken: ReadonlyArray<string>
  readonly decisions: ReadonlyArray<{
    readonly event: InstalmentEvent
    readonly before: SnapshotFrom<typeof instalmentMachine>
    readonly decision: Decision<typeof instalmentMachine>
  }>
}

export const start = (input: InstalmentInput): World => {
  const { snapshot, set } = begin(instalmentMachine, { type: "create", ...input })
  return { snapshot, timers: new Map(set.map((timer) => [timer.name, timer])), now: input.at, taken: [], decisions: [] }
}

const apply = (world: World, event: InstalmentEvent): World => {
  const { snapshot: before } = world
  const decision = decide(instalmentMachine, before, event)
  if (!decision.changed) return world
  const timers = new Map(world.timers)
  for (const name of decision.cancel) timers.delete(name)
  for (const timer of decision.set) timers.set(timer.name, timer)
  return {
    ...world,
    snapshot: decision.snapshot,
    timers,
    taken: [...world.taken, `${stateName(before)} ${event.type} ${stateName(decision.snapshot)}`],
    decisions: [...world.decisions, { event, before, decision }],
  }
}

const wait = (from: World, until: number): World => {
  let world = from
  for (;;) {
    const [next] = [...world.timers.values()]
      .filter(({ dueAt }) => dueAt <= until)
      // At one instant the missed instalment comes first, as the lifecycle ranks it.
      .sort((a, b) => a.dueAt - b.dueAt || a.name.localeCompare(b.name))
    if (next === undefined) return { ...world, now: until }
    const timers = new Map(world.timers)
    timers.delete(next.name)
    world = apply({ ...world, timers, now: next.dueAt }, { type: next.event, at: next.dueAt } as InstalmentEvent)
  }
}

/** The result of a payment. */
export const amountOf = ({ snapshot: { context } }: World, share: number): number => {
  const [least, most] = [dueKobo(context.mode, context), payableKobo(context)]
  return least + Math.floor(((most - least) / 100) * share) * 100
}

export const state = ({ snapshot }: World): string => stateName(snapshot)

let charges = 0

export const step = (world: World, move: Move): World => {
  switch (move.type) {
    case "wait":
      return wait(world, world.now + move.days * DAY_MS)
    case "pay": {
      if (!isSaving(state(world))) return world
      const amountKobo = amountOf(world, move.share)
      const chargeId = `chg_${charges++}`
      const sent = apply(world, { type: "payment.begun", at: world.now, chargeId })
      const started = move.meanwhile === undefined ? sent : step(sent, move.meanwhile)
      return apply(
        started,
        move.declined
          ? { type: "payment.failed", at: started.now, chargeId }
          : { type: "payment.succeeded", at: started.now, chargeId, amountKobo },
      )
    }
    case "extend":
      return apply(world, { type: "extend", at: world.now, byMs: move.days * DAY_MS })
    default:
      return apply(world, { type: move.type, at: world.now })
  }
}
