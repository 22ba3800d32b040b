/**
 * Models the subscription machine for walks: the moves of a merchant or the clock, over the machine, its timers and a
 * rail like the sandbox's test methods. No database, no HTTP: the walks are then taken over HTTP.
 */
import { type AnyTransitionDefinition, type EventObject, initialTransition } from "xstate"
import { creditedIn } from "../../machines/billing.ts"
import { type Decision, decide, delayOf, paramsOf, stateName } from "../../machines/decide.ts"
import { type DunningPolicy, unpaidDeadline } from "../../machines/dunning.ts"
import type { SubscriptionEvent } from "../../machines/events.ts"
import type { CancellationReason } from "../../machines/periods.ts"
import { isCharging, nextChargeAt, statusOf, waitsForCheckout } from "../../machines/status.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { subscriptionLifecycle } from "../../src/billing/subscription/subscription.ts"
import { checkoutLifecycle } from "../../src/buying/checkout/checkout.ts"

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS
export const START = Date.UTC(2025, 0, 31)

/** The results of attempts with a method, and their delay. */
export const METHODS = {
  good: { id: "pm_test_success", succeeds: true, retryable: true, afterMs: 0 },
  declined: { id: "pm_test_insufficient_funds", succeeds: false, retryable: true, afterMs: 0 },
  dead: { id: "pm_test_expired_card", succeeds: false, retryable: false, afterMs: 0 },
  slow: { id: "pm_test_bank_account", succeeds: true, retryable: true, afterMs: HOUR_MS },
  doubtful: { id: "pm_test_pending_then_failed", succeeds: false, retryable: true, afterMs: HOUR_MS },
} as const
export type Method = keyof typeof METHODS

const policy = (over: Partial<DunningPolicy>): DunningPolicy => ({
  maxAttempts: 2,
  intervalsDays: [1, 2],
  escalation: "pause_service",
  cancelAfterDays: 3,
  ...over,
})

/** Plans and subscriptions of every kind. Together they reach every transition of the machine. */
interface ScenarioSpec {
  readonly cycle: "daily" | "weekly" | "per_delivery"
  readonly trialDays: number
  readonly startsInDays: number
  readonly proRate: boolean
  readonly policy: DunningPolicy
  /** The price of a reported unit. */
  readonly unitKobo?: number
  /** It is created with a checkout session, and starts when that is completed. */
  readonly checkout?: boolean
}

const SPECS = {
  plain: { cycle: "weekly", trialDays: 0, startsInDays: 0, proRate: true, policy: policy({}) },
  metered: {
    cycle: "daily",
    trialDays: 0,
    startsInDays: 0,
    proRate: true,
    policy: policy({ maxAttempts: 0 }),
    unitKobo: 1_000,
  },
  unprorated: {
    cycle: "weekly",
    trialDays: 0,
    startsInDays: 0,
    proRate: false,
    // Its only retry is due at exactly the instant of the unpaid deadline.
    policy: policy({ maxAttempts: 1, cancelAfterDays: 1 }),
  },
  restricting: {
    cycle: "daily",
    trialDays: 0,
    startsInDays: 0,
    proRate: true,
    policy: policy({ maxAttempts: 0, escalation: "restrict_access" }),
  },
  silent: {
    cycle: "daily",
    trialDays: 1,
    startsInDays: 0,
    proRate: true,
    policy: policy({ maxAttempts: 1, escalation: "none", cancelAfterDays: null }),
  },
  trial: { cycle: "weekly", trialDays: 7, startsInDays: 0, proRate: true, policy: policy({}) },
  shortTrial: { cycle: "weekly", trialDays: 2, startsInDays: 0, proRate: true, policy: policy({ maxAttempts: 0 }) },
  later: { cycle: "weekly", trialDays: 0, startsInDays: 3, proRate: true, policy: policy({}) },
  laterTrial: { cycle: "weekly", trialDays: 7, startsInDays: 3, proRate: true, policy: policy({}) },
  laterShortTrial: { cycle: "weekly", trialDays: 1, startsInDays: 3, proRate: true, policy: policy({}) },
  deliveries: { cycle: "per_delivery", trialDays: 0, startsInDays: 0, proRate: true, policy: policy({}) },
  bought: { cycle: "weekly", trialDays: 0, startsInDays: 0, proRate: true, policy: policy({}), checkout: true },
  boughtTrial: { cycle: "weekly", trialDays: 7, startsInDays: 0, proRate: true, policy: policy({}), checkout: true },
  boughtShortTrial: {
    cycle: "weekly",
    trialDays: 2,
    startsInDays: 0,
    proRate: true,
    policy: policy({}),
    checkout: true,
  },
} as const satisfies Readonly<Record<string, ScenarioSpec>>
export type Scenario = keyof typeof SPECS
export const SCENARIOS: Readonly<Record<Scenario, ScenarioSpec>> = SPECS

