/**
 * The plan of one account: actions of its merchant and its buyers, faults of its rails, arrival of callbacks. All of it
 * is drawn from the seed and the schedule's number.
 */
import fc from "fast-check"
import { OUTSIDE_RAILS, type OutsideRail } from "../../src/rails/rail/Rail.ts"
import { CHARGE_FAULTS, type FaultName, PAYMENT_FAULTS, REFUND_FAULTS, TRANSPORT_FAULTS } from "./faults.ts"
import type { Break } from "./fuse.ts"

/** A fault, and its size. */
export interface Planned {
  readonly fault: FaultName
  readonly much: number
}

const STEPS = [
  "charge",
  "subscribe",
  "checkOut",
  "setUp",
  "comeBack",
  "retry",
  "retryTwice",
  "cancel",
  "cancelAtPeriodEnd",
  "pause",
  "resume",
  "otherCard",
  "removeCards",
  "rotateKeys",
  "switchRail",
  "deliver",
  "forge",
  "strangeCallback",
  "settleAtRail",
  "payOnPage",
  "pass",
] as const
export type StepName = (typeof STEPS)[number]

export interface Step {
  readonly name: StepName
  /** True if it waits until no work is in progress. Otherwise the next step races with it. */
  readonly waits: boolean
  /** Two random numbers that the step uses: a choice and an amount. */
  readonly much: number
}

export type CallbackWay = "at once" | "before the answer" | "late" | "twice"

export interface Schedule {
  readonly number: number
  readonly rail: OutsideRail
  readonly amountKobo: number
  readonly steps: ReadonlyArray<Step>
  /** One for each incoming call of its kind, in order. Later calls succeed. */
  readonly charges: ReadonlyArray<Planned>
  readonly opens: ReadonlyArray<Planned>
  readonly payments: ReadonlyArray<Planned>
  readonly asks: ReadonlyArray<Planned>
  readonly refunds: ReadonlyArray<Planned>
  readonly refundAsks: ReadonlyArray<Planned>
  readonly callbacks: ReadonlyArray<CallbackWay>
}

/** The moment at which a process dies. */
export type Kill =
  /** In the middle of its traffic to the database. */
  | { readonly at: "database"; readonly breaks: Break }
  /** When the rail has done the n-th call's work, before its answer is read. */
  | { readonly at: "rail"; readonly call: number }

/** Most calls succeed. */
const planned = (faults: ReadonlyArray<FaultName>, well: number) =>
  fc.record({
    fault: fc.oneof(
      { weight: well, arbitrary: fc.constant("none" as const) },
      { weight: 10, arbitrary: fc.constantFrom(...faults) },
    ),
    much: fc.nat({ max: 999 }),
  })

const step = fc.record({
  name: fc.oneof(
    {
      weight: 4,
      arbitrary: fc.constantFrom("charge" as const, "subscribe" as const, "checkOut" as const, "setUp" as const),
    },
    { weight: 2, arbitrary: fc.constantFrom("payOnPage" as const, "comeBack" as const) },
    { weight: 3, arbitrary: fc.constant("pass" as const) },
    { weight: 6, arbitrary: fc.constantFrom(...STEPS) },
  ),
  waits: fc.boolean(),
  much: fc.nat({ max: 999 }),
})

const schedule = fc.record({
  rail: fc.constantFrom(...OUTSIDE_RAILS),
  amountKobo: fc.integer({ min: 10_000, max: 5_000_000 }),
  begins: fc.constantFrom("charge" as const, "subscribe" as const, "checkOut" as const, "setUp" as const),
  steps: fc.array(step, { minLength: 2, maxLength: 10 }),
  charges: fc.array(planned(CHARGE_FAULTS, 6), { minLength: 12, maxLength: 12 }),
  opens: fc.array(planned(TRANSPORT_FAULTS, 20), { minLength: 4, maxLength: 4 }),
  payments: fc.array(planned(PAYMENT_FAULTS, 6), { minLength: 6, maxLength: 6 }),
  asks: fc.array(planned(TRANSPORT_FAULTS, 12), { minLength: 12, maxLength: 12 }),
  refunds: fc.array(planned(REFUND_FAULTS, 4), { minLength: 12, maxLength: 12 }),
  refundAsks: fc.array(planned(TRANSPORT_FAULTS, 12), { minLength: 6, maxLength: 6 }),
  callbacks: fc.array(
    fc.constantFrom<CallbackWay>("at once", "at once", "before the answer", "late", "late", "twice"),
    { minLength: 12, maxLength: 12 },
  ),
})

const kill = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      at: fc.constant("database" as const),
      breaks: fc.record({
        // Early and late kills are equally frequent: the start is short.
        piece: fc
          .tuple(fc.integer({ min: 6, max: 11 }), fc.nat({ max: 999 }))
          .map(([power, part]) => Math.floor(2 ** power * (1 + part / 1000))),
        share: fc.constantFrom(0, 0, 0.5, 0.9, 1),
      }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ at: fc.constant("rail" as const), call: fc.integer({ min: 1, max: 200 }) }),
  },
)

const drawn = <T>(arbitrary: fc.Arbitrary<T>, seed: number): T => fc.sample(arbitrary, { seed, numRuns: 1 })[0]!

/** Adjacent schedules get unrelated seeds. */
const mixed = (seed: number, number: number): number =>
  (Math.imul(seed ^ 0x9e3779b9, 0x85ebca6b) + Math.imul(number, 0xc2b2ae35)) | 0

export const scheduleOf = (seed: number, number: number): Schedule => {
  const { begins, ...planned } = drawn(schedule, mixed(seed, number))
  const first: Step = { name: begins, waits: planned.amountKobo % 2 === 0, much: 0 }
  return { ...planned, number, steps: [first, ...planned.steps] }
}

/** The kills of the instance that starts with a schedule. */
export const killsOf = (seed: number, number: number, most: number): ReadonlyArray<Kill> =>
  drawn(fc.array(kill, { minLength: most, maxLength: most, size: "max" }), mixed(~seed, number))
