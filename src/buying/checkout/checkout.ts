/** A checkout session: its table, its lifecycle, and how the API shows it. */
import {
  CHECKOUT_MODES,
  CHECKOUT_STATUSES,
  type CheckoutContext,
  checkoutMachine,
  checkoutStatusOf,
} from "../../../machines/checkout.ts"
import type { Metadata } from "../../base/metadata.ts"
import { formatInstant } from "../../base/time.ts"
import * as column from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import type { CheckoutSession } from "./api.ts"

const { immutable, mutable } = columnsOf<CheckoutContext>()

export const sessions = actorTable<CheckoutContext>()(
  "checkout_session",
  { noun: "checkout session", ids: "checkout_session" },
  {
    mode: immutable(column.oneOf(CHECKOUT_MODES)),
    plan_id: immutable(column.nullable(column.text)),
    quantity: immutable(column.nullable(column.integer)),
    price_kobo: immutable(column.nullable(column.bigint)),
    trial_days: immutable(column.nullable(column.integer)),
    test_clock_id: immutable(column.nullable(column.text)),
    success_url: immutable(column.text),
    cancel_url: immutable(column.text),
    metadata: immutable(column.json<Metadata>()),
    token_hash: immutable(column.text),
    created_at: immutable(column.instant),
    expires_at: immutable(column.instant, "expiresAt"),
    status: mutable(column.oneOf(CHECKOUT_STATUSES), checkoutStatusOf),
    completed_at: mutable(column.nullable(column.instant), "completedAt"),
    customer_id: mutable(column.nullable(column.text)),
    /** The customer was created from the details that the buyer typed. */
    customer_is_new: mutable(column.flag),
    subscription_id: mutable(column.nullable(column.text)),
    /** The newest payment attempt on its page. */
    charge_id: mutable(column.nullable(column.text)),
    payment_method_id: mutable(column.nullable(column.text)),
    /** The hash of the submission number of the newest form. */
    submission: mutable(column.nullable(column.text)),
    /** The session that was completed instead. */
    replaced_by: mutable(column.nullable(column.text)),
  },
)

export type SessionRow = RowOf<typeof sessions>
export type SessionTransition = Transition<typeof checkoutMachine, SessionRow>

export const checkoutLifecycle: Lifecycle<typeof checkoutMachine, SessionRow> = {
  kind: "checkout_session",
  machine: checkoutMachine,
  machineVersion: 1,
  // After everything that subscriptions charge or cancel at the same instant.
  ranks: { expiry: 6 },
  table: sessions,
}

/** Renders a session. `url`: null in events, which contain no token. */
export const renderSession = (row: SessionRow, url: string | null): typeof CheckoutSession.Type => ({
  ...commonOf("checkout_session", row),
  mode: row.mode,
  status: row.status,
  url,
  customer: row.customer_id,
  plan: row.plan_id,
  quantity: row.quantity,
  subscription: row.subscription_id,
  success_url: row.success_url,
  cancel_url: row.cancel_url,
  expires_at: formatInstant(row.expires_at),
  metadata: row.metadata,
})
