/** The actions on a subscription that are possible now, as links to their pages. */
import type { Subscription } from "../billing/subscription/api.ts"
import type { ActionLink } from "../pages/dashboard/parts.ts"
import { may } from "../security/role/rights.ts"
import type { Viewer } from "./pages.ts"

/** Lists the actions that are possible now for a member who may operate; none for others. */
export const subscriptionActions = (
  { id, status, cancel_at_period_end: isEnding }: typeof Subscription.Type,
  { session, environment, base }: Pick<Viewer, "session" | "environment" | "base">,
): ReadonlyArray<ActionLink> => {
  if (!may(session.role, "operate", environment === "live") || status === "cancelled") return []
  const link = (verb: string, label: string, more: Partial<ActionLink> = {}): ActionLink => ({
    href: `${base}/subscriptions/${id}/${verb}`,
    label,
    ...more,
  })
  return [
    ...(status === "paused" ? [link("resume", "Resume", { isMain: true })] : []),
    ...(status === "active" ? [link("pause", "Pause")] : []),
    ...(isEnding ? [link("keep", "Keep it")] : []),
    link("change", "Change"),
    ...(status === "active" || status === "past_due" ? [link("units", "Report units")] : []),
    link("cancel", "Cancel", { isDanger: true }),
  ]
}
