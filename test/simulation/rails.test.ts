/**
 * Runs two hundred schedules of rail faults and process kills: the rails' books and ours agree in the end. `npm run
 * simulate:rails` runs more (docs/tests.md).
 */
import { randomInt } from "node:crypto"
import { Redacted } from "effect"
import { expect, inject, it } from "vitest"
import { simulate } from "./simulate.ts"

const SCHEDULES = 200
const SEED = process.env.SIMULATION_SEED === undefined ? randomInt(2 ** 31) : Number(process.env.SIMULATION_SEED)

it(`the rails' books and ours agree, whatever happens (seed ${SEED})`, async () => {
  const { summary, failures } = await simulate(Redacted.make(inject("postgres")), {
    seed: SEED,
    from: 0,
    to: SCHEDULES,
  })
  expect(failures.map(({ text }) => text).join("\n\n"), `seed ${SEED}`).toBe("")
  expect(summary.schedules).toBe(SCHEDULES)
  // Each case that the simulation is for occurred.
  expect(summary.kills).toBeGreaterThan(0)
  for (const kind of ["amount_differs", "amount_exceeds", "reference_differs", "succeeded_after_failure"])
    expect(summary.exceptions[kind], kind).toBeGreaterThan(0)
})
