/** A refund is money that a rail sends back (decision P8): its table, its lifecycle, and how it starts. */
import { Effect } from "effect"
import { REFUND_STATUSES, type RefundContext, refundMachine, refundStatusOf } from "../../../machines/refund.ts"
import { newId } from "../../base/ids.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { type Ref, refOf } from "../../db/tenant.ts"
import { type UnitOfWork, unitOfWork } from "../../db/UnitOfWork.ts"
import { isOutside, RAILS } from "../../rails/rail/Rail.ts"
import { type CallKind, queueCalls } from "../../rails/rail_call/queue.ts"
import { commit } from "../../runtime/commit.ts"
import type { Lifecycle } from "../../runtime/lifecycle.ts"
import { created } from "../../runtime/outcome.ts"
import type { ChargeRow } from "../charge/charge.ts"

const { immutable, mutable } = columnsOf<RefundContext>()

export const refunds = actorTable<RefundContext>()(
  "refund",
  { noun: "refund", ids: "refund" },
  {
    charge_id: immutable(column.text),
    customer_id: immutable(column.text),
    rail: immutable(column.oneOf(RAILS)),
    amount_kobo: immutable(column.bigint),
    status: mutable(column.oneOf(REFUND_STATUSES), refundStatusOf),
    requested_at: mutable(column.instant, "requestedAt"),
    failures: mutable(column.integer, "failures"),
    asks: mutable(column.integer, "asks"),
    accepted: mutable(column.flag, "accepted"),
    rail_refund_id: mutable(column.nullable(column.text), "refundId"),
    failure_message: mutable(column.nullable(column.text), "message"),
    returned_at: mutable(column.nullable(column.instant)),
    created_at: immutable(column.instant),
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

/** Creates a refund of the whole amount that a rail took for a charge, to be requested from that rail. */
export const newRefund = (charge: ChargeRow, takenKobo: number, now: number): RefundRow => ({
  account_id: charge.account_id,
  livemode: charge.livemode,
  id: newId("refund"),
  charge_id: charge.id,
  customer_id: charge.customer_id,
  rail: charge.rail,
  amount_kobo: takenKobo,
  version: 0,
  returned_at: null,
  created_at: now,
  ...refunds.snapshotColumns("pending.requesting", {
    requestedAt: now,
    failures: 0,
    asks: 0,
    accepted: false,
    refundId: null,
    message: null,
  }),
})

/** Queues rail calls about refunds. */
export const queueRefundCalls = (
  unit: UnitOfWork,
  of: ReadonlyArray<Ref & Pick<RefundRow, "rail">>,
  kind: CallKind,
): void =>
  queueCalls(
    unit,
    of.flatMap((refund) => (isOutside(refund.rail) ? [{ ...refOf(refund), rail: refund.rail, kind }] : [])),
    false,
  )

/** Starts refunds, in the running transaction. */
export const requestRefunds = Effect.fnUntraced(function* (of: ReadonlyArray<RefundRow>) {
  yield* commit(of.map((refund) => created(refundLifecycle, undefined, refund)))
  queueRefundCalls(yield* unitOfWork, of, "refund")
})