/** A move of a merchant or buyer, or time that passes: to the next due instant, or to half an hour before. */
export type Move =
  | { readonly type: "create"; readonly scenario: Scenario; readonly method: Method }
  | { readonly type: "clock" }
  | { readonly type: "nap" }
  | { readonly type: "pause"; readonly days: number | null }
  | { readonly type: "resume" }
  | { readonly type: "cancel"; readonly atPeriodEnd: boolean; readonly reason?: CancellationReason }
  | { readonly type: "patch"; readonly cancelAtPeriodEnd: boolean }
  | { readonly type: "method"; readonly method: Method }
  | { readonly type: "retry"; readonly method: Method | null }
  /** The buyer submits the page of the checkout session. */
  | { readonly type: "submit"; readonly method: Method }
  /** The merchant expires the session. */
  | { readonly type: "expire" }
  | { readonly type: "units" }
  | { readonly type: "deliver" }

interface Timer {
  readonly name: string
  readonly dueAt: number
  readonly event: string
}

export interface World {
  /** The fields that xstate/graph needs of a snapshot. */
  readonly status: "active"
  readonly output: undefined
  readonly error: undefined
  readonly scenario: Scenario
  readonly now: number
  readonly snapshot: Decision<typeof subscriptionMachine>["snapshot"]
  readonly timers: ReadonlyMap<string, Timer>
  /** The attempt that the rail has not decided: its method, and the instant of the decision. */
  readonly rail: { readonly method: Method; readonly dueAt: number } | null
  readonly method: Method
  readonly moves: number
  /** The machine's transitions that the last move took, by {@link transitionKey}. */
  readonly taken: ReadonlyArray<string>
}

/** A transition as one key: the state, the event, and the index among several. */
const transitionKey = (transition: AnyTransitionDefinition, index: number): string =>
  `${transition.source.id.replace(/^subscription\.?/, "") || "(anywhere)"} on ${transition.eventType.replace(/^xstate\.after\.(\w+)\..*/, "after $1") || "entering"} #${index}`

const keysOf = (node: typeof subscriptionMachine.root): ReadonlyArray<string> => [
  ...[...node.transitions.values()].flatMap((list) => list.map(transitionKey)),
  ...(node.always ?? []).map(transitionKey),
  ...Object.values(node.states).flatMap(keysOf),
]

/** Every transition of the machine. */
export const TRANSITIONS: ReadonlyArray<string> = keysOf(subscriptionMachine.root)

/** The guards of the choice after a failure, in order. The last choice has none. */
const CHOICES = subscriptionMachine.root.states.overdue!.states.deciding!.always!.map(({ guard }) => guard as string)

/** The machine, recording the unconditional choices that it takes. */
const observed = (note: (key: string) => void) => {
  const guards = subscriptionMachine.implementations.guards as Record<
    string,
    (...args: ReadonlyArray<unknown>) => boolean
  >
  const always = subscriptionMachine.root.states.overdue!.states.deciding!.always!
  const noting = CHOICES.slice(0, -1).map((name, index) => [
    name,
    (...args: ReadonlyArray<unknown>) => {
      const yes = guards[name]!(...args)
      if (yes) note(transitionKey(always[index]!, index))
      return yes
    },
  ])
  return subscriptionMachine.provide({ guards: Object.fromEntries(noting) })
}

