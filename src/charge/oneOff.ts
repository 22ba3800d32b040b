/** One-off charges (spec 4.6; decisions F6, E16): made once, outside any schedule; each failure can be retried once. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Line } from "../../machines/billing.ts"
import type { CustomerRow } from "../customer/Customers.ts"
import type { Tenant } from "../db/tenant.ts"
import { appendEvents, previousAttributes } from "../event/Events.ts"
import { postEntries } from "../ledger/Ledger.ts"
import * as postings from "../ledger/postings.ts"
import { Runner } from "../lifecycle/Runner.ts"
import type { Metadata } from "../metadata.ts"
import { problem } from "../problem.ts"
import { type PaymentMethodSummary, PaymentRail } from "../rail/PaymentRail.ts"
import { renderCharge } from "./Charge.ts"
import { type ChargeRow, insertCharges, newCharge } from "./rows.ts"

interface OneOff {
  readonly customer: CustomerRow
  readonly amountKobo: number
  readonly lines: ReadonlyArray<Line>
  readonly description: string | null
  readonly metadata: Metadata
  readonly method: PaymentMethodSummary
  readonly methodNamed: boolean
  readonly attemptNumber: number
  readonly retryOf: string | null
  /** Now, in the customer's clock. */
  readonly now: number
}

/** Commits a one-off charge to be attempted once the transaction is through. */
export const insertOneOff = (tenant: Tenant, made: OneOff) =>
  Effect.gen(function* () {
    const rail = yield* PaymentRail
    const runner = yield* Runner
    const row = newCharge({
      account_id: tenant.account_id,
      livemode: tenant.livemode,
      customer_id: made.customer.id,
      subscription_id: null,
      test_clock_id: made.customer.test_clock_id,
      bill_no: null,
      attempt_number: made.attemptNumber,
      amount_kobo: made.amountKobo,
      period_start_at: null,
      period_end_at: null,
      lines: made.lines,
      payment_method: made.method,
      payment_method_named: made.methodNamed,
      retry_of: made.retryOf,
      rail: rail.name,
      sent_at: made.now,
      sender: runner.id,
      description: made.description,
      metadata: made.metadata,
      created_at: made.now,
    })
    runner.inFlight.add([row])
    yield* insertCharges([row])
    return row
  })

/** The failed one-off charge, locked, that may be retried now: not one that was retried already. */
export const lockRetriable = (tenant: Tenant, id: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const mine = sql`account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}`
    const [row] = yield* sql<ChargeRow>`SELECT * FROM charge WHERE ${mine} AND id = ${id} FOR UPDATE`
    if (row?.status !== "failed")
      return yield* problem("charge_not_retryable", `The charge is ${row?.status}: only a failed one can be retried.`)
    const [retry] = yield* sql<{ id: string }>`SELECT id FROM charge WHERE ${mine} AND retry_of = ${id}`
    if (retry !== undefined)
      return yield* problem("charge_not_retryable", `The charge was retried already, as ${retry.id}: retry that one.`)
    return row
  })

/** What settled one-off charges leave behind: their books and their events. In the running transaction. */
export const settleOneOffs = (
  settled: ReadonlyArray<{ readonly before: ChargeRow; readonly after: ChargeRow }>,
  now: number,
) =>
  Effect.gen(function* () {
    yield* postEntries(
      settled
        .filter(({ after }) => after.status === "succeeded")
        .map(({ after }) => ({
          account_id: after.account_id,
          livemode: after.livemode,
          event: "paid",
          idempotencyKey: `paid:${after.id}`,
          customerId: after.customer_id,
          subscriptionId: null,
          chargeId: after.id,
          at: now,
          lines: postings.paid({ lines: after.lines, rail: after.rail, customerId: after.customer_id }),
        })),
    )
    yield* appendEvents(
      settled.map(({ before, after }) => {
        const object = renderCharge(after)
        return {
          account_id: after.account_id,
          livemode: after.livemode,
          type: `charge.${after.status}`,
          object,
          previous: previousAttributes(renderCharge(before), object),
          test_clock_id: after.test_clock_id,
          at: now,
        }
      }),
    )
  })
