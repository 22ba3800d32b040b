/** The pages of machines (decision R11). */
import { Effect } from "effect"
import { problem } from "../base/problem.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { isSectionShown } from "../pages/dashboard/frame.ts"
import {
  type Counts,
  type MachineView,
  machineMain,
  machinePart,
  machinesMain,
  type ShownState,
  SPANS,
  type Span,
} from "../pages/dashboard/machines.ts"
import { pictureOf, type State } from "../pages/pictures/draw.ts"
import { ACTOR_KINDS } from "../runtime/lifecycle.ts"
import { readCountedAt, readStates, readSteps } from "./counts.ts"
import { livePart } from "./LiveParts.ts"
import { memberPage, show, type Viewer } from "./pages.ts"

interface Machine {
  readonly name: string
  readonly meaning: string
  /** What the amounts are; null: there are none. */
  readonly amount: string | null
  /** The list of its objects. `statusOf`: the value of the filter for a state; null: the list cannot show it alone. */
  readonly list: { readonly path: string; readonly statusOf: ((state: string) => string | null) | null } | null
}

const first = (state: string): string => state.split(".")[0]!

const oneOf =
  (statuses: ReadonlyArray<string>, others: Readonly<Record<string, string>> = {}) =>
  (state: string): string | null => {
    const status = others[first(state)] ?? first(state)
    return statuses.includes(status) ? status : null
  }

const BEFORE_PAYMENT = {
  checkout: "incomplete",
  scheduled: "incomplete",
  opening: "incomplete",
  starting: "incomplete",
}

const MACHINES: Readonly<Record<string, Machine>> = {
  subscription: {
    name: "Subscription",
    meaning:
      "A customer pays for a plan, period after period: trial, renewals, pauses, retries of failed payments, the end.",
    amount: "Price of a period",
    list: {
      path: "/subscriptions",
      statusOf: oneOf(["incomplete", "trialing", "active", "past_due", "paused", "cancelled"], {
        ...BEFORE_PAYMENT,
        overdue: "past_due",
      }),
    },
  },
  charge: {
    name: "Charge",
    meaning: "One attempt to take money by a payment rail, and the search for its answer.",
    amount: "Amount",
    list: { path: "/charges", statusOf: oneOf(["pending", "succeeded", "failed"]) },
  },
  refund: {
    name: "Refund",
    meaning: "Money goes back to a buyer, and the rail confirms it.",
    amount: "Amount",
    list: null,
  },
  checkout_session: {
    name: "Checkout session",
    meaning: "A buyer opens a hosted page, and completes it or lets it expire.",
    amount: "Price of a period",
    list: { path: "/checkout-sessions", statusOf: oneOf(["open", "completed", "expired"]) },
  },
  instalment_plan: {
    name: "Instalment plan",
    meaning: "A buyer saves up for goods in instalments, and gets them when they are paid.",
    amount: "Target",
    list: {
      path: "/instalments",
      statusOf: oneOf(["pending", "active", "overdue", "completed", "shipped", "delivered", "cancelled"]),
    },
  },
  nudge: {
    name: "Nudge",
    meaning: "A message to a customer, tried on one channel after the other until it arrives.",
    amount: null,
    list: { path: "/nudges", statusOf: null },
  },
  invoice: {
    name: "Invoice",
    meaning: "What this service asks of your business for a month.",
    amount: "Total",
    list: null,
  },
  webhook_endpoint: {
    name: "Webhook endpoint",
    meaning: "An address that gets events; it is disabled when it fails for days.",
    amount: null,
    list: { path: "/webhooks", statusOf: oneOf(["enabled", "disabled"]) },
  },
  webhook_delivery: {
    name: "Webhook delivery",
    meaning: "One event on its way to one endpoint, tried until it arrives or is given up.",
    amount: null,
    list: null,
  },
  test_clock: {
    name: "Test clock",
    meaning: "The time of a group of customers in the sandbox, which you advance.",
    amount: null,
    list: null,
  },
  live_access: {
    name: "Live access",
    meaning: "The way of a business from the sandbox to real money.",
    amount: null,
    list: null,
  },
}

