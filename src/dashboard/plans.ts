/** The pages of plans: the list, one plan with its rules in words, and the actions on it. */
import { Effect } from "effect"
import { PLAN_STATUSES, type Plan, planApi } from "../billing/plan/api.ts"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { naira, status, when } from "../pages/dashboard/parts.ts"
import { planMain } from "../pages/dashboard/plan.ts"
import { html } from "../pages/html.ts"
import { every } from "../pages/words.ts"
import { actionPage } from "./actions.ts"
import { choicesOf, listPages } from "./lists.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { CHANGED_FIELDS, CREATED_FIELDS, NEW_PLAN, planTyped } from "./planFields.ts"

type Row = typeof Plan.Type

/** How many subscriptions the page of a plan shows. */
const SHOWN = "10"

const newPlan = ({ base }: Viewer) => ({ href: `${base}/plans/new`, label: "New plan", isMain: true })

const list = listPages<Row>({
  path: "/plans",
  title: "Plans",
  right: "see",
  declaration: planApi.list,
  filters: [{ name: "status", label: "Status", kind: "select", choices: choicesOf(PLAN_STATUSES) }],
  actions: (viewer) => (canOperate(viewer) ? [newPlan(viewer)] : []),
  columns: ({ base }) => [
    { name: "Plan", cell: ({ id, name }) => html`<a href="${`${base}/plans/${id}`}">${name}</a>` },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "Price", cell: (row) => html`${naira(row.amount)} ${every(row.billing_cycle)}`, isNumber: true },
    { name: "Trial", cell: ({ trial_days }) => (trial_days === 0 ? "–" : `${trial_days} days`) },
    { name: "Since", cell: ({ created_at }) => when(created_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["name", ({ name }) => name],
    ["status", (row) => row.status],
    ["amount_naira", ({ amount }) => amount / 100],
    ["billing_cycle", ({ billing_cycle }) => billing_cycle],
    ["trial_days", ({ trial_days }) => trial_days],
    ["category", ({ category }) => category],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: (viewer) => ({
    title: "No plans yet",
    text: "A plan says what a subscription costs and how often it is charged, such as ₦5,000 every month. It is the first thing to create.",
    action: canOperate(viewer) ? newPlan(viewer) : null,
  }),
})

const create = actionPage({
  path: "/plans/new",
  declaration: planApi.create,
  subject: ({ base }) =>
    Effect.succeed({
      title: "New plan",
      about: null,
      initial: NEW_PLAN,
      backTo: `${base}/plans`,
      fields: CREATED_FIELDS,
    }),
  fixed: () => ({ currency: "NGN" }),
  button: "Create the plan",
  done: ({ base }, { id }) => withNotice(`${base}/plans/${id}`, "created"),
})

const pageOf = ({ base, params }: Viewer): string => `${base}/plans/${params.id}`

const readOne = (viewer: Viewer) => Effect.map(call(viewer, planApi.get, { params: viewer.params }), ({ data }) => data)

const edit = actionPage({
  path: "/plans/:id/edit",
  declaration: planApi.update,
  subject: (viewer) =>
    Effect.map(readOne(viewer), (plan) => ({
      title: `Change ${plan.name}`,
      about:
        "A new price or trial applies to new subscriptions only. Retry rules apply from the next payment that fails, the rest at once.",
      initial: planTyped(plan),
      backTo: pageOf(viewer),
      fields: CHANGED_FIELDS.map((field) => (field.name === "metadata" ? { ...field, before: plan.metadata } : field)),
    })),
  button: "Save",
  done: (viewer) => withNotice(pageOf(viewer), "saved"),
})

/** An action without fields that changes which new subscriptions a plan takes. */
const switching = (declaration: typeof planApi.archive, verb: string, about: string) =>
  actionPage({
    path: `/plans/:id/${verb.toLowerCase()}`,
    declaration,
    subject: (viewer) =>
      Effect.map(readOne(viewer), ({ name }) => ({
        title: `${verb} ${name}`,
        about,
        initial: new Map(),
        backTo: pageOf(viewer),
        fields: [],
      })),
    button: `${verb} it`,
    done: (viewer) => withNotice(pageOf(viewer), "done"),
  })

const archive = switching(planApi.archive, "Archive", "It takes no new subscriptions. Those that exist go on.")
const unarchive = switching(planApi.unarchive, "Unarchive", "It takes new subscriptions again.")

const one = memberPage(
  "/dashboard/:environment/plans/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const plan = yield* readOne(viewer)
      const query = { plan: params.id!, limit: SHOWN }
      const { data: subscriptions } = yield* call(viewer, subscriptionApi.list, { query, expand: ["customer"] })
      return show(viewer, plan.name, planMain({ base, plan, subscriptions, canOperate: canOperate(viewer) }))
    }),
  },
)

export const planRoutes = [...list, create, edit, archive, unarchive, one]
