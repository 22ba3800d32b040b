/** Connects a noun's machine to the runtime, and decides for many actors together: rows and events in, transitions out. Pure. */
import type { AnyMachineSnapshot, AnyStateMachine, ContextFrom, EventFrom } from "xstate"
import {
  begin,
  type CreateEvent,
  type Decision,
  type DelayOf,
  decide,
  restore,
  stateName,
  type TimedEvent,
} from "../../machines/decide.ts"
import type { ActorTable } from "../db/table.ts"
import type { Ref } from "../db/tenant.ts"

/** Every kind of actor that is journalled; its table has the same name. */
export const ACTOR_KINDS = [
  "subscription",
  "charge",
  "test_clock",
  "invoice",
  "webhook_endpoint",
  "nudge",
  "checkout_session",
  "refund",
  "instalment_plan",
] as const
export type ActorKind = (typeof ACTOR_KINDS)[number]

/** The columns of an actor's row that the runtime uses. */
export interface ActorRow extends Ref {
  /** The machine's state as one word. */
  readonly state: string
  /** Number of the newest transition. */
  readonly version: number
  /** The test clock that gives its time; null or absent: the wall clock. */
  readonly test_clock_id?: string | null
  /** The customer that it belongs to, for actors that can be on clocks. */
  readonly customer_id?: string | null
}

/** The machine, table and timers of a noun. `Own` are timers of the noun besides the machine's delays. */
export interface Lifecycle<M extends AnyStateMachine, Row extends ActorRow, Own extends string = never> {
  readonly kind: ActorKind
  readonly machine: M
  /** Counts up with every change of the machine that could make an old journal replay differently. */
  readonly machineVersion: number
  /** Order of timers that are due at the same instant (decision E19); lower first. */
  readonly ranks: Readonly<Record<DelayOf<M> | Own, number>>
  readonly table: ActorTable<Row, ContextFrom<M>>
}

export interface Command<M extends AnyStateMachine, Row> {
  readonly row: Row
  readonly event: EventFrom<M> & TimedEvent
}

export interface Transition<M extends AnyStateMachine, Row> {
  /** The actor before the transition; for a new actor, the inserted row. */
  readonly row: Row
  readonly event: EventFrom<M> & TimedEvent
  readonly decision: Decision<M>
  readonly from: string
  readonly to: string
  readonly version: number
}

/** Applies each event to its actor; actors that ignore their event are left out. The rows must be locked. */
export const advance = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { machine, table }: Lifecycle<M, Row, Own>,
  commands: ReadonlyArray<Command<M, Row>>,
): ReadonlyArray<Transition<M, Row>> =>
  commands.flatMap(({ row, event }) => {
    const decision = decide(machine, restore(machine, row.state, table.contextOf(row)), event)
    return decision.changed
      ? [{ row, event, decision, from: row.state, to: stateName(decision.snapshot), version: row.version + 1 }]
      : []
  })

/** Returns the actor's row after a transition, without the changes of its effects. `before` is the row with other changes already made. */
export const rowAfter = <M extends AnyStateMachine, Row extends ActorRow, Own extends string>(
  { table }: Lifecycle<M, Row, Own>,
  { row, to, version, decision }: Transition<M, Row>,
  before: Row = row,
): Row => {
  const { context }: AnyMachineSnapshot = decision.snapshot
  return Object.assign(table.withSnapshot(before, to, context), { version })
}

/** The first transition of a new actor; its row is made from this. */
export interface FirstTransition<M extends AnyStateMachine> extends Omit<Transition<M, never>, "row"> {}

/** Starts a new actor with its machine's input. */
export const start = <M extends AnyStateMachine>(
  machine: M,
  event: CreateEvent<M> & TimedEvent,
): FirstTransition<M> => {
  const decision = begin(machine, event)
  return {
    event: event as EventFrom<M> & TimedEvent,
    decision,
    from: String(machine.config.initial),
    to: stateName(decision.snapshot),
    version: 1,
  }
}
