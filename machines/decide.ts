/**
 * A decision is a pure step: a snapshot and an event give the next snapshot, the timers to set and to cancel, and the effects to
 * carry out, all as data. `src/runtime` carries it out in one transaction.
 *
 * A decision has the type of its machine: code that acts on it must use the machine's names of events, effects and parameters, or it
 * does not compile.
 */
import {
  type AnyMachineSnapshot,
  type AnyStateMachine,
  createActor,
  type EventFrom,
  type ExecutableActionObject,
  type InputFrom,
  type SnapshotFrom,
  type StateMachine,
  type StateValue,
} from "xstate"

/** Every event has the time when it happens, by the actor's clock (ms since the epoch). */
export interface TimedEvent {
  readonly type: string
  readonly at: number
}

/** The event of a timer: XState's name for the end of the delay `Delay` of a state, and when the timer was due. */
export interface DelayEvent<Delay extends string, State extends string> {
  readonly type: `xstate.after.${Delay}.${State}`
  readonly at: number
}

const AFTER = /^xstate\.after\.([^.]+)\./

/** The name of the delay that an event ends; undefined for other events. Only this function knows XState's naming. */
export const delayOf = (event: string): string | undefined => AFTER.exec(event)?.[1]

/** What causes a transition, in words: `after periodEnd` for a delay, else the type of the event. */
export const triggerOf = (event: string): string => {
  const delay = delayOf(event)
  return delay === undefined ? event : `after ${delay}`
}

/** The named actions and delays in a machine's type. */
type Named<M extends AnyStateMachine> =
  M extends StateMachine<
    infer _Context,
    infer _Event,
    infer _Children,
    infer _Actor,
    infer Action,
    infer _Guard,
    infer Delay,
    infer _Value,
    infer _Tag,
    infer _Input,
    infer _Output,
    infer _Emitted,
    infer _Meta,
    infer _Schema,
    infer _TransitionMeta
  >
    ? { readonly action: Action; readonly delay: Delay }
    : never

/** The names of a machine's delays. */
export type DelayOf<M extends AnyStateMachine> = Named<M>["delay"]

type Parameterized<A> = A extends { readonly type: infer T extends string; readonly params?: infer P }
  ? { readonly type: T; readonly params: P }
  : never

/** The named actions of a machine with their parameters: those without an implementation are its effects. */
export type EffectOf<M extends AnyStateMachine> = Parameterized<Named<M>["action"]>

/** The parameters of the effect `Name`. */
export type ParamsOf<M extends AnyStateMachine, Name extends EffectOf<M>["type"]> = Extract<
  EffectOf<M>,
  { readonly type: Name }
>["params"]

/** The event that begins the life of an actor; it carries the machine's input. */
export type CreateEvent<M extends AnyStateMachine> = Extract<EventFrom<M>, { readonly type: "create" }>

export interface TimerToSet {
  /** The delay's name in the machine: an actor has at most one timer of a name. */
  readonly name: string
  readonly dueAt: number
  /** The event that firing it sends to the machine. */
  readonly event: string
}

export interface Decision<M extends AnyStateMachine> {
  readonly snapshot: SnapshotFrom<M>
  /** False if the machine ignored the event: nothing has to be written. */
  readonly changed: boolean
  readonly effects: ReadonlyArray<EffectOf<M>>
  readonly set: ReadonlyArray<TimerToSet>
  readonly cancel: ReadonlyArray<string>
}

/** The parameters of every effect of this name, in order. */
export const allParamsOf = <M extends AnyStateMachine, const Name extends EffectOf<M>["type"]>(
  { effects }: Decision<M>,
  name: Name,
): ReadonlyArray<ParamsOf<M, Name>> =>
  effects.flatMap((effect) => (effect.type === name ? [effect.params as ParamsOf<M, Name>] : []))

/** The parameters of the first effect of this name; undefined if there is none. */
export const paramsOf = <M extends AnyStateMachine, const Name extends EffectOf<M>["type"]>(
  { effects }: Decision<M>,
  name: Name,
): ParamsOf<M, Name> | undefined => effects.find(({ type }) => type === name)?.params as ParamsOf<M, Name> | undefined

/** Whether the decision has an effect of this name. */
export const hasEffect = <M extends AnyStateMachine>({ effects }: Decision<M>, name: EffectOf<M>["type"]): boolean =>
  effects.some(({ type }) => type === name)

