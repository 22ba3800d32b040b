/** Moves locked instalment plans by events: reads the facts that their outcomes need, and decides. */
import { Effect } from "effect"
import type { instalmentMachine } from "../../../machines/instalment.ts"
import type { NowOf } from "../../base/time.ts"
import { VatRate } from "../../ledger/VatRate.ts"
import { readAddressees } from "../../outbound/nudge/create.ts"
import { Nudging } from "../../outbound/nudge/Nudging.ts"
import { advance, type Command } from "../../runtime/lifecycle.ts"
import { type Notes, outcomeOf, reminds, type Settled } from "./outcome.ts"
import { type InstalmentPlanRow, instalmentLifecycle } from "./plan.ts"

export type InstalmentCommand = Command<typeof instalmentMachine, InstalmentPlanRow>

/** The services that moving a plan needs besides the database. */
export type MoveServices = Nudging | VatRate

interface Options {
  /** The time of a plan's clock. */
  readonly nowOf: NowOf
  readonly settled?: ReadonlyMap<string, Settled>
  readonly notes?: ReadonlyMap<string, Notes>
}

/** Returns the outcomes of commands. A plan that ignores its command has none. */
export const transitionAll = Effect.fnUntraced(function* (
  commands: ReadonlyArray<InstalmentCommand>,
  options: Options,
) {
  const transitions = advance(instalmentLifecycle, commands)
  const { token, quietOf } = yield* Nudging
  const facts = {
    nowOf: options.nowOf,
    settled: options.settled ?? new Map(),
    notes: options.notes ?? new Map(),
    vatBps: yield* VatRate,
    addressees: yield* readAddressees(
      transitions.filter(reminds).map(({ row }) => ({ ...row, customerId: row.customer_id, planId: null })),
    ),
    quietOf,
    token,
  }
  return transitions.map((transition) => outcomeOf(transition, facts))
})
