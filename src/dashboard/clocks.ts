/** The pages of test clocks (decision M1): a place to try out a year of billing in minutes. They exist in the sandbox only. */
import { Effect } from "effect"
import { addMonths } from "../../machines/calendar.ts"
import { isProblem, type Problem, problem } from "../base/problem.ts"
import { DAY_MS, formatInstant, parseInstant } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import { clockApi, type TestClock } from "../billing/clock/api.ts"
import { customerApi } from "../billing/customer/api.ts"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { forecastApi } from "../billing/subscription/forecastApi.ts"
import { eventApi } from "../outbound/event/api.ts"
import {
  type ClockPartView,
  clockMain,
  clockPart,
  type Step,
  type SubscriptionOfClock,
} from "../pages/dashboard/clock.ts"
import { nameIn } from "../pages/dashboard/expanded.ts"
import { status, when } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { actionPage } from "./actions.ts"
import { objectIdOf } from "./events.ts"
import type { Form } from "./forms.ts"
import { instantOf, instantTyped } from "./inputs.ts"
import { livePart } from "./LiveParts.ts"
import { listPages } from "./lists.ts"
import { pathOfObject } from "./objects.ts"
import { call, goTo, memberPage, show, type Viewer } from "./pages.ts"
import { inSandbox } from "./sandbox.ts"

type Clock = typeof TestClock.Type

const EVENTS_SHOWN = "15"
const OBJECTS_SHOWN = "10"
/** Subscriptions whose next steps are computed: a forecast takes some milliseconds. */
const MAX_FORECASTS = 5
const FORECAST_MONTHS = 3
const STEPS_SHOWN = 8

