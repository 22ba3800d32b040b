/** Renders the pages of instalment plans: totals and plans, one plan with its schedule, products. The API's amounts are whole naira. */
import type { Product, ProductList, SavingsPlan, Summary } from "../../buying/instalment/shapes.ts"
import { type Html, html } from "../html.ts"
import { type Field, fieldRow, NOTHING_WRONG } from "./fields.ts"
import {
  type ActionLink,
  empty,
  facts,
  naira,
  type Pages,
  pageHead,
  pager,
  section,
  status,
  table,
  when,
  words,
} from "./parts.ts"
import { type TransitionView, transitionsTable, type Upcoming, upcomingList } from "./transitions.ts"

type Plan = typeof SavingsPlan.Type

/** Whole naira as people read them. */
const whole = (amount: number): string => naira(amount * 100)

export interface InstalmentsView {
  readonly base: string
  readonly path: string
  readonly filter: Field
  /** The status that the list is filtered by; empty: none. */
  readonly status: string
  readonly summary: typeof Summary.Type
  readonly plans: ReadonlyArray<Plan>
  readonly total: number
  readonly pages: Pages
  readonly canOperate: boolean
}

const figure = (name: string, amount: string, beside: string): Html =>
  html`<div class="figure"><h2>${name}</h2><p class="amount">${amount}</p><p class="quiet small">${beside}</p></div>
`

const figures = ({ series, outstanding, fulfilment, completionRate }: typeof Summary.Type): Html => {
  const collected = series.reduce((total, day) => total + day.collected, 0)
  const started = series.reduce((total, day) => total + day.newPlans, 0)
  return html`<div class="figures">${figure("Collected in 30 days", whole(collected), `${started} new ${started === 1 ? "plan" : "plans"}`)}${figure(
    "Left to pay",
    whole(outstanding.total),
    `${whole(outstanding.overdue)} of it is overdue`,
  )}${figure(
    "To deliver",
    String(fulfilment.readyToDeliver),
    `${fulfilment.shipped} shipped, ${fulfilment.delivered} delivered`,
  )}${figure("Paid in full", `${Math.round(completionRate * 100)} %`, "of all plans with a payment")}</div>
`
}

const planColumns = (base: string) => [
  {
    name: "Plan",
    cell: ({ id, productName }: Plan) => html`<a href="${`${base}/instalments/${id}`}">${productName} ${id}</a>`,
  },
  { name: "Status", cell: (row: Plan) => status(row.status) },
  { name: "Next due", cell: ({ nextDue }: Plan) => (nextDue === null ? "–" : when(nextDue.dueAt)) },
  { name: "Paid", cell: ({ amountPaid }: Plan) => whole(amountPaid), isNumber: true },
  { name: "Of", cell: ({ targetAmount }: Plan) => whole(targetAmount), isNumber: true },
]

const filterForm = ({ path, filter, status }: InstalmentsView): Html =>
  html`<form class="filters section" action="${path}">${fieldRow({ ...filter, isFilter: true }, new Map([["status", [status]]]), NOTHING_WRONG)}<button class="plain">Filter</button>${
    status !== "" && html`<a href="${path}">Show all</a>`
  }</form>
`

export const instalmentsMain = (view: InstalmentsView): Html => {
  const { base, summary, plans, total, pages, status, path, canOperate } = view
  const products = { href: `${base}/instalments/products`, label: "Products", isMain: true }
  const nothing =
    status !== "" || pages.first !== null
      ? empty("Nothing matches", "No instalment plan matches this filter.", { href: path, label: "Show all" })
      : empty(
          "No instalment plans yet",
          "A buyer starts a plan on the page of a product, and pays for it in parts before it is delivered. Create a product first.",
          canOperate ? { href: `${base}/instalments/products/new`, label: "New product", isMain: true } : products,
        )
  return html`${pageHead("Instalment plans", `${total} ${total === 1 ? "plan" : "plans"}`, [products])}${figures(summary)}${filterForm(view)}${
    plans.length === 0 ? nothing : html`${table("Instalment plans", planColumns(base), plans)}${pager(pages)}`
  }`
}

export interface InstalmentPlanView {
  readonly base: string
  readonly plan: Plan
  readonly transitions: ReadonlyArray<TransitionView>
  readonly upcoming: ReadonlyArray<Upcoming>
  readonly canOperate: boolean
}