let noted: Array<string> = []
const machine = observed((key) => noted.push(key))

const PENDING_RANK = 0
/** The timer of the subscription's checkout session, which ends with it. */
const EXPIRY = { name: "expiry", event: "checkout_expired" }
const RANKS: Readonly<Record<string, number>> = { ...subscriptionLifecycle.ranks, ...checkoutLifecycle.ranks }
const rankOf = (name: string): number => RANKS[name]!

/** Sends one event to the machine, with everything that follows immediately. */
const send = (world: World, event: SubscriptionEvent): World => {
  const plain = world.snapshot as never
  const selected = machine.getTransitionData(plain, event as never)
  const taken = selected.map((transition) => {
    const list = transition.source.transitions.get(transition.eventType)!
    return transitionKey(transition, list.indexOf(transition))
  })
  noted = []
  const decision = decide(machine, plain, event) as Decision<typeof subscriptionMachine>
  const enteredChoice = decision.snapshot.matches("overdue") && event.type === "charge.failed"
  const always = subscriptionMachine.root.states.overdue!.states.deciding!.always!
  const chosen = !enteredChoice
    ? []
    : noted.length > 0
      ? [noted[0]!]
      : [transitionKey(always.at(-1)!, always.length - 1)]
  const timers = new Map(world.timers)
  const fired = delayOf(event.type)
  for (const name of [...decision.cancel, ...(fired === undefined ? [] : [fired])]) timers.delete(name)
  for (const timer of decision.set) timers.set(timer.name, timer)
  if (event.type === "create" && event.checkout === true)
    timers.set(EXPIRY.name, { ...EXPIRY, dueAt: event.at + DAY_MS })
  if (!waitsForCheckout(stateName(decision.snapshot))) timers.delete(EXPIRY.name)
  const next: World = {
    ...world,
    snapshot: decision.snapshot,
    timers,
    taken: [...world.taken, ...taken, ...chosen],
  }
  const adopted = paramsOf(decision, "adoptMethod")?.methodId
  const paying = adopted == null ? next : { ...next, method: adopted as Method }
  const attempt = paramsOf(decision, "attemptCharge")
  if (attempt === undefined) return paying
  const method = (attempt.methodId as Method | null) ?? paying.method
  const { afterMs } = METHODS[method]
  const opened: World = { ...paying, rail: { method, dueAt: paying.now + afterMs } }
  if (afterMs === 0) return answer(opened)
  return stateName(opened.snapshot) === "opening" ? send(opened, { type: "charge.unsettled", at: opened.now }) : opened
}

/** The rail's result of the attempt in progress. */
const answer = (world: World): World => {
  const { succeeds, retryable } = METHODS[world.rail!.method]
  const settled = { ...world, rail: null }
  return succeeds
    ? send(settled, { type: "charge.succeeded", at: world.now })
    : send(settled, {
        type: "charge.failed",
        at: world.now,
        retryable,
        policy: SCENARIOS[world.scenario].policy,
        unitKobo: unitKoboOf(world),
      })
}

const unitKoboOf = ({ scenario }: World): number => SCENARIOS[scenario].unitKobo ?? 0

/** The next timers due, those of one instant in the order of decision E19. */
const nextDue = (world: World): { readonly dueAt: number; readonly timer: Timer | null } | undefined =>
  [
    ...[...world.timers.values()].map((timer) => ({ dueAt: timer.dueAt, rank: rankOf(timer.name), timer })),
    ...(world.rail === null ? [] : [{ dueAt: world.rail.dueAt, rank: PENDING_RANK, timer: null }]),
  ].sort((a, b) => a.dueAt - b.dueAt || a.rank - b.rank)[0]

/** Moves the clock to `at`, and fires everything due until then. */
const advanceTo = (world: World, at: number): World => {
  for (let current = world; ; ) {
    const due = nextDue(current)
    if (due === undefined || due.dueAt > at) return { ...current, now: at }
    current = { ...current, now: Math.max(current.now, due.dueAt) }
    if (due.timer === null) current = answer(current)
    else {
      const { event } = due.timer
      const facts = { unitKobo: unitKoboOf(world), proRate: SCENARIOS[world.scenario].proRate }
      current = send(current, { type: event, at: due.dueAt, ...facts } as SubscriptionEvent)
    }
  }
}

