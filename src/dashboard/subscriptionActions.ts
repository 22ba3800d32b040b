/** The actions on a subscription that are possible now, as links to their pages (src/dashboard/subscriptions.ts). */
import { UNIT_STATUSES } from "../../machines/status.ts"
import type { Subscription } from "../billing/subscription/api.ts"
import { fieldIn, idIn } from "../pages/dashboard/expanded.ts"
import type { ActionLink } from "../pages/dashboard/parts.ts"
import { canOperate, type Viewer } from "./pages.ts"

type Shown = typeof Subscription.Type

/**
 * Lists the actions that are possible now for a member who may operate; none for others. With the plan and the latest charge expanded it also
 * leaves out what the plan does not allow, and offers to retry a failed charge.
 */
export const subscriptionActions = (
  subscription: Shown,
  viewer: Pick<Viewer, "session" | "environment" | "base">,
): ReadonlyArray<ActionLink> => {
  const { id, status, plan, customer, latest_charge: latest, cancel_at_period_end: isEnding } = subscription
  if (!canOperate(viewer)) return []
  const { base } = viewer
  const link = (verb: string, label: string, more: Partial<ActionLink> = {}): ActionLink => ({
    href: `${base}/subscriptions/${id}/${verb}`,
    label,
    ...more,
  })
  const nudge = { href: `${base}/nudges/new?customer=${idIn(customer)}&subscription=${id}`, label: "Send a nudge" }
  if (status === "cancelled") return [nudge]
  const isCharging = fieldIn(latest, "status") === "pending"
  const isOwed = status === "past_due" || subscription.escalation?.action === "pause"
  const isFailed = isOwed && fieldIn(latest, "status") === "failed"
  const canPause = status === "active" && !isCharging && fieldIn(plan, "pause_enabled") !== false
  return [
    ...(isFailed ? [{ href: `${base}/charges/${idIn(latest)}/retry`, label: "Retry the payment", isMain: true }] : []),
    ...(status === "paused" && !isCharging ? [link("resume", "Resume", { isMain: true })] : []),
    ...(canPause ? [link("pause", "Pause")] : []),
    ...(isEnding ? [link("keep", "Keep it")] : []),
    link("change", "Change"),
    ...(UNIT_STATUSES.includes(status) ? [link("units", "Report units")] : []),
    nudge,
    link("cancel", "Cancel", { isDanger: true }),
  ]
}
