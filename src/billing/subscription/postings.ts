/**
 * Computes what a subscription's transition does in the books: entries by the posting rules, and schedules that recognise deferred revenue.
 * Pure.
 */
import { type Line, shareOf } from "../../../machines/billing.ts"
import { allParamsOf, paramsOf } from "../../../machines/decide.ts"
import type { Posting, ServiceEnd } from "../../../machines/events.ts"
import type { Bill } from "../../../machines/periods.ts"
import { dayOf } from "../../base/time.ts"
import { type About, entriesOf, type NewEntry } from "../../ledger/ledger.ts"
import { deferredIn, type Split } from "../../ledger/postings.ts"
import { endSchedule, type NewSchedule, recognisedKobo, restOf, type Schedule } from "../../ledger/schedule.ts"
import type { OpenSchedule, ScheduleChange } from "../../ledger/schedules.ts"
import type { ChargeRow } from "../charge/charge.ts"
import type { SubscriptionRow, SubscriptionTransition } from "./subscription.ts"

export interface SubscriptionBooks {
  readonly entries: ReadonlyArray<NewEntry>
  readonly schedules: ReadonlyArray<ScheduleChange>
}

const NOTHING: SubscriptionBooks = { entries: [], schedules: [] }

/** The facts for the books beside the transition. */
export interface BookFacts {
  /** The subscription after the transition. */
  readonly row: SubscriptionRow
  /** The charge whose answer caused the transition. */
  readonly settled: ChargeRow | undefined
  /** The subscription's newest schedule, if {@link needsSchedule} asks for it. */
  readonly open: OpenSchedule | undefined
  readonly vatBps: number
}

type Post = { readonly posting: Posting; readonly bill: Bill }

/** Postings that depend on the rest of an earlier schedule. */
const REVISITS: ReadonlyArray<Posting> = ["overdue_paid", "written_off"]

/** The day from which a transition changes its subscription's newest schedule; undefined: it does not change it. */
export const needsSchedule = ({ decision, event }: SubscriptionTransition): number | undefined => {
  const end = paramsOf(decision, "endService")
  if (end !== undefined) return dayOf(end.at)
  const revisits = allParamsOf(decision, "post").some(
    ({ posting, bill }) => REVISITS.includes(posting) || bill.purpose === "resume",
  )
  return revisits ? dayOf(event.at) : undefined
}

const aboutOf = (row: SubscriptionRow, day: number, billNo: number | null, charge?: ChargeRow): About => ({
  account_id: row.account_id,
  livemode: row.livemode,
  customerId: row.customer_id,
  subscriptionId: row.id,
  chargeId: charge?.id ?? null,
  planId: row.plan_id,
  billNo,
  testClockId: row.test_clock_id,
  day,
})

/** Converts a credit on a period's price into its share of the schedule's amount, which is without VAT. */
const netOf = (creditKobo: number, { price_kobo, amount_kobo }: Schedule): number =>
  shareOf(amount_kobo, Math.min(creditKobo, price_kobo), price_kobo)

/** Recognises `recognisedKobo` of a schedule's rest immediately; the remainder moves elsewhere, or waits. */
const endEarly = (
  reason: "ended" | "paused" | "resumed" | "delivered",
  row: SubscriptionRow,
  { schedule, day }: OpenSchedule,
  recognisedKobo: number,
  movedKobo: number,
): SubscriptionBooks => {
  const about = aboutOf(row, day, schedule.bill_no)
  const key = `${row.id}:${schedule.bill_no}:${schedule.part}`
  return {
    entries: entriesOf(`service_${reason}`, key, about, { recognisedKobo }),
    schedules: [{ type: "change", schedule: endSchedule(schedule, day, recognisedKobo, movedKobo) }],
  }
}

/** Books service that ends before the period does, or that follows no calendar. */
const atServiceEnd = (
  { reason, creditKobo }: ServiceEnd,
  row: SubscriptionRow,
  open: OpenSchedule | undefined,
): SubscriptionBooks => {
  const rest = open === undefined ? 0 : restOf(open.schedule, open.day)
  if (open === undefined || open.schedule.state === "ended") return NOTHING
  switch (reason) {
    case "cancelled":
      return endEarly("ended", row, open, rest, 0)
    case "delivered":
      return endEarly("delivered", row, open, rest, 0)
    case "paused":
      // Without a credit the paid period runs to its normal end.
      return creditKobo === 0 ? NOTHING : endEarly("paused", row, open, rest - netOf(creditKobo, open.schedule), 0)
    case "escalated":
      // A schedule that begins with this same transition begins stopped.
      if (open.schedule.bill_no !== row.bill?.no) return NOTHING
      return { entries: [], schedules: [{ type: "change", schedule: endSchedule(open.schedule, open.day, 0, 0) }] }
  }
}

