/** The pages of checkout sessions: the list, one session with its link, and the actions: creating one, expiring one. */
import { Effect } from "effect"
import { CHECKOUT_MODES, CHECKOUT_STATUSES } from "../../machines/checkout.ts"
import { type CheckoutSession, checkoutApi, MAX_LIFETIME_MINUTES } from "../buying/checkout/api.ts"
import { checkoutSessionMain, MODE_WORDS } from "../pages/dashboard/checkoutSession.ts"
import { idIn, nameIn } from "../pages/dashboard/expanded.ts"
import { type ActionLink, status, when } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { actionPage, type Subject } from "./actions.ts"
import { planChoices } from "./choices.ts"
import { choicesOf, listPages } from "./lists.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { readTimeline } from "./timelines.ts"

type Row = typeof CheckoutSession.Type

const newSession = ({ base }: Viewer): ActionLink => ({
  href: `${base}/checkout-sessions/new`,
  label: "New checkout session",
  isMain: true,
})

const list = listPages<Row>({
  path: "/checkout-sessions",
  title: "Checkout sessions",
  right: "see",
  declaration: checkoutApi.list,
  expand: ["customer", "plan"],
  filters: [
    { name: "customer", label: "Customer ID", kind: "text" },
    { name: "status", label: "Status", kind: "select", choices: choicesOf(CHECKOUT_STATUSES) },
  ],
  actions: (viewer) => (canOperate(viewer) ? [newSession(viewer)] : []),
  columns: ({ base }) => [
    {
      name: "Session",
      cell: ({ id, mode, plan }) =>
        html`<a href="${`${base}/checkout-sessions/${id}`}">${plan === null ? MODE_WORDS[mode] : nameIn(plan)}</a>`,
    },
    { name: "Customer", cell: ({ customer }) => (customer === null ? "–" : nameIn(customer)) },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "Created", cell: ({ created_at }) => when(created_at) },
    { name: "Expires", cell: ({ expires_at }) => when(expires_at) },
  ],
  // The link is a secret: it is not in the file.
  csv: [
    ["id", ({ id }) => id],
    ["mode", ({ mode }) => mode],
    ["status", (row) => row.status],
    ["customer", ({ customer }) => (customer === null ? null : idIn(customer))],
    ["plan", ({ plan }) => (plan === null ? null : idIn(plan))],
    ["quantity", ({ quantity }) => quantity],
    ["subscription", ({ subscription }) => (subscription === null ? null : idIn(subscription))],
    ["created_at", ({ created_at }) => created_at],
    ["expires_at", ({ expires_at }) => expires_at],
  ],
  empty: (viewer) => ({
    title: "No checkout sessions yet",
    text: "A checkout session is a link to a page on which a buyer subscribes, or adds a payment method. Create one and send the link.",
    action: canOperate(viewer) ? newSession(viewer) : null,
  }),
})

/** The addresses that buyers returned to last time: most shops have one of each. */
const usualAddresses = (viewer: Viewer) =>
  Effect.map(call(viewer, checkoutApi.list, { query: { limit: "1" } }), ({ data: [last] }) => ({
    success: last?.success_url ?? "",
    cancel: last?.cancel_url ?? "",
  }))

const create = actionPage({
  path: "/checkout-sessions/new",
  declaration: checkoutApi.create,
  subject: Effect.fnUntraced(function* (viewer) {
    const { base, search } = viewer
    const [plans, usual] = yield* Effect.all([planChoices(viewer), usualAddresses(viewer)], {
      concurrency: "unbounded",
    })
    const customer = search.get("customer") ?? ""
    const isSetup = search.get("mode") === "setup"
    return {
      title: isSetup ? "Collect a payment method" : "New checkout session",
      about: "A link for one buyer. Send it to them; it ends when it is used or expires.",
      initial: new Map([
        ["mode", [isSetup ? "setup" : "subscription"]],
        ["plan", [search.get("plan") ?? ""]],
        ["customer", [customer]],
        ["success_url", [usual.success]],
        ["cancel_url", [usual.cancel]],
        ["expires_in_minutes", [String(MAX_LIFETIME_MINUTES)]],
      ]),
      backTo: customer === "" ? `${base}/checkout-sessions` : `${base}/customers/${customer}`,
      fields: [
        {
          name: "mode",
          label: "What the buyer does",
          kind: "radios",
          choices: CHECKOUT_MODES.map((value) => ({ value, label: MODE_WORDS[value] })),
        },
        {
          name: "plan",
          label: "Plan",
          kind: "select",
          choices: [{ value: "", label: "none" }, ...plans],
          hint: "Only to subscribe",
        },
        { name: "quantity", label: "Quantity", kind: "number", hint: "Only to subscribe. Empty: 1" },
        {
          name: "customer",
          label: "Customer ID",
          kind: "text",
          hint: "Empty: the page asks for the buyer's name and e-mail address",
        },
        {
          name: "success_url",
          label: "Address after it is done",
          kind: "url",
          hint: "Your page that thanks the buyer",
          isRequired: true,
        },
        {
          name: "cancel_url",
          label: "Address to go back",
          kind: "url",
          hint: "Your page for buyers who change their mind",
          isRequired: true,
        },
        { name: "expires_in_minutes", label: "Expires after minutes", kind: "number", hint: "30 to 1440" },
        { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line" },
      ],
    } satisfies Subject
  }),
  button: "Create the link",
  done: ({ base }, { id }) => withNotice(`${base}/checkout-sessions/${id}`, "created"),
})

const expire = actionPage({
  path: "/checkout-sessions/:id/expire",
  declaration: checkoutApi.expire,
  subject: ({ base, params }) =>
    Effect.succeed({
      title: "Expire the checkout session",
      about: "Its link stops working now.",
      initial: new Map(),
      backTo: `${base}/checkout-sessions/${params.id}`,
      fields: [],
    }),
  button: "Expire it",
  isDanger: true,
  done: ({ base, params }) => withNotice(`${base}/checkout-sessions/${params.id}`, "done"),
})

const one = memberPage(
  "/dashboard/:environment/checkout-sessions/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const { data: session } = yield* call(viewer, checkoutApi.get, { params, expand: ["customer", "plan"] })
      const timeline = yield* readTimeline(viewer, checkoutApi.timeline)
      const view = { base, session, ...timeline, canOperate: canOperate(viewer) }
      return show(viewer, "Checkout session", checkoutSessionMain(view))
    }),
  },
)

export const checkoutSessionRoutes = [...list, create, expire, one]
