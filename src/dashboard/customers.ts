/** The pages of customers: the list, one customer with what belongs to them, and the actions on them. */
import { Effect } from "effect"
import { chargeApi } from "../billing/charge/api.ts"
import type { Customer } from "../billing/customer/api.ts"
import { customerApi } from "../billing/customer/api.ts"
import { subscriptionApi } from "../billing/subscription/api.ts"
import { nudgeApi } from "../outbound/nudge/api.ts"
import { type CustomerView, customerMain } from "../pages/dashboard/customer.ts"
import type { Choice } from "../pages/dashboard/fields.ts"
import { when } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { actionPage } from "./actions.ts"
import { clockChoices } from "./choices.ts"
import { customerMethodRoutes } from "./customerMethods.ts"
import { type Input, pairsTyped } from "./inputs.ts"
import { listPages } from "./lists.ts"
import { call, canOperate, memberPage, show, withNotice } from "./pages.ts"

type Row = typeof Customer.Type

/** How many objects of a kind the page of a customer shows. */
const SHOWN = "10"

const list = listPages<Row>({
  path: "/customers",
  title: "Customers",
  right: "see",
  declaration: customerApi.list,
  filters: [
    { name: "email", label: "E-mail", kind: "text" },
    { name: "phone", label: "Phone", kind: "text" },
  ],
  actions: (viewer) =>
    canOperate(viewer) ? [{ href: `${viewer.base}/customers/new`, label: "New customer", isMain: true }] : [],
  columns: ({ base }) => [
    { name: "Name", cell: ({ id, name }) => html`<a href="${`${base}/customers/${id}`}">${name}</a>` },
    { name: "E-mail", cell: ({ email }) => email ?? "–" },
    { name: "Phone", cell: ({ phone }) => phone ?? "–" },
    { name: "Since", cell: ({ created_at }) => when(created_at) },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["name", ({ name }) => name],
    ["email", ({ email }) => email],
    ["phone", ({ phone }) => phone],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: (viewer) => ({
    title: "No customers yet",
    text: "A customer is a person or a business that you charge. Create one here, by the API, or let buyers do it themselves at a checkout.",
    action: canOperate(viewer) ? { href: `${viewer.base}/customers/new`, label: "New customer", isMain: true } : null,
  }),
})

const FIELDS: ReadonlyArray<Input> = [
  { name: "name", label: "Name", kind: "text", isRequired: true, maxlength: 120, whenEmpty: "empty" },
  { name: "email", label: "E-mail", kind: "email", maxlength: 254, whenEmpty: "null" },
  { name: "phone", label: "Phone", kind: "tel", hint: "With the country, such as +2348031234567", whenEmpty: "null" },
  { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line" },
]

const clockField = (clocks: ReadonlyArray<Choice>): Input => ({
  name: "test_clock",
  label: "Test clock",
  kind: "select",
  choices: [{ value: "", label: "none: real time" }, ...clocks],
})

const create = actionPage({
  path: "/customers/new",
  declaration: customerApi.create,
  subject: Effect.fnUntraced(function* (viewer) {
    const clocks = yield* clockChoices(viewer)
    return {
      title: "New customer",
      about: null,
      initial: new Map([["test_clock", [viewer.search.get("test_clock") ?? ""]]]),
      backTo: `${viewer.base}/customers`,
      fields: clocks.length === 0 ? FIELDS : [...FIELDS, clockField(clocks)],
    }
  }),
  button: "Create the customer",
  done: ({ base }, { id }) => withNotice(`${base}/customers/${id}`, "created"),
})

const edit = actionPage({
  path: "/customers/:id/edit",
  declaration: customerApi.update,
  subject: Effect.fnUntraced(function* (viewer) {
    const { data } = yield* call(viewer, customerApi.get, { params: viewer.params })
    return {
      title: `Change ${data.name}`,
      about: null,
      initial: new Map([
        ["name", [data.name]],
        ["email", [data.email ?? ""]],
        ["phone", [data.phone ?? ""]],
        ["metadata", [pairsTyped(data.metadata)]],
      ]),
      backTo: `${viewer.base}/customers/${data.id}`,
      fields: FIELDS.map((field) => (field.name === "metadata" ? { ...field, before: data.metadata } : field)),
    }
  }),
  button: "Save",
  done: ({ base }, { id }) => withNotice(`${base}/customers/${id}`, "saved"),
})

const one = memberPage(
  "/dashboard/:environment/customers/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const query = { customer: params.id!, limit: SHOWN }
      const { data: customer } = yield* call(viewer, customerApi.get, { params })
      const [methods, subscriptions, charges, nudges] = yield* Effect.all(
        [
          call(viewer, customerApi.listMethods, { params, query: { limit: SHOWN } }),
          call(viewer, subscriptionApi.list, { query, expand: ["plan"] }),
          call(viewer, chargeApi.list, { query }),
          call(viewer, nudgeApi.list, { query }),
        ],
        { concurrency: "unbounded" },
      )
      const view: CustomerView = {
        base,
        customer,
        methods: methods.data,
        subscriptions: subscriptions.data,
        charges: charges.data,
        nudges: nudges.data,
        canOperate: canOperate(viewer),
      }
      return show(viewer, customer.name, customerMain(view))
    }),
  },
)

export const customerRoutes = [...list, create, edit, ...customerMethodRoutes, one]