/** A new schedule of a bill over its period. */
const scheduleOf = (
  row: SubscriptionRow,
  bill: Pick<Bill, "no" | "periodStart" | "periodEnd">,
  part: number,
  amounts: Pick<NewSchedule, "price_kobo" | "amount_kobo" | "carried_kobo" | "vat_kobo">,
  postedDay: number,
  state: NewSchedule["state"] = "running",
): ReadonlyArray<ScheduleChange> =>
  amounts.amount_kobo === 0
    ? []
    : [
        {
          type: "begin",
          schedule: {
            account_id: row.account_id,
            livemode: row.livemode,
            subscription_id: row.id,
            bill_no: bill.no,
            part,
            customer_id: row.customer_id,
            plan_id: row.plan_id,
            test_clock_id: row.test_clock_id,
            ...amounts,
            start_day: dayOf(bill.periodStart),
            end_day: row.billing_cycle === "per_delivery" ? null : dayOf(bill.periodEnd),
            posted_day: postedDay,
            state,
          },
        },
      ]

const amountOf = ({ lines }: Bill, wanted: Line["type"]): number =>
  lines.reduce((sum, { type, amount }) => (type === wanted ? sum + amount : sum), 0)

/** Books the sale of a bill, and the rest of the interrupted period that it resumes. */
const atSale = (
  { posting, bill }: Post,
  day: number,
  { row, settled, open, vatBps }: BookFacts,
  state: NewSchedule["state"],
): SubscriptionBooks => {
  const bps = posting === "waived" ? 0 : vatBps
  const rail = settled?.rail ?? ""
  const sale = { lines: bill.lines, customerId: row.customer_id, rail, vatBps: bps }
  const entries = entriesOf(posting, `${row.id}:${bill.no}`, aboutOf(row, day, bill.no, settled), sale)
  const { netKobo, vatKobo } = deferredIn(bill.lines, bps)
  const isOver = open === undefined || open.schedule.state === "ended" || open.schedule.bill_no >= bill.no
  const rest = isOver || bill.purpose !== "resume" ? 0 : restOf(open.schedule, open.day)
  const [price, credit] = [amountOf(bill, "plan"), -amountOf(bill, "proration")]
  const carried = rest === 0 ? 0 : netOf(credit, open!.schedule)
  const before = rest === 0 ? NOTHING : endEarly("resumed", row, open!, rest - carried, carried)
  const amounts = {
    price_kobo: price,
    amount_kobo: netKobo + carried,
    carried_kobo: carried,
    vat_kobo: vatKobo,
  }
  return {
    entries: [...before.entries, ...entries],
    schedules: [...before.schedules, ...scheduleOf(row, bill, 1, amounts, day, state)],
  }
}

/** Books the payment of an overdue bill. If it buys a new period (decision D7), the unserved rest is served in that period. */
const atLatePayment = ({ bill }: Post, day: number, { row, settled, open, vatBps }: BookFacts): SubscriptionBooks => {
  const sale = { lines: bill.lines, customerId: row.customer_id, rail: settled?.rail ?? "", vatBps }
  const entries = entriesOf("overdue_paid", `${row.id}:${bill.no}`, aboutOf(row, day, bill.no, settled), sale)
  const continues = row.period_start_at === bill.periodStart && open?.schedule.state === "running"
  if (continues || open === undefined || open.schedule.state === "ended" || open.schedule.bill_no !== bill.no)
    return { entries, schedules: [] }
  const rest = restOf(open.schedule, open.day)
  const period = { no: bill.no, periodStart: row.period_start_at, periodEnd: row.period_end_at }
  const amounts = { price_kobo: open.schedule.price_kobo, amount_kobo: rest, carried_kobo: 0, vat_kobo: 0 }
  return {
    entries,
    schedules: [
      { type: "change", schedule: endSchedule(open.schedule, open.day, 0, rest) },
      ...scheduleOf(row, period, open.schedule.part + 1, amounts, day),
    ],
  }
}

/**
 * The part of a schedule that was owed and not served before day `on`. Keeps the rest: credited amounts, which were paid for, and service
 * before the day of booking, which is recognised on that day.
 */
