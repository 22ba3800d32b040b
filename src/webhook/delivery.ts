/** A delivery of an event to an endpoint: its table, and how the API shows it (decisions I2, I5). */
import { DELIVERY_STATUSES } from "../../machines/delivery.ts"
import { columnsOf, flag, instant, integer, nullable, oneOf, type RowOf, smallint, table, text } from "../db/table.ts"
import { formatInstant, formatInstantOrNull } from "../time.ts"
import type { Delivery } from "./api.ts"

const { fixed, moving } = columnsOf()

export const deliveries = table(
  "webhook_delivery",
  { noun: "delivery" },
  {
    event_id: fixed(text),
    webhook_endpoint_id: fixed(text),
    object_id: fixed(text),
    /** A test by hand: whoever asked for it sends it. */
    once: fixed(flag),
    created_at: fixed(instant),
    status: moving(oneOf(DELIVERY_STATUSES)),
    /** Tries made. */
    attempt: moving(smallint),
    /** The next try; null: at once, or none. */
    due_at: moving(nullable(instant)),
    response_status: moving(nullable(smallint)),
    response_body: moving(nullable(text)),
    failure_reason: moving(nullable(text)),
    duration_ms: moving(nullable(integer)),
  },
)

export type DeliveryRow = RowOf<typeof deliveries>

export const renderDelivery = (row: DeliveryRow): typeof Delivery.Type => ({
  id: row.id,
  object: "delivery",
  livemode: row.livemode,
  created_at: formatInstant(row.created_at),
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
