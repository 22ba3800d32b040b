/** The pages of charges: the list, one charge with its timeline, and the actions: charging once, trying again. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { CHARGE_STATUSES } from "../../machines/charge.ts"
import { type Charge, chargeApi } from "../billing/charge/api.ts"
import { customerApi } from "../billing/customer/api.ts"
import { TenantDatabase } from "../db/TenantDatabase.ts"
import { ofTenant } from "../db/tenant.ts"
import { chargeMain, type Entry } from "../pages/dashboard/charge.ts"
import { idIn, nameIn } from "../pages/dashboard/expanded.ts"
import { failureOf, nudgeFor } from "../pages/dashboard/failures.ts"
import { type ActionLink, naira, status, when } from "../pages/dashboard/parts.ts"
import { html } from "../pages/html.ts"
import { actionPage, type Subject } from "./actions.ts"
import { defaultChoice, methodChoices } from "./choices.ts"
import { chooseCustomer } from "./customerChoice.ts"
import { choicesOf, listPages } from "./lists.ts"
import { call, canOperate, memberPage, show, type Viewer, withNotice } from "./pages.ts"
import { readTimeline } from "./timelines.ts"

type Row = typeof Charge.Type

const chargeOnce = ({ base }: Viewer): ActionLink => ({
  href: `${base}/charges/new`,
  label: "Charge once",
  isMain: true,
})

const whyOf = (row: Row): string =>
  row.status === "failed" ? failureOf(row.failure_code).why : (row.description ?? row.lines[0]?.description ?? "–")

const list = listPages<Row>({
  path: "/charges",
  title: "Charges",
  right: "see",
  declaration: chargeApi.list,
  expand: ["customer"],
  filters: [
    { name: "customer", label: "Customer ID", kind: "text" },
    { name: "subscription", label: "Subscription ID", kind: "text" },
    { name: "status", label: "Status", kind: "select", choices: choicesOf(CHARGE_STATUSES) },
  ],
  actions: (viewer) => (canOperate(viewer) ? [chargeOnce(viewer)] : []),
  columns: ({ base }) => [
    {
      name: "Charge",
      cell: ({ id, created_at }) => html`<a href="${`${base}/charges/${id}`}">${when(created_at)}</a>`,
    },
    { name: "Customer", cell: ({ customer }) => nameIn(customer) },
    { name: "Status", cell: (row) => status(row.status) },
    { name: "What", cell: whyOf },
    { name: "Amount", cell: ({ amount }) => naira(amount), isNumber: true },
  ],
  csv: [
    ["id", ({ id }) => id],
    ["status", (row) => row.status],
    ["amount_naira", ({ amount }) => amount / 100],
    ["customer", ({ customer }) => idIn(customer)],
    ["customer_name", ({ customer }) => nameIn(customer)],
    ["subscription", ({ subscription }) => (subscription === null ? null : idIn(subscription))],
    ["description", ({ description }) => description],
    ["failure_code", ({ failure_code }) => failure_code],
    ["failure_message", ({ failure_message }) => failure_message],
    ["attempt_number", ({ attempt_number }) => attempt_number],
    ["processor", ({ processor }) => processor],
    ["paid_at", ({ paid_at }) => paid_at],
    ["created_at", ({ created_at }) => created_at],
  ],
  empty: (viewer) => ({
    title: "No charges yet",
    text: "A charge is one try to collect a payment. Subscriptions make them by themselves; you can also charge a customer once.",
    action: canOperate(viewer) ? chargeOnce(viewer) : null,
  }),
})

const create = actionPage({
  path: "/charges/new",
  declaration: chargeApi.create,
  instead: chooseCustomer("Charge once"),
  subject: Effect.fnUntraced(function* (viewer) {
    const id = viewer.search.get("customer") ?? ""
    const [{ data: customer }, methods] = yield* Effect.all(
      [call(viewer, customerApi.get, { params: { id } }), methodChoices(viewer, id)],
      { concurrency: "unbounded" },
    )
    const usual = customer.default_payment_method === null ? (methods[0]?.value ?? "") : ""
    return {
      title: `Charge ${customer.name} once`,
      about: null,
      initial: new Map([["payment_method", [usual]]]),
      backTo: `${viewer.base}/customers/${id}`,
      fields: [
        { name: "amount", label: "Amount", kind: "naira", isRequired: true },
        { name: "description", label: "Description", kind: "text", maxlength: 200, hint: "What it is for" },
        {
          name: "payment_method",
          label: "Payment method",
          kind: "select",
          choices: [defaultChoice(customer), ...methods],
        },
        { name: "metadata", label: "Metadata", kind: "lines", hint: "One key=value in each line" },
      ],
    } satisfies Subject
  }),
  fixed: ({ search }) => ({ customer: search.get("customer"), currency: "NGN" }),
  button: "Charge it",
  done: ({ base }, { id }) => withNotice(`${base}/charges/${id}`, "created"),
})

const retry = actionPage({
  path: "/charges/:id/retry",
  declaration: chargeApi.retry,
  subject: Effect.fnUntraced(function* (viewer) {
    const { data: charge } = yield* call(viewer, chargeApi.get, { params: viewer.params, expand: ["customer"] })
    const methods = yield* methodChoices(viewer, idIn(charge.customer))
    return {
      title: `Retry ${naira(charge.amount)} from ${nameIn(charge.customer)}`,
      about: charge.status === "failed" ? failureOf(charge.failure_code).why : null,
      initial: new Map(),
      backTo: `${viewer.base}/charges/${charge.id}`,
      fields: [
        {
          name: "payment_method",
          label: "Payment method",
          kind: "select",
          choices: [{ value: "", label: "The one that it would be charged to now" }, ...methods],
        },
      ],
    } satisfies Subject
  }),
  button: "Retry it",
  done: ({ base }, { id }) => withNotice(`${base}/charges/${id}`, "done"),
})

/** The ID of the newest charge of an expanded subscription. */
const latestOf = (subscription: unknown): unknown =>
  subscription instanceof Object && "latest_charge" in subscription ? subscription.latest_charge : null