const JOURNALLED: ReadonlySet<string> = new Set(ACTOR_KINDS)

const spanIn = ({ search }: Viewer): Span => {
  const span = search.get("span") ?? "day"
  return Object.hasOwn(SPANS, span) ? (span as Span) : "day"
}

const hrefOf = ({ base, environment, session }: Viewer, { list }: Machine, state: string): string | null => {
  const status = list?.statusOf?.(state) ?? null
  const { role, vertical } = session
  return status === null || !isSectionShown({ role, vertical, environment }, list!.path)
    ? null
    : `${base}${list!.path}?status=${status}`
}

/** All states that an object can be in, with their counts. */
const statesOf = (
  viewer: Viewer,
  machine: Machine,
  states: ReadonlyArray<State>,
  counts: ReadonlyArray<{ readonly state: string; readonly actors: number; readonly kobo: number }>,
): ReadonlyArray<ShownState> => {
  const byState = new Map(counts.map((one) => [one.state, one]))
  const names = states.filter(({ isGroup }) => !isGroup).map(({ name }) => name)
  return [...new Set([...names, ...byState.keys()])].map((state) => ({
    state,
    actors: byState.get(state)?.actors ?? 0,
    kobo: byState.get(state)?.kobo ?? 0,
    href: hrefOf(viewer, machine, state),
  }))
}

const readCounts = Effect.fnUntraced(function* (viewer: Viewer, kind: string, machine: Machine) {
  const { tenant } = viewer
  const { reading } = yield* TenantDatabase
  const [states, steps, countedAt] = yield* reading(
    tenant,
    Effect.all([readStates(tenant, [kind]), readSteps(tenant, kind, SPANS[spanIn(viewer)]), readCountedAt(tenant)], {
      concurrency: "unbounded",
    }),
  )
  return { states: statesOf(viewer, machine, pictureOf(kind)!.states, states), steps, countedAt } satisfies Counts
})

const readView = Effect.fnUntraced(function* (viewer: Viewer) {
  const kind = viewer.params.kind!
  const machine = Object.hasOwn(MACHINES, kind) ? MACHINES[kind]! : undefined
  const picture = pictureOf(kind)
  if (machine === undefined || picture === undefined)
    return yield* problem("resource_missing", "There is no such machine.")
  const { name, meaning, amount } = machine
  return {
    kind,
    name,
    meaning,
    amount,
    path: `${viewer.base}/machines/${kind}`,
    span: spanIn(viewer),
    picture,
    counts: JOURNALLED.has(kind) ? yield* readCounts(viewer, kind, machine) : null,
  } satisfies MachineView
})

const all = memberPage(
  "/dashboard/:environment/machines",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { reading } = yield* TenantDatabase
      const kinds = Object.keys(MACHINES)
      const states = yield* reading(viewer.tenant, readStates(viewer.tenant, kinds))
      const objects = (kind: string) =>
        states.filter((one) => one.kind === kind).reduce((sum, { actors }) => sum + actors, 0)
      const machines = kinds.map((kind) => ({
        kind,
        name: MACHINES[kind]!.name,
        meaning: MACHINES[kind]!.meaning,
        objects: JOURNALLED.has(kind) ? objects(kind) : null,
      }))
      return show(viewer, "Machines", machinesMain(viewer.base, machines))
    }),
  },
)

const PATH = "/dashboard/:environment/machines/:kind"

const one = memberPage(
  PATH,
  { right: "see" },
  { GET: (viewer) => Effect.map(readView(viewer), (view) => show(viewer, view.name, machineMain(view))) },
)

const live = livePart(PATH, "see", (viewer) => Effect.map(readView(viewer), machinePart))

export const machineRoutes = [all, one, live]
