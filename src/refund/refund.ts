/** A refund: money that a rail sends back (decision P8). Its table and its lifecycle. */
import { REFUND_STATUSES, type RefundContext, refundMachine, refundStatusOf } from "../../machines/refund.ts"
import * as Kind from "../db/Kind.ts"
import { actorTable, columnsOf, type RowOf } from "../db/table.ts"
import { RAILS } from "../rail/Rail.ts"
import type { Lifecycle } from "../runtime/lifecycle.ts"

const { fixed, moving } = columnsOf<RefundContext>()

export const refunds = actorTable<RefundContext>()(
  "refund",
  { noun: "refund" },
  {
    charge_id: fixed(Kind.text),
    customer_id: fixed(Kind.text),
    rail: fixed(Kind.oneOf(RAILS)),
    amount_kobo: fixed(Kind.bigint),
    status: moving(Kind.oneOf(REFUND_STATUSES), refundStatusOf),
    requested_at: moving(Kind.instant, "requestedAt"),
    failures: moving(Kind.integer, "failures"),
    asks: moving(Kind.integer, "asks"),
    rail_refund_id: moving(Kind.nullable(Kind.text), "refundId"),
    failure_message: moving(Kind.nullable(Kind.text), "message"),
    returned_at: moving(Kind.nullable(Kind.instant)),
    created_at: fixed(Kind.instant),
  },
)

export type RefundRow = RowOf<typeof refunds>

export const refundLifecycle: Lifecycle<typeof refundMachine, RefundRow> = {
  kind: "refund",
  machine: refundMachine,
  machineVersion: 1,
  ranks: { ask: 0, again: 0 },
  table: refunds,
}
