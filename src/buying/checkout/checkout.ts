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
import * as Kind from "../../db/columns.ts"
import { actorTable, columnsOf, type RowOf } from "../../db/table.ts"
import { commonOf } from "../../http/response.ts"
import type { Lifecycle, Transition } from "../../runtime/lifecycle.ts"
import type { CheckoutSession } from "./api.ts"

const { fixed, moving } = columnsOf<CheckoutContext>()

export const sessions = actorTable<CheckoutContext>()(
  "checkout_session",
  { noun: "checkout session", ids: "checkout_session" },
  {
    mode: fixed(Kind.oneOf(CHECKOUT_MODES)),
    plan_id: fixed(Kind.nullable(Kind.text)),
    quantity: fixed(Kind.nullable(Kind.integer)),
    price_kobo: fixed(Kind.nullable(Kind.bigint)),
    trial_days: fixed(Kind.nullable(Kind.integer)),
    test_clock_id: fixed(Kind.nullable(Kind.text)),
    success_url: fixed(Kind.text),
    cancel_url: fixed(Kind.text),
    metadata: fixed(Kind.json<Metadata>()),
    token_hash: fixed(Kind.text),
    created_at: fixed(Kind.instant),
    expires_at: fixed(Kind.instant, "expiresAt"),
    status: moving(Kind.oneOf(CHECKOUT_STATUSES), checkoutStatusOf),
    completed_at: moving(Kind.nullable(Kind.instant), "completedAt"),
    customer_id: moving(Kind.nullable(Kind.text)),
    /** The customer was created from what the buyer typed. */
    customer_is_new: moving(Kind.flag),
    subscription_id: moving(Kind.nullable(Kind.text)),
    /** The newest payment that was tried on its page. */
    charge_id: moving(Kind.nullable(Kind.text)),
    payment_method_id: moving(Kind.nullable(Kind.text)),
    /** The hash of what numbers the form that was submitted last. */
    submission: moving(Kind.nullable(Kind.text)),
    /** The session that was completed in its place. */
    replaced_by: moving(Kind.nullable(Kind.text)),
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

/** `url`: null in events, which hold no token. */
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
