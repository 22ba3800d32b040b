/** A delivery of an event to an endpoint: its table, and how the API shows it (decisions I2, I5). */
import { DELIVERY_STATUSES } from "../../../machines/delivery.ts"
import { formatInstantOrNull } from "../../base/time.ts"
import * as Kind from "../../db/columns.ts"
import { columnsOf, type RowOf, table } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Delivery } from "./api.ts"

const { fixed, moving } = columnsOf()

export const deliveries = table(
  "webhook_delivery",
  { noun: "delivery", ids: "delivery" },
  {
    event_id: fixed(Kind.text),
    webhook_endpoint_id: fixed(Kind.text),
    object_id: fixed(Kind.text),
    /** A test by hand: whoever asked for it sends it. */
    once: fixed(Kind.flag),
    created_at: fixed(Kind.instant),
    status: moving(Kind.oneOf(DELIVERY_STATUSES)),
    /** Tries made. */
    attempt: moving(Kind.smallint),
    /** The next try; null: at once, or none. */
    due_at: moving(Kind.nullable(Kind.instant)),
    response_status: moving(Kind.nullable(Kind.smallint)),
    response_body: moving(Kind.nullable(Kind.text)),
    failure_reason: moving(Kind.nullable(Kind.text)),
    duration_ms: moving(Kind.nullable(Kind.integer)),
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
