/** Decisions over many actors at once: rows and events in, transitions out. Pure; commit.ts writes them. */
import type { AnyStateMachine } from "xstate"
import { type Decision, decide, restore, stateName, type TimedEvent } from "../../machines/decide.ts"
import type { Ref } from "../db/tenant.ts"

export type ActorKind = "subscription" | "charge" | "test_clock" | "invoice" | "webhook_endpoint" | "nudge"

/** What the runtime needs to know of an actor's row. */
export interface ActorRow extends Ref {
  readonly state: string
  /** Number of the newest transition. */
  readonly version: number
  readonly test_clock_id: string | null
}

/** How a noun hands its machine to the runtime. */
export interface Lifecycle<M extends AnyStateMachine, Row extends ActorRow> {
  readonly kind: ActorKind
  readonly machine: M
  /** Counts up with every change of the machine that could make an old journal replay differently. */
  readonly machineVersion: number
  /** Order of the machine's timers at one instant (decision E19); lower first. */
  readonly ranks: Readonly<Record<string, number>>
  /** The machine's context as the row has it. */
  readonly contextOf: (row: Row) => object
}

export interface Transition<M extends AnyStateMachine, Row extends ActorRow> {
  readonly row: Row
  readonly event: TimedEvent
  readonly decision: Decision<M>
  readonly to: string
  readonly version: number
}

export interface Command<Row extends ActorRow> {
  readonly row: Row
  readonly event: TimedEvent
}

/** What each event does to its actor; actors that ignore theirs are left out. The rows must be locked. */
export const advance = <M extends AnyStateMachine, Row extends ActorRow>(
  lifecycle: Lifecycle<M, Row>,
  commands: ReadonlyArray<Command<Row>>,
): ReadonlyArray<Transition<M, Row>> =>
  commands.flatMap(({ row, event }) => {
    const decision = decide(lifecycle.machine, restore(lifecycle.machine, row.state, lifecycle.contextOf(row)), event)
    return decision.changed
      ? [{ row, event, decision, to: stateName(decision.snapshot), version: row.version + 1 }]
      : []
  })
