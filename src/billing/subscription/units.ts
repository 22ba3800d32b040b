/**
 * Takes reports of units (decisions D8, E1, E17). Units are counted on the subscription and billed with its next renewal. On a plan billed
 * by deliveries, each report is a renewal.
 */
import { Effect, Exit } from "effect"
import { type SubscriptionEvent, UNIT_ACTIONS, type UnitAction } from "../../../machines/events.ts"
import { UNIT_STATUSES } from "../../../machines/status.ts"
import { newId } from "../../base/ids.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../../base/money.ts"
import { invalid, problem } from "../../base/problem.ts"
import { formatInstant, parseInstant } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import type { Tenant } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { commonOf } from "../../http/response.ts"
import { recoverCharges } from "../payments/simulatorCharges.ts"
import { waitForPayment } from "../payments/waitForPayment.ts"
import type { UnitRecord, UnitReport } from "./api.ts"
import { type Applied, applyAll, type Found, type Locked } from "./apply.ts"

const { immutable } = columnsOf()

export const unitRecords = table(
  "unit_record",
  { noun: "unit record", ids: "unit_record" },
  {
    subscription_id: immutable(column.text),
    test_clock_id: immutable(column.nullable(column.text)),
    quantity: immutable(column.bigint),
    action: immutable(column.oneOf(UNIT_ACTIONS)),
    period_total: immutable(column.bigint),
    reported_at: immutable(column.instant),
    description: immutable(column.nullable(column.text)),
    created_at: immutable(column.instant),
  },
)

export type UnitRecordRow = RowOf<typeof unitRecords>

export const renderUnitRecord = (row: UnitRecordRow): typeof UnitRecord.Type => ({
  ...commonOf("unit_record", row),
  subscription: row.subscription_id,
  quantity: row.quantity,
  action: row.action,
  period_total: row.period_total,
  timestamp: formatInstant(row.reported_at),
  description: row.description,
})

/** Finishes the charge of a report that a crash interrupted. */
export const finishReport = (tenant: Tenant, id: string) =>
  Effect.flatMap(unitRecords.get(tenant, id), ({ subscription_id }) =>
    recoverCharges({ subscriptionId: subscription_id }),
  )

/** Far above any meter, far below the limit of exact integers. */
const MAX_UNITS = 1_000_000_000_000

/** The period's units after a report, and the event on the subscription, if any. */
interface Counted {
  readonly total: number
  readonly event: SubscriptionEvent | undefined
}

const count = Effect.fnUntraced(function* ({ row, now, terms }: Found, action: UnitAction, quantity: number) {
  const total = action === "set" ? quantity : row.units + quantity
  if (total > MAX_UNITS) return yield* invalid("quantity", `A period's units must be at most ${MAX_UNITS}.`)
  // Units of a trial are free.
  const unitKobo = row.status === "trialing" ? 0 : (terms.overage_per_unit_kobo ?? 0)
  if (total * unitKobo + row.price_kobo * row.quantity > MAX_AMOUNT_KOBO) {
    return yield* invalid("quantity", `The period's charge must be at most ${formatKobo(MAX_AMOUNT_KOBO)}.`)
  }
  return { total, event: { type: "units", at: now, quantity, action } } satisfies Counted
})

const refuseUndeliverable = ({ row }: Locked, action: UnitAction) => {
  if (action === "set")
    return Effect.fail(
      problem(
        "subscription_state_invalid",
        "The plan is billed by deliveries: report them with action increment.",
        "action",
      ),
    )
  if (row.bill !== null)
    return Effect.fail(
      problem("subscription_unpaid", `The charge ${row.latest_charge_id} for earlier deliveries is not paid yet.`),
    )
  return Effect.void
}

const deliver = Effect.fnUntraced(function* ({ row, now }: Locked, deliveredAt: number, quantity: number) {
  if (row.price_kobo * row.quantity * quantity > MAX_AMOUNT_KOBO)
    return yield* invalid("quantity", `The charge must be at most ${formatKobo(MAX_AMOUNT_KOBO)}.`)
  // Without a delivery there is nothing to bill.
  const event = quantity === 0 ? undefined : ({ type: "deliver", at: now, deliveries: quantity, deliveredAt } as const)
  return { total: quantity, event } satisfies Counted
})

/** A request to record units of the subscription that its path names. */
interface Report {
  readonly id: string
  readonly body: UnitReport
}

/** Decides on a report; returns its event and its record. */
const take = Effect.fnUntraced(function* (found: Found, { body: report }: Report) {
  const { row, now } = found
  const at = report.timestamp === undefined ? now : parseInstant(report.timestamp)!
  if (at > now) {
    return yield* invalid("timestamp", `timestamp must not be in the future: it is ${formatInstant(now)}.`)
  }
  const action = report.action ?? "increment"
  if (!UNIT_STATUSES.includes(row.status)) {
    return yield* problem("subscription_state_invalid", `The subscription is ${row.status}: it takes no units.`)
  }
  if (row.state === "ending")
    return yield* problem("subscription_state_invalid", "The subscription's last period is over: it takes no units.")
  const byDelivery = row.billing_cycle === "per_delivery"
  if (byDelivery) yield* refuseUndeliverable(found, action)
  if (at < row.period_start_at) {
    const message = `The current period began at ${formatInstant(row.period_start_at)}: units before it are already billed.`
    return yield* problem("timestamp_out_of_period", message, "timestamp")
  }
  // Units and deliveries reported during a trial are free (decision E1).
  const { total, event }: Counted =
    byDelivery && row.status !== "trialing"
      ? yield* deliver(found, at, report.quantity)
      : yield* count(found, action, report.quantity)
  const record: UnitRecordRow = {
    account_id: row.account_id,
    livemode: row.livemode,
    id: newId("unit_record"),
    subscription_id: row.id,
    test_clock_id: row.test_clock_id,
    quantity: report.quantity,
    action,
    period_total: total,
    reported_at: at,
    description: report.description ?? null,
    created_at: now,
  }
  return {
    event,
    answer: ({ attempts }: Applied) => ({ record, after: Effect.as(waitForPayment(attempts, now), record) }),
  }
})

/**
 * Takes reports that are processed together; returns the result of each. Locks each subscription's row, so that exactly one renewal bills a
 * unit.
 */
export const reportAllUnits = Effect.fn("subscription.reportUnits")(function* (
  tenant: Tenant,
  reports: ReadonlyArray<Report>,
) {
  const taken = yield* applyAll(tenant, reports, take)
  const records = taken.filter(Exit.isSuccess).map(({ value }) => value.record)
  ;(yield* unitOfWork).insert(unitRecords, records)
  return taken.map(
    Exit.map(({ record, after }) => ({
      id: record.id,
      made: () => renderUnitRecord(record),
      after: Effect.map(after, renderUnitRecord),
    })),
  )
})
