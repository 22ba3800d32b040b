/**
 * One decision: a snapshot and an event give the next snapshot, the timers to set and to cancel, and the effects to
 * carry out, all as data. Nothing happens here; `src/lifecycle` makes it happen in one transaction.
 */
import {
  type ActorScope,
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createActor,
  type ExecutableActionObject,
  initialTransition,
  type SnapshotFrom,
} from "xstate"

/** Every event says when it happens, in the actor's own clock (ms since the epoch). */
export interface TimedEvent {
  readonly type: string
  readonly at: number
}

export interface Effect {
  readonly type: string
  readonly params: Readonly<Record<string, unknown>>
}

export interface TimerToSet {
  /** The delay's name in the machine: an actor has at most one timer of a name. */
  readonly name: string
  readonly dueAt: number
  /** The event that firing it sends to the machine. */
  readonly event: string
}

export interface Decision<M extends AnyStateMachine> {
  readonly snapshot: SnapshotFrom<M>
  /** False where the machine ignored the event: nothing is to be written. */
  readonly changed: boolean
  readonly effects: ReadonlyArray<Effect>
  readonly set: ReadonlyArray<TimerToSet>
  readonly cancel: ReadonlyArray<string>
}

/** `xstate.after.<delay>.<state id>`, the only kind of delayed event our machines have. */
const AFTER = /^xstate\.after\.([^.]+)\./

const delayName = (event: string): string => {
  const name = AFTER.exec(event)?.[1]
  if (name === undefined) throw new Error(`Not a named delay: ${event}`)
  return name
}

const sort = <M extends AnyStateMachine>(
  snapshot: SnapshotFrom<M>,
  changed: boolean,
  actions: ReadonlyArray<ExecutableActionObject>,
  at: number,
): Decision<M> => {
  const set = new Map<string, TimerToSet>()
  const cancel = new Set<string>()
  const effects: Array<Effect> = []
  for (const action of actions) {
    const params = (action.params ?? {}) as Record<string, unknown>
    if (action.type === "xstate.raise") {
      const { event, delay } = params as { event: { type: string }; delay: number | undefined }
      // An endless delay is a timer that never fires.
      if (delay === undefined || !Number.isFinite(delay)) continue
      const name = delayName(event.type)
      cancel.delete(name)
      set.set(name, { name, dueAt: at + Math.max(0, delay), event: event.type })
    } else if (action.type === "xstate.cancel") {
      const name = delayName(params.sendId as string)
      set.delete(name)
      cancel.add(name)
    } else if (!action.type.startsWith("xstate.")) effects.push({ type: action.type, params })
  }
  return { snapshot, changed, effects, set: [...set.values()], cancel: [...cancel] }
}

/**
 * XState's `transition`, without the actor that it makes for each call: a machine's transitions share one that never
 * runs. (Making it evaluates the machine's first context, which took most of a decision's time.)
 */
const scopes = new WeakMap<AnyStateMachine, ActorScope<never, never>>()

const scopeOf = (machine: AnyStateMachine): ActorScope<never, never> => {
  let scope = scopes.get(machine)
  if (scope === undefined) {
    const self = createActor(machine)
    const inert = () => {}
    // Typed for one machine's events; what is inert takes any.
    scope = {
      self,
      id: "",
      sessionId: "",
      system: self.system,
      logger: inert,
      defer: inert,
      stopChild: inert,
      emit: inert,
      actionExecutor: inert,
    } as unknown as ActorScope<never, never>
    scopes.set(machine, scope)
  }
  return scope
}

/** What `event` does to an actor in `snapshot`. */
export const decide = <M extends AnyStateMachine>(
  machine: M,
  snapshot: SnapshotFrom<M>,
  event: TimedEvent,
): Decision<M> => {
  const actions: Array<ExecutableActionObject> = []
  const scope = { ...scopeOf(machine), actionExecutor: (action: ExecutableActionObject) => void actions.push(action) }
  const next = machine.transition(snapshot as never, event as never, scope as never)
  return sort<M>(next as SnapshotFrom<M>, next !== snapshot || actions.length > 0, actions, event.at)
}

/** The first decision of a new actor: it is given its `input` and told to begin. */
export const begin = <M extends AnyStateMachine>(machine: M, input: { readonly at: number }): Decision<M> => {
  const [created] = initialTransition(machine, input as never)
  return decide(machine, created as SnapshotFrom<M>, { type: "create", at: input.at })
}

/** A state value as one word, such as `overdue.retrying`: what rows and the journal keep. */
export const stateName = (snapshot: AnyMachineSnapshot): string => {
  const parts: Array<string> = []
  let value: unknown = snapshot.value
  while (typeof value === "object" && value !== null) {
    const [name, inner] = Object.entries(value)[0]!
    parts.push(name)
    value = inner
  }
  return [...parts, value as string].join(".")
}

/** Snapshots by state name: they differ in their context only. */
const restored = new WeakMap<AnyStateMachine, Map<string, AnyMachineSnapshot>>()

/** The snapshot of an actor whose row says it is in `state` with `context`. */
export const restore = <M extends AnyStateMachine>(machine: M, state: string, context: object): SnapshotFrom<M> => {
  const byState = restored.get(machine) ?? new Map<string, AnyMachineSnapshot>()
  restored.set(machine, byState)
  let snapshot = byState.get(state)
  if (snapshot === undefined) {
    const names = state.split(".")
    const value = names.slice(0, -1).reduceRight<unknown>((inner, name) => ({ [name]: inner }), names.at(-1))
    snapshot = machine.resolveState({ value, context } as never) as AnyMachineSnapshot
    byState.set(state, snapshot)
  }
  return { ...snapshot, context } as SnapshotFrom<M>
}
