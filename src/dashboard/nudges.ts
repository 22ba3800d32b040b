/** The pages of nudges: the list, one nudge with every channel that was tried, and sending one. */
import { Effect } from "effect"
import { CHANNELS, NUDGE_STATUSES, NUDGE_TEMPLATES } from "../../machines/nudge.ts"
import { isProblem } from "../base/problem.ts"
import { customerApi } from "../billing/customer/api.ts"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { usageApi } from "../merchants/usage/api.ts"
import { type Nudge, nudgeApi } from "../outbound/nudge/api.ts"
import { idIn, nameIn } from "../pages/dashboard/expanded.ts"
import { nudgeMain } from "../pages/dashboard/nudge.ts"
import { CHANNEL_NAMES, TEMPLATE_NAMES } from "../pages/dashboard/nudgeWords.ts"
import { type ActionLink, status, when, words } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { actionPage, type Subject } from "./actions.ts"
import { MOST } from "./choices.ts"
import { chooseCustomer } from "./customerChoice.ts"
import { choicesOf, listPages } from "./lists.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"

type Row = typeof Nudge.Type

const newNudge = ({ base }: Viewer): ActionLink => ({ href: `${base}/nudges/new`, label: "Send a nudge", isMain: true })

const list = listPages<Row>({
  path: "/nudges",
  title: "Nudges",
  right: "see",
  declaration: nudgeApi.list,
  expand: ["customer"],
  filters: [
    { name: "customer", label: "Customer ID", kind: "text" },
    { name: "subscription", label: "Subscription ID", kind: "text" },
    { name: "channel", label: "Channel", kind: "select", choices: choicesOf(CHANNELS) },
    { name: "status", label: "Status", kind: "select", choices: choicesOf(NUDGE_STATUSES) },
  ],
  actions: (viewer) => (canOperate(viewer) ? [newNudge(viewer)] : []),
  columns: ({ base }) => [
    {
      name: "Nudge",
      cell: ({ id, template }) => html`<a href="${`${base}/nudges/${id}`}">${TEMPLATE_NAMES[template]}</a>`,
    },
    { name: "To", cell: ({ customer }) => nameIn(customer) },
    { name: "By", cell: ({ channel }) => CHANNEL_NAMES[channel] },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "Sent from", cell: ({ source }) => words(source) },
    { name: "When", cell: ({ created_at }) => when(created_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["template", ({ template }) => template],
    ["customer", ({ customer }) => idIn(customer)],
    ["customer_name", ({ customer }) => nameIn(customer)],
    ["subscription", ({ subscription }) => (subscription === null ? null : idIn(subscription))],
    ["channel", ({ channel }) => channel],
    ["status", (row) => row.status],
    ["failure_reason", ({ failure_reason }) => failure_reason],
    ["source", ({ source }) => source],
    ["sent_at", ({ sent_at }) => sent_at],
    ["delivered_at", ({ delivered_at }) => delivered_at],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: (viewer) => ({
    title: "No nudges yet",
    text: "A nudge is a message to a customer with a link to pay. Plans send them by themselves; you can also send one.",
    action: canOperate(viewer) ? newNudge(viewer) : null,
  }),
})

const plural = (count: number, one: string): string => `${count} ${one}${count === 1 ? "" : "s"}`

/** How many nudges of this month's allowance are left; undefined: the member may not know, or none are counted. */
const leftThisMonth = (viewer: Viewer) =>
  viewer.environment === "sandbox"
    ? Effect.succeed(undefined)
    : Effect.catchIf(
        Effect.map(call(viewer, usageApi.get), ({ data: { nudges } }) =>
          nudges.included === null ? undefined : Math.max(0, nudges.included - nudges.used),
        ),
        isProblem,
        () => Effect.succeed(undefined),
      )

const create = actionPage({
  path: "/nudges/new",
  declaration: nudgeApi.create,
  instead: chooseCustomer("Send a nudge"),
  subject: Effect.fnUntraced(function* (viewer) {
    const { base, search } = viewer
    const id = search.get("customer") ?? ""
    const [{ data: customer }, { data: subscriptions }, left] = yield* Effect.all(
      [
        call(viewer, customerApi.get, { params: { id } }),
        call(viewer, subscriptionApi.list, { query: { customer: id, limit: MOST }, expand: ["plan"] }),
        leftThisMonth(viewer),
      ],
      { concurrency: "unbounded" },
    )
    const allowance =
      left === undefined ? "" : ` ${plural(left, "nudge")} of this month's allowance ${left === 1 ? "is" : "are"} left.`
    return {
      title: `Send a nudge to ${customer.name}`,
      about: `A customer can be sent 3 nudges within 24 hours.${allowance}`,
      initial: new Map([
        ["subscription", [search.get("subscription") ?? ""]],
        ["template", [search.get("template") ?? NUDGE_TEMPLATES[0]]],
      ]),
      backTo: `${base}/customers/${id}`,
      fields: [
        {
          name: "template",
          label: "Message",
          kind: "select",
          choices: NUDGE_TEMPLATES.map((value) => ({ value, label: TEMPLATE_NAMES[value] })),
          isRequired: true,
        },
        {
          name: "custom_message",
          label: "Your own text",
          kind: "textarea",
          maxlength: 480,
          hint: "Only with the message “Custom message”. A link to pay follows it",
        },
        {
          name: "subscription",
          label: "About the subscription",
          kind: "select",
          choices: [
            { value: "", label: "none" },
            ...subscriptions.map(({ id, plan, status }) => ({ value: id, label: `${nameIn(plan)}, ${words(status)}` })),
          ],
        },
        {
          name: "channels",
          label: "Channels",
          kind: "checkboxes",
          choices: CHANNELS.map((value) => ({ value, label: CHANNEL_NAMES[value] })),
          hint: "None chosen: those of the plan, or all",
          whenEmpty: "omit",
        },
      ],
    } satisfies Subject
  }),
  fixed: ({ search }) => ({ customer: search.get("customer") }),
  button: "Send it",
  done: ({ base }, { id }) => withNotice(`${base}/nudges/${id}`, "created"),
})

/** The message as the sandbox's messengers got it; null: it is not sent, older than the newest of the customer, or live. */
const messageOf = (viewer: Viewer, { id, customer }: Row) =>
  viewer.environment === "live"
    ? Effect.succeed(null)
    : Effect.map(
        call(viewer, nudgeApi.outbox, { query: { customer: idIn(customer), limit: MOST } }),
        ({ data }) => data.find((sent) => sent.id === id) ?? null,
      )

const one = memberPage(
  "/dashboard/:environment/nudges/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const { data: nudge } = yield* call(viewer, nudgeApi.get, { params, expand: ["customer"] })
      const sent = yield* messageOf(viewer, nudge)
      const title = `${TEMPLATE_NAMES[nudge.template]} to ${nameIn(nudge.customer)}`
      return show(viewer, title, nudgeMain({ base, title, nudge, sent }))
    }),
  },
)

export const nudgeRoutes = [...list, create, one]