const list = listPages<Clock>({
  path: "/clocks",
  title: "Test clocks",
  right: "develop",
  declaration: clockApi.list,
  about: "A clock of its own for test customers: advance it, and a month of billing happens in seconds.",
  filters: [],
  actions: ({ base }) => [
    { href: `${base}/clocks/new`, label: "New test clock", isMain: true },
    { href: `${base}/events/trigger`, label: "Create a test event" },
    { href: `${base}/reset`, label: "Reset the sandbox", isDanger: true },
  ],
  columns: ({ base }) => [
    {
      name: "Clock",
      cell: ({ id, name }) => html`<a href="${`${base}/clocks/${id}`}">${name ?? id}</a>`,
    },
    { name: "Time", cell: ({ frozen_time }) => when(frozen_time) },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "Customers", cell: ({ customer_count }) => customer_count, isNumber: true },
    { name: "Deleted on", cell: ({ deletes_at }) => when(deletes_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["name", ({ name }) => name],
    ["frozen_time", ({ frozen_time }) => frozen_time],
    ["status", (row) => row.status],
    ["customer_count", ({ customer_count }) => customer_count],
  ],
  empty: ({ base }) => ({
    title: "No test clocks yet",
    text: "Create a clock, add a customer to it, subscribe them to a plan, and advance the clock to see renewals, retries and messages.",
    action: { href: `${base}/clocks/new`, label: "New test clock", isMain: true },
  }),
})

const create = actionPage({
  path: "/clocks/new",
  declaration: clockApi.create,
  subject: inSandbox(({ base }) =>
    Effect.succeed({
      title: "New test clock",
      about: null,
      initial: new Map([["frozen_time", [instantTyped(currentTime())]]]),
      backTo: `${base}/clocks`,
      fields: [
        { name: "name", label: "Name", kind: "text", maxlength: 100, hint: "Such as: a year of renewals" },
        { name: "frozen_time", label: "Time", kind: "instant", isRequired: true, hint: "In Lagos", whenEmpty: "empty" },
      ],
    }),
  ),
  button: "Create the clock",
  done: ({ base }, { id }) => `${base}/clocks/${id}`,
})

const read = (viewer: Viewer) => Effect.map(call(viewer, clockApi.get, { params: viewer.params }), ({ data }) => data)

/** The subscriptions of a clock, newest first. */
const subscriptionsOf = (viewer: Viewer, { id }: Clock) =>
  Effect.map(
    call(viewer, subscriptionApi.list, {
      query: { test_clock: id, limit: OBJECTS_SHOWN },
      expand: ["plan", "customer"],
    }),
    ({ data }) =>
      data.map(
        (row): SubscriptionOfClock => ({
          id: row.id,
          plan: nameIn(row.plan),
          customer: nameIn(row.customer),
          status: row.status,
          nextChargeAt: row.next_charge_at,
        }),
      ),
  )

/** What subscriptions do next, in order of time. A clock that advances has no forecast. */
const stepsOf = Effect.fnUntraced(function* (
  viewer: Viewer,
  { frozen_time, status }: Clock,
  subscriptions: ReadonlyArray<SubscriptionOfClock>,
) {
  if (status !== "ready") return []
  const now = parseInstant(frozen_time)!
  const until = formatInstant(addMonths(now, FORECAST_MONTHS))
  const running = subscriptions.filter((row) => row.status !== "cancelled").slice(0, MAX_FORECASTS)
  const forecasts = yield* Effect.forEach(running, ({ id, customer }) =>
    call(viewer, forecastApi.get, { params: { id }, query: { until } }).pipe(
      Effect.map(({ data: { items } }): ReadonlyArray<Step> => {
        const later = items.filter(({ at }) => parseInstant(at)! > now)
        return [...Map.groupBy(later, ({ at }) => at)].map(([at, items]) => ({ at, subscription: id, customer, items }))
      }),
      // The clock may have begun to advance meanwhile.
      Effect.catchIf(isProblem, () => Effect.succeed([])),
    ),
  )
  return forecasts.flat().sort((a, b) => parseInstant(a.at)! - parseInstant(b.at)!)
})

const readPart = Effect.fnUntraced(function* (viewer: Viewer) {
  const clock = yield* read(viewer)
  const query = { test_clock: clock.id, limit: OBJECTS_SHOWN }
  const [events, subscriptions, customers] = yield* Effect.all(
    [
      call(viewer, eventApi.list, { query: { test_clock: clock.id, limit: EVENTS_SHOWN } }),
      subscriptionsOf(viewer, clock),
      call(viewer, customerApi.list, { query }),
    ],
    { concurrency: "unbounded" },
  )
  const steps = yield* stepsOf(viewer, clock, subscriptions)
  const part: ClockPartView = {
    base: viewer.base,
    clock,
    steps: steps.slice(0, STEPS_SHOWN),
    events: events.data.map((event) => {
      const objectId = objectIdOf(event)
      return { ...event, objectId, objectPath: pathOfObject(objectId, viewer.environment) }
    }),
    subscriptions,
    customers: customers.data,
  }
  return part
})

const showClock = Effect.fnUntraced(function* (viewer: Viewer, refusal: string | null = null, code = 200) {
  const part = yield* readPart(viewer)
  const view = { ...part, formToken: viewer.formToken, refusal }
  return show(viewer, part.clock.name ?? "Test clock", clockMain(view), code)
})

const PAGE = "/dashboard/:environment/clocks/:id"

const one = memberPage(PAGE, { right: "develop" }, { GET: inSandbox((viewer) => showClock(viewer)) })

const live = livePart(PAGE, "develop", (viewer) => Effect.map(readPart(viewer), clockPart))

const NO_STEP = problem("parameter_invalid", "Nothing comes in the next three months: choose a time.")
const NO_TIME = problem("parameter_invalid", "Choose by how much, or type a day and a time.")

/** The time that a form asks for. */
const targetOf = Effect.fnUntraced(function* (viewer: Viewer, form: Form) {
  const clock = yield* read(viewer)
  const now = parseInstant(clock.frozen_time)!
  switch (form.get("by")) {
    case "day":
      return formatInstant(now + DAY_MS)
    case "week":
      return formatInstant(now + 7 * DAY_MS)
    case "month":
      return formatInstant(addMonths(now, 1))
    case "next": {
      const [next] = yield* stepsOf(viewer, clock, yield* subscriptionsOf(viewer, clock))
      return next?.at ?? (yield* NO_STEP)
    }
    default:
      return instantOf(form.get("frozen_time")) ?? (yield* NO_TIME)
  }
})

const advance = memberPage(
  `${PAGE}/advance`,
  { right: "develop" },
  {
    POST: Effect.fnUntraced(function* (viewer, form) {
      const { base, params } = viewer
      const advancing = Effect.gen(function* () {
        const frozen_time = yield* targetOf(viewer, form)
        yield* call(viewer, clockApi.advance, { params, body: { frozen_time } })
        return goTo(`${base}/clocks/${params.id}`)
      })
      return yield* Effect.catchIf(
        advancing,
        (error): error is Problem => isProblem(error) && error.status !== 404,
        ({ message, status }) => showClock(viewer, message.replace(/^frozen_time /, "The new time "), status),
      )
    }),
  },
)

const addCustomer = actionPage({
  path: "/clocks/:id/customers/new",
  declaration: customerApi.create,
  subject: Effect.fnUntraced(function* (viewer) {
    const clock = yield* read(viewer)
    return {
      title: "Add a customer to the clock",
      about: clock.name ?? clock.id,
      initial: new Map(),
      backTo: `${viewer.base}/clocks/${clock.id}`,
      fields: [
        { name: "name", label: "Name", kind: "text", isRequired: true, maxlength: 120, whenEmpty: "empty" },
        { name: "email", label: "E-mail", kind: "email", maxlength: 254, whenEmpty: "null" },
      ],
    }
  }),
  params: () => ({}),
  fixed: ({ params }) => ({ test_clock: params.id! }),
  button: "Add the customer",
  done: ({ base, params }) => `${base}/clocks/${params.id}`,
})

const remove = actionPage({
  path: "/clocks/:id/delete",
  declaration: clockApi.delete,
  subject: Effect.fnUntraced(function* (viewer) {
    const { id, name, customer_count: count } = yield* read(viewer)
    return {
      title: `Delete ${name ?? "the test clock"}`,
      about: `Its customers (${count}) and all that belongs to them are deleted too. This cannot be undone.`,
      initial: new Map(),
      backTo: `${viewer.base}/clocks/${id}`,
      fields: [],
    }
  }),
  button: "Delete the clock",
  isDanger: true,
  done: ({ base }) => `${base}/clocks?notice=deleted`,
})

export const clockRoutes = [...list, create, advance, live, addCustomer, remove, one]
