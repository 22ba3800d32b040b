import { describe, expect, it } from "vitest"
import { Subscription } from "../../src/billing/subscription/api.ts"
import type { Viewer } from "../../src/dashboard/pages.ts"
import { subscriptionActions } from "../../src/dashboard/subscriptionActions.ts"
import type { Role } from "../../src/security/role/rights.ts"

type Shown = typeof Subscription.Type

const { examples } = Subscription.ast.annotations as unknown as { readonly examples: readonly [Shown] }
const [EXAMPLE] = examples

const viewer = (role: Role, environment: "live" | "sandbox" = "live") =>
  ({ session: { role }, environment, base: `/dashboard/${environment}` }) as Viewer

const labels = (over: Partial<Shown>, role: Role = "support"): ReadonlyArray<string> =>
  subscriptionActions({ ...EXAMPLE, ...over }, viewer(role)).map(({ label }) => label)

const charge = (status: string) => ({ id: "chg_1", status })

describe("the actions that a subscription allows now", () => {
  it("follow its status", () => {
    expect(labels({})).toEqual(["Pause", "Change", "Report units", "Send a nudge", "Cancel"])
    expect(labels({ status: "trialing" })).toEqual(["Change", "Report units", "Send a nudge", "Cancel"])
    expect(labels({ status: "paused" })).toEqual(["Resume", "Change", "Send a nudge", "Cancel"])
    expect(labels({ status: "incomplete" })).toEqual(["Change", "Send a nudge", "Cancel"])
    expect(labels({ status: "cancelled" })).toEqual(["Send a nudge"])
    expect(labels({ cancel_at_period_end: true })).toContain("Keep it")
  })

  it("offer a retry of what is owed, and nothing that a pending charge or the plan forbids", () => {
    expect(labels({ status: "past_due", latest_charge: charge("failed") })[0]).toBe("Retry the payment")
    const escalated = { action: "pause", triggered_at: EXAMPLE.created_at } as const
    expect(labels({ status: "paused", escalation: escalated, latest_charge: charge("failed") }).slice(0, 2)).toEqual([
      "Retry the payment",
      "Resume",
    ])
    expect(labels({ latest_charge: charge("pending") })).not.toContain("Pause")
    expect(labels({ plan: { id: "plan_1", pause_enabled: false } })).not.toContain("Pause")
  })

  it("are none for a member who may not operate there", () => {
    expect(labels({}, "finance")).toEqual([])
    expect(labels({}, "developer")).toEqual([])
    expect(subscriptionActions(EXAMPLE, viewer("developer", "sandbox"))).not.toEqual([])
  })
})