const actionsOn = ({ base, plan: { id, status, shippedAt } }: InstalmentPlanView): ReadonlyArray<ActionLink> => {
  const link = (verb: string, label: string, isMain = false) => ({
    href: `${base}/instalments/${id}/${verb}`,
    label,
    isMain,
  })
  if (status === "active" || status === "overdue") return [link("extend", "Give more time")]
  if (status === "completed" && shippedAt === null) return [link("ship", "Mark as shipped", true)]
  return status === "shipped" ? [link("deliver", "Mark as delivered", true)] : []
}

/** A document is at most 60 KB: a longer schedule shows its first part, and the API the rest. */
const SHOWN = 60

const schedule = ({ instalments }: Plan): Html => {
  const shown = instalments.slice(0, SHOWN)
  return html`${table(
    "Schedule",
    [
      { name: "Instalment", cell: ({ index }: Plan["instalments"][number]) => String(index) },
      { name: "Due", cell: ({ dueAt }) => when(dueAt) },
      { name: "Status", cell: (row) => status(row.status) },
      { name: "Paid", cell: ({ paidAt }) => when(paidAt) },
      { name: "Amount", cell: ({ amount }) => whole(amount), isNumber: true },
    ],
    shown,
  )}${shown.length < instalments.length && html`<p class="quiet">The first ${shown.length} of ${instalments.length} instalments.</p>`}`
}

export const instalmentPlanMain = (view: InstalmentPlanView): Html => {
  const { plan, transitions, upcoming, canOperate } = view
  return html`${pageHead(`${plan.productName} ${plan.id}`, status(plan.status), canOperate ? actionsOn(view) : [])}${facts(
    [
      ["Paid", `${whole(plan.amountPaid)} of ${whole(plan.targetAmount)}`],
      ["Left to pay", whole(plan.outstanding)],
      ["Late fees to pay", whole(plan.pendingFee)],
      ["Next due", plan.nextDue === null ? null : html`${whole(plan.nextDue.amount)}, ${when(plan.nextDue.dueAt)}`],
      ["Deadline", when(plan.deadline)],
      ["How", `${plan.mode}${plan.frequency === null ? "" : `, ${words(plan.frequency)}`}`],
      ["Paid in full", when(plan.completedAt)],
      ["Shipped", when(plan.shippedAt)],
      ["Delivered", when(plan.deliveredAt)],
      ["Can be given back until", when(plan.refundWindowEndsAt)],
      ["Started", when(plan.createdAt)],
    ],
  )}
${plan.instalments.length > 0 && section("Schedule", schedule(plan))}${section(
  "What happened",
  html`${upcomingList(upcoming)}${transitionsTable(transitions)}`,
)}`
}

export interface ProductsView {
  readonly base: string
  readonly path: string
  readonly products: typeof ProductList.Type
  readonly pages: Pages
  readonly canOperate: boolean
}

export const productsMain = ({ base, path, products, pages, canOperate }: ProductsView): Html => {
  const create = { href: `${path}/new`, label: "New product", isMain: true }
  const nameOf = ({ id, name }: typeof Product.Type): Html =>
    canOperate ? html`<a href="${`${path}/${id}/edit`}">${name}</a>` : html`${name}`
  return html`${pageHead("Products in instalments", null, [
    ...(canOperate ? [create] : []),
    { href: `${base}/instalments`, label: "Plans" },
  ])}${
    products.length === 0
      ? empty(
          "No products yet",
          "A product is something that buyers pay for in parts before you deliver it.",
          canOperate ? create : null,
        )
      : html`${table(
          "Products in instalments",
          [
            { name: "Product", cell: nameOf },
            { name: "Status", cell: ({ isActive }) => (isActive ? status("active") : "not offered") },
            { name: "Price", cell: ({ price }) => whole(price), isNumber: true },
            {
              name: "Plans",
              cell: ({ slots }) => (slots.total === null ? String(slots.used) : `${slots.used} of ${slots.total}`),
              isNumber: true,
            },
            { name: "Overdue", cell: ({ overdue }) => String(overdue), isNumber: true },
            { name: "To deliver", cell: ({ readyToDeliver }) => String(readyToDeliver), isNumber: true },
            { name: "Collected", cell: ({ collected }) => whole(collected), isNumber: true },
          ],
          products,
        )}${pager(pages)}`
  }`
}