const delayName = (event: string): string => {
  const name = delayOf(event)
  if (name === undefined) throw new Error(`Not a named delay: ${event}`)
  return name
}

const toDecision = <M extends AnyStateMachine>(
  snapshot: SnapshotFrom<M>,
  changed: boolean,
  actions: ReadonlyArray<ExecutableActionObject>,
  at: number,
): Decision<M> => {
  const set = new Map<string, TimerToSet>()
  const cancel = new Set<string>()
  const effects: Array<EffectOf<M>> = []
  for (const action of actions) {
    const params = (action.params ?? {}) as Record<string, unknown>
    if (action.type === "xstate.raise") {
      const { event, delay } = params as { event: { type: string }; delay: number | undefined }
      // An infinite delay is a timer that never fires.
      if (delay === undefined || !Number.isFinite(delay)) continue
      const name = delayName(event.type)
      cancel.delete(name)
      set.set(name, { name, dueAt: at + Math.max(0, delay), event: event.type })
    } else if (action.type === "xstate.cancel") {
      const name = delayName(params.sendId as string)
      set.delete(name)
      cancel.add(name)
      // XState's actions are untyped, but they belong to this machine.
    } else if (!action.type.startsWith("xstate.")) effects.push({ type: action.type, params } as EffectOf<M>)
  }
  return { snapshot, changed, effects, set: [...set.values()], cancel: [...cancel] }
}

/** The third parameter of a machine's transition. */
type Scope = Parameters<AnyStateMachine["transition"]>[2]

/**
 * XState's `transition` and `initialTransition` create an actor for each call, with the machine's first context. This takes most of their
 * time (66 µs against 8 µs, more if a context cannot be made without input). So all actors of a machine share one actor scope, which never
 * runs.
 */
const scopes = new WeakMap<AnyStateMachine, Scope>()

const scopeOf = (machine: AnyStateMachine): Scope => {
  let scope = scopes.get(machine)
  if (scope === undefined) {
    const self = createActor(machine)
    const inert = () => {}
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
    }
    scopes.set(machine, scope)
  }
  return scope
}

/** Applies `event` to an actor in `snapshot`. */
export const decide = <M extends AnyStateMachine>(
  machine: M,
  snapshot: SnapshotFrom<M>,
  event: EventFrom<M>,
): Decision<M> => {
  const actions: Array<ExecutableActionObject> = []
  const scope = { ...scopeOf(machine), actionExecutor: (action: ExecutableActionObject) => void actions.push(action) }
  // The methods of a general machine do not know the snapshot and event types of M.
  const next = (machine as AnyStateMachine).transition(snapshot, event, scope)
  return toDecision<M>(
    next as SnapshotFrom<M>,
    next !== snapshot || actions.length > 0,
    actions,
    (event as TimedEvent).at,
  )
}

/** Returns the snapshot of a new actor before its first event. */
export const create = <M extends AnyStateMachine>(machine: M, input: InputFrom<M>): SnapshotFrom<M> =>
  (machine as AnyStateMachine).getInitialSnapshot(scopeOf(machine), input) as SnapshotFrom<M>

/** Returns the first decision of a new actor: the machine gets its input, then the event that starts it. */
export const begin = <M extends AnyStateMachine>(machine: M, event: CreateEvent<M>): Decision<M> =>
  decide(machine, create(machine, event as InputFrom<M>), event as EventFrom<M>)

/** Returns a state value as one word, such as `overdue.retrying`: the form in rows and the journal. */
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

/** Cached snapshots by state name: they differ only in their context. */
const restored = new WeakMap<AnyStateMachine, Map<string, AnyMachineSnapshot>>()

/** Returns the snapshot of an actor whose row is in `state` with `context`. */
export const restore = <M extends AnyStateMachine>(machine: M, state: string, context: object): SnapshotFrom<M> => {
  const byState = restored.get(machine) ?? new Map<string, AnyMachineSnapshot>()
  restored.set(machine, byState)
  let snapshot = byState.get(state)
  if (snapshot === undefined) {
    const names = state.split(".")
    const value = names.slice(0, -1).reduceRight<unknown>((inner, name) => ({ [name]: inner }), names.at(-1))
    snapshot = (machine as AnyStateMachine).resolveState({ value: value as StateValue, context })
    byState.set(state, snapshot)
  }
  return { ...snapshot, context } as SnapshotFrom<M>
}
