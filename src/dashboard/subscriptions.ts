/** The pages of subscriptions: the list, and the actions on one. The page of one subscription has a file of its own. */
import { Effect } from "effect"
import { UNIT_ACTIONS } from "../../machines/events.ts"
import { CANCELLATION_REASONS } from "../../machines/periods.ts"
import { SUBSCRIPTION_STATUSES } from "../../machines/status.ts"
import { customerApi } from "../billing/customer/api.ts"
import { type Subscription, subscriptionApi } from "../billing/subscription/api.ts"
import { subscriptions } from "../billing/subscription/subscription.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { idIn, nameIn } from "../pages/dashboard/expanded.ts"
import type { Choice } from "../pages/dashboard/fields.ts"
import { naira, status, when, words } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { every } from "../pages/words.ts"
import { actionPage, type Subject } from "./actions.ts"
import { defaultChoice, methodChoices, planChoices } from "./choices.ts"
import { chooseCustomer } from "./customerChoice.ts"
import { type Input, pairsTyped } from "./inputs.ts"
import { choicesOf, listPages } from "./lists.ts"
import { call, canOperate, type Viewer, withNotice } from "./pages.ts"

type Shown = typeof Subscription.Type

/** A subscription with the price that it keeps, which the API's object does not have (decision C3). */
type Row = Shown & { readonly price_kobo?: number }

const EXPANDED = ["customer", "plan"]

const withPrices = Effect.fnUntraced(function* ({ tenant }: Viewer, rows: ReadonlyArray<Row>) {
  const { reading } = yield* TenantDatabase
  const ids = rows.map(({ id }) => id)
  const found = yield* reading(tenant, subscriptions.find(tenant, ids))
  return rows.map((row) => ({ ...row, price_kobo: found.get(row.id)!.price_kobo }))
})

const cycleIn = (plan: unknown): string =>
  plan instanceof Object && "billing_cycle" in plan ? every(plan.billing_cycle as Parameters<typeof every>[0]) : ""

const periodPrice = ({ price_kobo = 0, quantity }: Row): number => price_kobo * quantity

const newSubscription = (viewer: Viewer) =>
  canOperate(viewer) ? { href: `${viewer.base}/subscriptions/new`, label: "New subscription", isMain: true } : null