const NAP_MS = HOUR_MS / 2

const cache = new WeakMap<World, Map<string, World>>()

/** Cached: the search for paths, the choice among them and the walk take the same steps. */
export const step = (world: World, move: Move): World => {
  const steps = cache.get(world) ?? new Map<string, World>()
  const key = JSON.stringify(move)
  const next = steps.get(key) ?? take(world, move)
  cache.set(world, steps.set(key, next))
  return next
}

const take = (world: World, move: Move): World => {
  const at = world.now
  const unitKobo = unitKoboOf(world)
  const before: World = { ...world, moves: world.moves + 1, taken: [] }
  switch (move.type) {
    case "create": {
      const scenario = SCENARIOS[move.scenario]
      const input = {
        type: "create" as const,
        at,
        billingCycle: scenario.cycle,
        priceKobo: 100_000,
        quantity: 1,
        trialDays: scenario.trialDays,
        startAt: at + scenario.startsInDays * DAY_MS,
        ...(scenario.checkout === true ? { checkout: true } : {}),
      }
      const [created] = initialTransition(machine, input)
      const snapshot = created as World["snapshot"]
      return send({ ...before, scenario: move.scenario, method: move.method, snapshot }, input)
    }
    case "clock":
      return advanceTo(before, nextDue(world)!.dueAt)
    case "nap":
      return advanceTo(before, nextDue(world)!.dueAt - NAP_MS)
    case "pause":
      return send(before, {
        type: "pause",
        at,
        resumesAt: move.days === null ? null : at + move.days * DAY_MS,
        reason: null,
      })
    case "resume":
      return send(before, { type: "resume", at, unitKobo, proRate: SCENARIOS[world.scenario].proRate })
    case "cancel": {
      const reason = move.reason ?? world.snapshot.context.cancelReason ?? "merchant_request"
      return send(before, { type: "cancel", at, atPeriodEnd: move.atPeriodEnd, reason, unitKobo })
    }
    case "patch":
      return send(before, { type: "update", at, cancelAtPeriodEnd: move.cancelAtPeriodEnd, unitKobo })
    case "method": {
      const updated = { ...send(before, { type: "update", at }), method: move.method }
      const { bill } = updated.snapshot.context
      const overdue = bill !== null && statusOf(stateName(updated.snapshot), updated.snapshot.context) !== "incomplete"
      return overdue ? send(updated, { type: "method", at, methodId: null }) : updated
    }
    case "retry":
      return send(before, { type: "retry", at, methodId: move.method })
    case "submit":
      return send(before, { type: "check_out", at, methodId: move.method })
    case "expire":
      return send(before, { type: "checkout_expired", at })
    case "units":
      return send(before, { type: "units", at, quantity: 1, action: "increment" })
    case "deliver":
      return send(before, { type: "deliver", at, deliveries: 1, deliveredAt: at })
  }
}

