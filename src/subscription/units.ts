/** Reporting units (spec 2.12, 4.5; decisions E1, E17): counted on the subscription, billed with its next renewal. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { newId } from "../ids.ts"
import { formatKobo, MAX_AMOUNT_KOBO } from "../money.ts"
import { invalid, problem } from "../problem.ts"
import { formatInstant, parseInstant } from "../time.ts"
import type { UnitReport } from "./api.ts"
import { readTerms, type SubscriptionRow } from "./rows.ts"
import { applyEvent, lockForEvent } from "./Subscriptions.ts"

/** Far above any meter, far below what a number holds exactly. */
const MOST_UNITS = 1_000_000_000_000

const COUNTING: ReadonlyArray<SubscriptionRow["status"]> = ["trialing", "active", "past_due"]

/** Counts reported units. The subscription's row is locked: a renewal bills them, or comes after and bills the others. */
export const reportUnits = (tenant: Tenant, id: string, report: UnitReport) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { row, now } = yield* lockForEvent(tenant, id)
    const at = report.timestamp === undefined ? now : parseInstant(report.timestamp)!
    if (at > now) {
      return yield* invalid("timestamp", `timestamp must not lie in the future: it is ${formatInstant(now)}.`)
    }
    if (!COUNTING.includes(row.status)) {
      return yield* problem("subscription_state_invalid", `The subscription is ${row.status}: it takes no units.`)
    }
    if (row.billing_cycle === "per_delivery") {
      return yield* problem(
        "subscription_state_invalid",
        "Deliveries cannot be reported yet: only plans with a calendar count units.",
      )
    }
    if (at < row.period_start_at) {
      const message = `The current period began at ${formatInstant(row.period_start_at)}: units before it are billed.`
      return yield* problem("timestamp_out_of_period", message, "timestamp")
    }
    const action = report.action ?? "increment"
    const total = action === "set" ? report.quantity : row.units + report.quantity
    if (total > MOST_UNITS) return yield* invalid("quantity", `A period's units may come to at most ${MOST_UNITS}.`)
    const unitKobo = (yield* readTerms([row])).get(row.id)?.overage_per_unit_kobo ?? 0
    if (total * unitKobo + row.price_kobo * row.quantity > MAX_AMOUNT_KOBO) {
      return yield* invalid("quantity", `The period's charge may come to at most ${formatKobo(MAX_AMOUNT_KOBO)}.`)
    }
    yield* applyEvent(row, { type: "units", at: now, quantity: report.quantity, action }, now)
    const record = {
      account_id: row.account_id,
      livemode: row.livemode,
      id: newId("unit_record"),
      subscription_id: row.id,
      test_clock_id: row.test_clock_id,
      quantity: report.quantity,
      action,
      period_total: total,
      reported_at: new Date(at),
      description: report.description ?? null,
      created_at: new Date(now),
    }
    yield* sql`INSERT INTO unit_record ${sql.insert(record)}`
    return {
      id: record.id,
      object: "unit_record" as const,
      livemode: row.livemode,
      created_at: formatInstant(now),
      subscription: row.id,
      quantity: record.quantity,
      action,
      period_total: total,
      timestamp: formatInstant(at),
      description: record.description,
    }
  })
