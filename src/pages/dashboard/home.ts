/** Renders Home: what needs attention and what to do about it, then the figures with their charts. */
import type { Subscription } from "../../billing/subscription/api.ts"
import type { Usage } from "../../merchants/usage/api.ts"
import { type Html, html } from "../html.ts"
import { chart } from "./charts.ts"
import { idIn, nameIn } from "./expanded.ts"
import { firstSteps, type Steps } from "./firstSteps.ts"
import { type ActionLink, dayText, naira, pageHead, section, table, when, words } from "./parts.ts"

export interface OfDay {
  /** `YYYY-MM-DD`. */
  readonly day: string
  readonly value: number
}

export interface Upcoming {
  /** Whether there are more subscriptions than were read. */
  readonly isLowerBound: boolean
  readonly kobo: number
  readonly days: ReadonlyArray<OfDay>
}

export interface HomeFigures {
  readonly from: string
  readonly to: string
  readonly collected: ReadonlyArray<OfDay>
  readonly recovered: ReadonlyArray<OfDay>
  /** At the end of each day. */
  readonly overdue: ReadonlyArray<OfDay>
  readonly overdueKobo: number
  readonly mrr: ReadonlyArray<OfDay>
  readonly mrrKobo: number
  readonly movements: ReadonlyArray<{ readonly kind: string; readonly kobo: number; readonly count: number }>
  readonly upcoming: Upcoming
  readonly counts: {
    readonly active: number
    readonly past_due: number
    readonly trialing: number
    readonly paused: number
  }
}

/** How many problems there are of each kind. */
export interface Attention {
  readonly disabled_endpoints: number
  readonly other_amounts: number
  readonly exceptions: number
  readonly failed_refunds: number
  readonly stopped_clocks: number
}

export interface HomeView {
  readonly base: string
  readonly isSandbox: boolean
  readonly steps: Steps
  readonly attention: Attention
  /** With their plans, customers and latest charges. */
  readonly overdue: ReadonlyArray<typeof Subscription.Type>
  readonly figures: HomeFigures
  readonly usage: typeof Usage.Type
  readonly may: { readonly operate: boolean; readonly develop: boolean; readonly finance: boolean }
}

/** Counting stops here (src/dashboard/counts.ts): a count of one more means "or more". Higher ones are those that a worker keeps. */
const MAX_COUNTED = 10_000

const counted = (count: number): string =>
  count === MAX_COUNTED + 1 ? `${MAX_COUNTED.toLocaleString("en")}+` : count.toLocaleString("en")

const plural = (count: number, one: string, many: string): string => `${counted(count)} ${count === 1 ? one : many}`

const sum = (days: ReadonlyArray<OfDay>): number => days.reduce((total, { value }) => total + value, 0)

const dayName = (day: string): string => dayText(Date.parse(`${day}T00:00:00Z`))

const points = (days: ReadonlyArray<OfDay>) => days.map(({ day, value }) => ({ name: dayName(day), value }))

interface Problem {
  readonly tone: "warning" | "error"
  readonly text: string
  readonly action: ActionLink
}

/** What needs attention, the most urgent first. */
const problemsOf = ({ base, attention, figures, may }: HomeView): ReadonlyArray<Problem> => {
  const { disabled_endpoints, other_amounts, exceptions, failed_refunds, stopped_clocks } = attention
  const { past_due } = figures.counts
  const problem = (count: number, tone: Problem["tone"], text: string, href: string, label: string) =>
    count === 0 ? [] : [{ tone, text, action: { href, label } }]
  return [
    ...problem(
      past_due,
      "error",
      `${plural(past_due, "subscription is", "subscriptions are")} overdue. Customers owe ${naira(figures.overdueKobo)}.`,
      `${base}/subscriptions?status=past_due`,
      "Show all overdue",
    ),
    ...problem(
      other_amounts,
      "error",
      `${plural(other_amounts, "charge", "charges")} got another amount than requested: settle this with the customer.`,
      `${base}/charges?status=pending`,
      "Show pending charges",
    ),
    ...problem(
      exceptions,
      "warning",
      `A payment rail contradicts the books for ${plural(exceptions, "payment", "payments")}.`,
      may.finance ? `${base}/settlements` : `${base}/charges`,
      "Look at them",
    ),
    ...problem(
      failed_refunds,
      "warning",
      `${plural(failed_refunds, "refund", "refunds")} failed at the payment rail.`,
      may.finance ? `${base}/settlements` : `${base}/charges`,
      "Look at the refunds",
    ),
    ...problem(
      may.develop ? disabled_endpoints : 0,
      "error",
      `${plural(disabled_endpoints, "webhook endpoint was", "webhook endpoints were")} disabled: your system gets no events there.`,
      `${base}/webhooks`,
      "Enable again",
    ),
    ...problem(
      may.develop ? stopped_clocks : 0,
      "warning",
      `${plural(stopped_clocks, "test clock has", "test clocks have")} stopped with an error.`,
      `${base}/clocks`,
      "Look at the clocks",
    ),
  ]
}

const attentionList = (view: HomeView): Html => {
  const problems = problemsOf(view)
  if (problems.length === 0)
    return html`<div class="notice success attention"><p>Nothing needs your attention.</p></div>
`
  return html`<ul class="attention">${problems.map(
    ({ tone, text, action }) =>
      html`<li><div class="${`notice ${tone}`}"><span>${text}</span> <a class="act" href="${action.href}">${action.label}</a></div></li>
`,
  )}</ul>
`
}