/** The moves that the API accepts in this state. */
export const movesFrom = (world: World): ReadonlyArray<Move> => {
  if (world.moves === 0) {
    return (Object.keys(SCENARIOS) as ReadonlyArray<Scenario>).flatMap((scenario) =>
      (Object.keys(METHODS) as ReadonlyArray<Method>)
        // A session is completed with the method at its submission.
        .filter((method) => method === "good" || SCENARIOS[scenario].checkout !== true)
        .map((method) => ({ type: "create", scenario, method }) as const),
    )
  }
  const { context } = world.snapshot
  const state = stateName(world.snapshot)
  const status = statusOf(state, context)
  const due = nextDue(world)
  const moves: Array<Move> = []
  if (due !== undefined) {
    moves.push({ type: "clock" })
    if (due.dueAt - NAP_MS > world.now) moves.push({ type: "nap" })
  }
  if (status === "cancelled") return moves
  moves.push({ type: "cancel", atPeriodEnd: true }, { type: "cancel", atPeriodEnd: false })
  if (context.cancelAtPeriodEnd && context.cancelReason !== "other")
    moves.push({ type: "cancel", atPeriodEnd: true, reason: "other" })
  // An ended one accepts no moves.
  if (state !== "ending") moves.push({ type: "patch", cancelAtPeriodEnd: !context.cancelAtPeriodEnd })
  if (waitsForCheckout(state)) {
    if (!isCharging(state))
      for (const method of ["good", "declined", "slow", "doubtful"] as const) moves.push({ type: "submit", method })
    return [...moves, { type: "expire" }]
  }
  for (const method of ["good", "dead", "doubtful"] as const)
    if (method !== world.method) moves.push({ type: "method", method })
  const counting =
    ["trialing", "active", "past_due"].includes(status) &&
    state !== "ending" &&
    SCENARIOS[world.scenario].cycle !== "per_delivery"
  if (counting && context.units === 0) moves.push({ type: "units" })
  if (state === "active.current" && SCENARIOS[world.scenario].cycle === "per_delivery") moves.push({ type: "deliver" })
  if (isCharging(state)) return moves
  if (status === "active") moves.push({ type: "pause", days: null }, { type: "pause", days: 2 })
  if (status === "paused") moves.push({ type: "resume" })
  if (context.dunning !== null) moves.push({ type: "retry", method: null }, { type: "retry", method: "good" })
  return moves
}

const [blank] = initialTransition(subscriptionMachine, {
  at: START,
  billingCycle: "weekly",
  priceKobo: 100_000,
  quantity: 1,
  trialDays: 0,
  startAt: START,
})

const BEGINNING: World = {
  status: "active",
  output: undefined,
  error: undefined,
  scenario: "plain",
  now: START,
  snapshot: blank as World["snapshot"],
  timers: new Map(),
  rail: null,
  method: "good",
  moves: 0,
  taken: [],
}

/** The model as logic that `xstate/graph` can explore. */
export const model = {
  transition: (world: World, move: EventObject): World => step(world, move as Move),
  getInitialSnapshot: (): World => BEGINNING,
  getPersistedSnapshot: (world: World): World => world,
}

/** The key of a situation: without instants, but with the next due timer and what is past. */
export const situation = (world: World): string => {
  const { context } = world.snapshot
  const due = nextDue(world)
  return [
    world.moves === 0,
    world.scenario,
    stateName(world.snapshot),
    world.method,
    world.rail?.method,
    due?.timer?.name,
    due !== undefined && due.dueAt - world.now <= NAP_MS,
    context.cancelAtPeriodEnd,
    context.cancelReason,
    context.bill === null ? 0 : creditedIn(context.bill.lines),
    context.bill?.origin,
    context.bill?.nextMethod != null,
    context.dunning?.gaveUp,
    context.dunning?.nextRetryAt != null,
    context.escalation?.action,
    context.pause?.resumesAt != null,
    context.units > 0,
    context.periodNo > 0,
    context.periodEnd <= world.now,
    (context.bill?.periodEnd ?? Number.POSITIVE_INFINITY) <= world.now,
    context.dunning !== null && unpaidDeadline(context.dunning) <= world.now,
  ].join(" ")
}

/** The state that the API must show. */
export const expected = ({ snapshot }: World) => {
  const { context } = snapshot
  const state = stateName(snapshot)
  const instant = (at: number | null) => (at === null ? null : new Date(at).toISOString())
  return {
    status: statusOf(state, context),
    current_period_start: instant(context.periodStart),
    current_period_end: instant(context.periodEnd),
    next_charge_at: instant(nextChargeAt(state, context)),
    cancel_at_period_end: context.cancelAtPeriodEnd,
    cancellation_reason: context.cancellationReason,
    resumes_at: instant(context.pause?.resumesAt ?? null),
    retry: context.dunning === null ? null : { attempt: context.dunning.retriesMade },
    escalation: context.escalation === null ? null : { action: context.escalation.action },
  }
}
