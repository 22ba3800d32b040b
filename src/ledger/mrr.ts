/** Writes movements of monthly recurring revenue. src/billing/subscription/mrr.ts computes them. */
import { names, rowsAsTable } from "../db/rows.ts"
import type { Tenant } from "../db/tenant.ts"
import type { UnitOfWork } from "../db/UnitOfWork.ts"
import { formatDay } from "./schedule.ts"

const MRR_KINDS = ["new", "expansion", "contraction", "churn", "reactivation"] as const

export interface MrrMovement extends Tenant {
  readonly subscription_id: string
  /** The subscription's version after the transition that moved the MRR. */
  readonly version: number
  readonly customer_id: string
  readonly plan_id: string
  /** Days since the epoch, in the customer's clock. */
  readonly day: number
  readonly kind: (typeof MRR_KINDS)[number]
  readonly change_kobo: number
  readonly mrr_kobo: number
}

const MOVEMENT = {
  account_id: "text",
  livemode: "boolean",
  subscription_id: "text",
  version: "integer",
  customer_id: "text",
  plan_id: "text",
  moved_on: "date",
  kind: "text",
  change_kobo: "bigint",
  mrr_kobo: "bigint",
} as const

/** Writes movements. */
export const writeMovements = (unit: UnitOfWork, movements: ReadonlyArray<MrrMovement>): void => {
  if (movements.length === 0) return
  const { sql } = unit
  const rows = movements.map((movement) => ({ ...movement, moved_on: formatDay(movement.day) }))
  unit.add([
    ["movements", sql`INSERT INTO mrr_movement (${names(MOVEMENT)}) SELECT * FROM ${rowsAsTable(rows, MOVEMENT)} m`],
  ])
}
