/** Retrying an overdue bill by hand (spec 4.6; decision E16). */
import { Effect } from "effect"
import type { ChargeRow } from "../charge/rows.ts"
import type { Tenant } from "../db/tenant.ts"
import { problem } from "../problem.ts"
import { collect } from "./collect.ts"
import { apply, lockWithMethod, refuseWhileCharging } from "./Subscriptions.ts"

/** A further attempt at the bill of `charge`, its newest one, which failed. It uses up no automatic retry. */
export const retryBill = (tenant: Tenant, charge: ChargeRow, named: string | undefined) =>
  Effect.gen(function* () {
    const { method, ...locked } = yield* lockWithMethod(tenant, charge.subscription_id!, named)
    const { row, now } = locked
    yield* refuseWhileCharging(row)
    if (row.dunning === null)
      return yield* problem(
        "charge_not_retryable",
        `The subscription ${row.id} is ${row.status} and has no overdue payment.`,
      )
    if (row.latest_charge_id !== charge.id)
      return yield* problem(
        "charge_not_retryable",
        `Only the newest charge of the subscription can be retried: ${row.latest_charge_id}.`,
      )
    const [attempt] = yield* apply(locked, { type: "retry", at: now, methodId: method?.id ?? null })
    return { id: attempt!.id, after: collect([attempt!], now) }
  })