const amountOf = (charge: unknown): string =>
  charge instanceof Object && "amount" in charge ? naira(Number(charge.amount)) : "–"

/** The subscriptions that have not paid, each with what to do. */
const overdueList = ({ base, overdue, may }: HomeView): Html | false =>
  overdue.length > 0 &&
  section(
    "Who has not paid",
    table(
      "Who has not paid",
      [
        {
          name: "Customer",
          cell: ({ id, customer }: typeof Subscription.Type) =>
            html`<a href="${`${base}/subscriptions/${id}`}">${nameIn(customer)}</a>`,
        },
        { name: "Plan", cell: ({ plan }) => nameIn(plan) },
        { name: "Owes", cell: ({ latest_charge }) => amountOf(latest_charge), isNumber: true },
        { name: "Next try", cell: ({ retry }) => when(retry?.next_retry_at ?? null) },
        ...(may.operate
          ? [
              {
                name: "What to do",
                cell: ({ customer }: typeof Subscription.Type) =>
                  html`<a class="act" href="${`${base}/nudges/new?customer=${idIn(customer)}`}">Remind</a>`,
              },
            ]
          : []),
      ],
      overdue,
    ),
  )

const figure = (title: string, amount: string, about: Html | string, drawn: Html | false): Html =>
  html`<section class="figure"><h2>${title}</h2><p class="amount">${amount}</p><p class="small quiet">${about}</p>${drawn}</section>
`

const moneyChart = (kind: "bars" | "line", label: string, days: ReadonlyArray<OfDay>): Html =>
  chart({ label, kind, points: points(days), text: naira, columns: ["Day", "Amount"] })

const movementsText = ({ movements }: HomeFigures): Html | string => {
  const moved = movements.filter(({ count }) => count > 0)
  return moved.length === 0
    ? "No change in 30 days."
    : html`In 30 days: ${moved.map(({ kind, kobo }, at) => html`${at > 0 && ", "}<span class="whole">${words(kind)} ${naira(kobo)}</span>`)}.`
}

/** The allowance of the account's plan that this month has used. */
const allowance = ({ usage: { write_requests, nudges, plan } }: HomeView): Html => {
  const of = (used: number, included: number | null) =>
    included === null ? used.toLocaleString("en") : `${used.toLocaleString("en")} of ${included.toLocaleString("en")}`
  return figure(
    "Allowance used this month",
    of(write_requests.used, write_requests.included),
    `write requests in live, and ${of(nudges.used, nudges.included)} reminders, of the ${plan} plan.`,
    write_requests.included !== null &&
      chart({
        label: "Allowance used this month",
        kind: "meter",
        points: [
          { name: "Used", value: write_requests.used },
          { name: "Included", value: write_requests.included },
        ],
        text: (value) => value.toLocaleString("en"),
        columns: ["Write requests", "Number"],
      }),
  )
}

const figures = (view: HomeView): Html => {
  const { from, to, collected, recovered, overdue, overdueKobo, mrr, mrrKobo, upcoming, counts } = view.figures
  const period = `${dayName(from)} to ${dayName(to)}`
  const rest = [
    ...(counts.trialing > 0 ? [`${counted(counts.trialing)} in trial`] : []),
    ...(counts.past_due > 0 ? [`${counted(counts.past_due)} overdue`] : []),
    ...(counts.paused > 0 ? [`${counted(counts.paused)} paused`] : []),
  ]
  return html`<div class="figures">${figure(
    "Collected in 30 days",
    naira(sum(collected)),
    `Payments taken, ${period}.`,
    moneyChart("bars", "Collected by day", collected),
  )}${figure(
    "To be collected in the next 30 days",
    `${upcoming.isLowerBound ? "At least " : ""}${naira(upcoming.kobo)}`,
    upcoming.isLowerBound
      ? "The next charges of 10,000 subscriptions, if all pay; the others are not counted."
      : "The next charge of each active subscription and trial, if all pay.",
    moneyChart("bars", "To be collected by day", upcoming.days),
  )}${figure(
    "Overdue",
    naira(overdueKobo),
    "What customers owe now, by the books.",
    moneyChart("line", "Overdue at the end of each day", overdue),
  )}${figure(
    "Recovered in 30 days",
    naira(sum(recovered)),
    "Overdue bills that were paid after all.",
    moneyChart("bars", "Recovered by day", recovered),
  )}${figure(
    "Monthly recurring revenue",
    naira(mrrKobo),
    movementsText(view.figures),
    moneyChart("line", "Monthly recurring revenue at the end of each day", mrr),
  )}${figure(
    "Active subscriptions",
    counted(counts.active),
    rest.length === 0 ? "None is overdue." : `And ${rest.join(", ")}.`,
    chart({
      label: "Subscriptions by status",
      kind: "categories",
      points: Object.entries(counts).map(([name, value]) => ({ name: words(name), value })),
      text: counted,
      columns: ["Status", "Subscriptions"],
    }),
  )}${allowance(view)}</div>
`
}

export const homeMain = (view: HomeView): Html => {
  const { steps } = view
  if (!steps.subscription && !steps.charge) return html`${pageHead("Home")}${firstSteps(view)}`
  return html`${pageHead("Home")}${attentionList(view)}${overdueList(view)}${section("Figures", figures(view))}`
}