/** The actions on a charge: trying it again, and telling the customer. Of a subscription only the newest charge can be tried again. */
const actionsOn = (
  { base }: Viewer,
  { id, status, customer, subscription, failure_code }: Row,
): ReadonlyArray<ActionLink> => {
  if (status !== "failed") return []
  const canRetry = subscription === null || latestOf(subscription) === id
  const about = subscription === null ? "" : `&subscription=${idIn(subscription)}`
  return [
    ...(canRetry ? [{ href: `${base}/charges/${id}/retry`, label: "Retry", isMain: true }] : []),
    {
      href: `${base}/nudges/new?customer=${idIn(customer)}${about}&template=${nudgeFor(failure_code)}`,
      label: "Tell the customer",
    },
  ]
}

/** Entries of one charge: a sale, a refund, and what corrects them. */
const MOST_ENTRIES = 20

/** The entries of a charge in the books, the oldest first. */
const readEntries = ({ tenant, params }: Viewer) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    return yield* sql<Entry>`
      SELECT id, event FROM ledger_entry WHERE charge_id = ${params.id} AND ${ofTenant(sql, tenant)} ORDER BY id LIMIT ${MOST_ENTRIES}`
  })

const one = memberPage(
  "/dashboard/:environment/charges/:id",
  { right: "see" },
  {
    GET: Effect.fnUntraced(function* (viewer) {
      const { params, base } = viewer
      const expand = ["customer", "subscription"]
      const { data: charge } = yield* call(viewer, chargeApi.get, { params, expand })
      const timeline = yield* readTimeline(viewer, chargeApi.timeline)
      const { reading } = yield* TenantDatabase
      const entries = yield* reading(viewer.tenant, readEntries(viewer))
      const actions = canOperate(viewer) ? actionsOn(viewer, charge) : []
      const title = `${naira(charge.amount)} from ${nameIn(charge.customer)}`
      return show(viewer, title, chargeMain({ base, charge, entries, ...timeline, actions }))
    }),
  },
)

export const chargeRoutes = [...list, create, retry, one]