const unservedOf = ({ schedule, day }: OpenSchedule, on: number): Split & { readonly keptKobo: number } => {
  const rest = restOf(schedule, day)
  const served = schedule.state === "running" ? recognisedKobo(schedule, on - 1) : 0
  const unserved = Math.min(rest, schedule.amount_kobo - served - schedule.adjusted_kobo - schedule.moved_kobo)
  const owed = schedule.amount_kobo - schedule.carried_kobo
  const netKobo = shareOf(unserved, owed, schedule.amount_kobo)
  const vatKobo = owed === 0 ? 0 : shareOf(schedule.vat_kobo, netKobo, owed)
  return { netKobo, vatKobo, keptKobo: rest - netKobo }
}

/** The same if the schedule's credit waits for the next bill of the resumption (decision E24): only the owed part is given up. */
const unservedBesideCredit = ({ schedule, day }: OpenSchedule): Split & { readonly keptKobo: number } => {
  const netKobo = Math.max(0, restOf(schedule, day) - schedule.carried_kobo)
  const owed = schedule.amount_kobo - schedule.carried_kobo
  return { netKobo, vatKobo: owed === 0 ? 0 : shareOf(schedule.vat_kobo, netKobo, owed), keptKobo: 0 }
}

/** Books the write-off of an overdue bill. `isForgiven`: the subscription continues, with its credit. */
const atWriteOff = ({ bill }: Post, day: number, { row, open }: BookFacts, isForgiven: boolean): SubscriptionBooks => {
  const isOfBill = open !== undefined && open.schedule.bill_no === bill.no && open.schedule.state !== "ended"
  const split = isForgiven && isOfBill && open.schedule.carried_kobo > 0 ? unservedBesideCredit : unservedOf
  const { keptKobo, ...unserved } = isOfBill ? split(open, day) : { netKobo: 0, vatKobo: 0, keptKobo: 0 }
  const written = { lines: bill.lines, customerId: row.customer_id, unserved }
  const about = aboutOf(row, isOfBill ? Math.max(day, open.day) : day, bill.no)
  const kept = isOfBill ? endEarly("ended", row, open, keptKobo, unserved.netKobo) : NOTHING
  return {
    entries: [...entriesOf("written_off", `${row.id}:${bill.no}`, about, written), ...kept.entries],
    schedules: kept.schedules,
  }
}

const ofPosting = (
  post: Post,
  day: number,
  facts: BookFacts,
  end: ServiceEnd | undefined,
  isForgiven: boolean,
): SubscriptionBooks => {
  switch (post.posting) {
    case "overdue_paid":
      return atLatePayment(post, day, facts)
    case "written_off":
      return atWriteOff(post, day, facts, isForgiven)
    default:
      // Escalation by the failure that made the bill overdue: its period was never served.
      return atSale(post, day, facts, end?.reason === "escalated" ? "stopped" : "running")
  }
}

/** Books a payment for a cancelled subscription: the money is owed back (decision E15). Nothing sends it automatically. */
const atRefund = (row: SubscriptionRow, charge: ChargeRow, day: number): ReadonlyArray<NewEntry> =>
  entriesOf("refund_due", charge.id, aboutOf(row, day, charge.bill_no, charge), {
    amountKobo: charge.amount_kobo,
    rail: charge.rail,
    customerId: row.customer_id,
  })

/** Returns the last of several changes of one schedule; it includes the others. */
const newestOf = (changes: ReadonlyArray<ScheduleChange>): ReadonlyArray<ScheduleChange> => [
  ...new Map(changes.map((one) => [`${one.type} ${one.schedule.bill_no} ${one.schedule.part}`, one])).values(),
]

/** The entries and schedules of a transition. */
export const booksOf = ({ decision, event }: SubscriptionTransition, facts: BookFacts): SubscriptionBooks => {
  const { row, settled, open } = facts
  const day = dayOf(event.at)
  const end = paramsOf(decision, "endService")
  const all: Array<SubscriptionBooks> = end === undefined ? [] : [atServiceEnd(end, row, open)]
  // Each posting sees the schedule as the previous one left it.
  let current = open
  for (const post of allParamsOf(decision, "post")) {
    const books = ofPosting(post, day, { ...facts, open: current }, end, event.type === "resume")
    const changed = books.schedules.find(({ type }) => type === "change")
    if (current !== undefined && changed?.type === "change") current = { ...current, schedule: changed.schedule }
    all.push(books)
  }
  return {
    entries: [
      ...all.flatMap(({ entries }) => entries),
      ...(settled?.refund_due === true ? atRefund(row, settled, day) : []),
    ],
    schedules: newestOf(all.flatMap(({ schedules }) => schedules)),
  }
}