const list = listPages<Row>({
  path: "/subscriptions",
  title: "Subscriptions",
  right: "see",
  declaration: subscriptionApi.list,
  expand: EXPANDED,
  complete: withPrices,
  filters: [
    { name: "customer", label: "Customer ID", kind: "text" },
    { name: "plan", label: "Plan ID", kind: "text" },
    { name: "status", label: "Status", kind: "select", choices: choicesOf(SUBSCRIPTION_STATUSES) },
  ],
  actions: (viewer) => [newSubscription(viewer)].filter((action) => action !== null),
  columns: ({ base }) => [
    {
      name: "Subscription",
      cell: ({ id, plan, customer }) =>
        html`<a href="${`${base}/subscriptions/${id}`}">${nameIn(plan)} for ${nameIn(customer)}</a>`,
    },
    {
      name: "Status",
      cell: (row) =>
        html`${status(row.status)}${row.cancel_at_period_end && row.status !== "cancelled" && html` <span class="quiet small">ends with its period</span>`}`,
    },
    { name: "Price", cell: (row) => html`${naira(periodPrice(row))} ${cycleIn(row.plan)}`, isNumber: true },
    { name: "Next charge", cell: (row) => when(row.next_charge_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["status", (row) => row.status],
    ["customer", ({ customer }) => idIn(customer)],
    ["customer_name", ({ customer }) => nameIn(customer)],
    ["plan", ({ plan }) => idIn(plan)],
    ["plan_name", ({ plan }) => nameIn(plan)],
    ["quantity", ({ quantity }) => quantity],
    ["price_naira", (row) => periodPrice(row) / 100],
    ["next_charge_at", ({ next_charge_at }) => next_charge_at],
    ["cancel_at_period_end", ({ cancel_at_period_end }) => cancel_at_period_end],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: (viewer) => ({
    title: "No subscriptions yet",
    text: "A subscription charges a customer for a plan, again and again. Create one here, or let buyers subscribe themselves at a checkout.",
    action: newSubscription(viewer),
  }),
})

const customerNamed = (viewer: Viewer) =>
  Effect.map(call(viewer, customerApi.get, { params: { id: viewer.search.get("customer") ?? "" } }), ({ data }) => data)

const create = actionPage({
  path: "/subscriptions/new",
  declaration: subscriptionApi.create,
  instead: chooseCustomer("New subscription"),
  subject: Effect.fnUntraced(function* (viewer) {
    const { base, search } = viewer
    const customer = yield* customerNamed(viewer)
    const [plans, methods] = yield* Effect.all([planChoices(viewer), methodChoices(viewer, customer.id)], {
      concurrency: "unbounded",
    })
    const usual = customer.default_payment_method === null ? (methods[0]?.value ?? "") : ""
    return {
      title: `New subscription for ${customer.name}`,
      about:
        plans.length === 0
          ? html`There is no plan to subscribe to. <a href="${`${base}/plans/new`}">Create a plan first</a>.`
          : null,
      initial: new Map([
        ["plan", [search.get("plan") ?? ""]],
        ["quantity", ["1"]],
        ["payment_method", [usual]],
      ]),
      backTo: `${base}/customers/${customer.id}`,
      fields: [
        { name: "plan", label: "Plan", kind: "select", choices: plans, isRequired: true },
        { name: "quantity", label: "Quantity", kind: "number" },
        {
          name: "payment_method",
          label: "Payment method",
          kind: "select",
          choices: [defaultChoice(customer), ...methods],
        },
        { name: "trial_days", label: "Trial days", kind: "number", hint: "Empty: those of the plan" },
        { name: "start_at", label: "Starts at", kind: "instant", hint: "In Lagos. Empty: now" },
        { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line" },
      ],
    } satisfies Subject
  }),
  fixed: ({ search }) => ({ customer: search.get("customer") }),
  button: "Create the subscription",
  done: ({ base }, { id }) => withNotice(`${base}/subscriptions/${id}`, "created"),
})

/** Reads the subscription of the path, and says its plan and its customer, as titles do. */
const readOne = Effect.fnUntraced(function* (viewer: Viewer) {
  const { data } = yield* call(viewer, subscriptionApi.get, { params: viewer.params, expand: EXPANDED })
  return { subscription: data, named: `${nameIn(data.plan)} for ${nameIn(data.customer)}` }
})

const pageOf = ({ base, params }: Viewer): string => `${base}/subscriptions/${params.id}`

const done = (viewer: Viewer): string => withNotice(pageOf(viewer), "done")

type Read = Effect.Success<ReturnType<typeof readOne>>

/** Makes the subject of an action on the subscription of the path. */
const subjectOf =
  (verb: string, describe: (read: Read) => Pick<Subject, "fields"> & Partial<Subject>) => (viewer: Viewer) =>
    Effect.map(
      readOne(viewer),
      (read): Subject => ({
        title: `${verb} ${read.named}`,
        about: null,
        initial: new Map(),
        backTo: pageOf(viewer),
        ...describe(read),
      }),
    )

const pause = actionPage({
  path: "/subscriptions/:id/pause",
  declaration: subscriptionApi.pause,
  subject: subjectOf("Pause", () => ({
    about: "While it is paused the customer is not served and not charged.",
    fields: [
      { name: "resumes_at", label: "Resumes at", kind: "instant", hint: "In Lagos. Empty: when you resume it" },
      { name: "reason", label: "Reason", kind: "text", maxlength: 500 },
    ],
  })),
  button: "Pause it",
  done,
})

const resume = actionPage({
  path: "/subscriptions/:id/resume",
  declaration: subscriptionApi.resume,
  subject: subjectOf("Resume", () => ({ about: "A new period starts now and is charged.", fields: [] })),
  button: "Resume it",
  done,
})

const WHEN: ReadonlyArray<Choice> = [
  { value: "true", label: "At the end of the period that is paid" },
  { value: "false", label: "Now" },
]

const cancel = actionPage({
  path: "/subscriptions/:id/cancel",
  declaration: subscriptionApi.cancel,
  subject: subjectOf("Cancel", ({ subscription }) => ({
    about: "What was paid is not refunded by this.",
    initial: new Map([["at_period_end", [subscription.cancel_at_period_end ? "false" : "true"]]]),
    fields: [
      { name: "at_period_end", label: "When", kind: "radios", choices: WHEN, as: "flag" },
      {
        name: "reason",
        label: "Reason",
        kind: "select",
        choices: [
          { value: "", label: "not given" },
          ...CANCELLATION_REASONS.map((value) => ({ value, label: words(value) })),
        ],
      },
    ],
  })),
  button: "Cancel it",
  isDanger: true,
  done,
})

const keep = actionPage({
  path: "/subscriptions/:id/keep",
  declaration: subscriptionApi.update,
  subject: subjectOf("Keep", () => ({ about: "It was to end with its period. It renews instead.", fields: [] })),
  fixed: () => ({ cancel_at_period_end: false }),
  button: "Keep it",
  done,
})

const change = actionPage({
  path: "/subscriptions/:id/change",
  declaration: subscriptionApi.update,
  subject: Effect.fnUntraced(function* (viewer) {
    const { subscription, named } = yield* readOne(viewer)
    const customer = idIn(subscription.customer)
    const [{ data }, methods] = yield* Effect.all(
      [call(viewer, customerApi.get, { params: { id: customer } }), methodChoices(viewer, customer)],
      { concurrency: "unbounded" },
    )
    const { quantity, payment_method: own, metadata } = subscription
    return {
      title: `Change ${named}`,
      about:
        "A new quantity applies from the next renewal. Another payment method is charged at once for what is owed.",
      initial: new Map([
        ["quantity", [String(quantity)]],
        ["payment_method", [own ?? ""]],
        ["metadata", [pairsTyped(metadata)]],
      ]),
      backTo: pageOf(viewer),
      fields: [
        { name: "quantity", label: "Quantity", kind: "number", isRequired: true },
        {
          name: "payment_method",
          label: "Payment method",
          kind: "select",
          choices: [defaultChoice(data), ...methods],
          whenEmpty: "null",
        },
        { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line", before: metadata },
      ],
    } satisfies Subject
  }),
  button: "Change it",
  done,
})

const UNIT_WORDS: Readonly<Record<(typeof UNIT_ACTIONS)[number], string>> = {
  increment: "Add to the units of this period",
  set: "Replace the units of this period",
}

const UNITS: ReadonlyArray<Input> = [
  { name: "quantity", label: "Units", kind: "number", isRequired: true },
  {
    name: "action",
    label: "What to do with them",
    kind: "radios",
    choices: UNIT_ACTIONS.map((value) => ({ value, label: UNIT_WORDS[value] })),
  },
  { name: "timestamp", label: "Used at", kind: "instant", hint: "In Lagos, within the current period. Empty: now" },
  { name: "description", label: "Description", kind: "text", maxlength: 200 },
]

const units = actionPage({
  path: "/subscriptions/:id/units",
  declaration: subscriptionApi.reportUnits,
  subject: subjectOf("Report units of", () => ({
    about: "Units are billed with the next renewal; on a plan that is billed for each delivery, at once.",
    initial: new Map([["action", ["increment"]]]),
    fields: UNITS,
  })),
  button: "Report the units",
  done,
})

export const subscriptionRoutes = [...list, create, pause, resume, cancel, keep, change, units]
