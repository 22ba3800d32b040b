/** A delivery of an event to an endpoint: its table and its rendering for the API (decisions I2, I5). */
import { DELIVERY_STATUSES } from "../../../machines/delivery.ts"
import { formatInstantOrNull } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Delivery } from "./api.ts"

const { immutable, mutable } = columnsOf()

export const deliveries = table(
  "webhook_delivery",
  { noun: "delivery", ids: "delivery" },
  {
    event_id: immutable(column.text),
    webhook_endpoint_id: immutable(column.text),
    object_id: immutable(column.text),
    /** A test: the process that created it sends it, once. */
    once: immutable(column.flag),
    created_at: immutable(column.instant),
    status: mutable(column.oneOf(DELIVERY_STATUSES)),
    /** Tries made. */
    attempt: mutable(column.smallint),
    /** The time of the next try; null: now if pending, else none. */
    due_at: mutable(column.nullable(column.instant)),
    response_status: mutable(column.nullable(column.smallint)),
    response_body: mutable(column.nullable(column.text)),
    failure_reason: mutable(column.nullable(column.text)),
    duration_ms: mutable(column.nullable(column.integer)),
  },
)

export type DeliveryRow = RowOf<typeof deliveries>

export const renderDelivery = (row: DeliveryRow): typeof Delivery.Type => ({
  ...commonOf("delivery", row),
  event: row.event_id,
  webhook_endpoint: row.webhook_endpoint_id,
  attempt: row.attempt,
  status: row.status,
  response_status: row.response_status,
  response_body: row.response_body,
  failure_reason: row.failure_reason,
  duration_ms: row.duration_ms,
  next_attempt_at: row.status === "pending" ? formatInstantOrNull(row.due_at ?? row.created_at) : null,
})
