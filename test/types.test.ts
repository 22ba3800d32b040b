/**
 * What must not compile: each line below is wrong, and the type check fails where one of them is not (an unused
 * `@ts-expect-error`).
 */
import { describe, expect, it } from "vitest"
import type { ChargeContext, chargeMachine, RailPage } from "../machines/charge.ts"
import { allParamsOf, type Decision, type DelayEvent, decide, hasEffect, paramsOf } from "../machines/decide.ts"
import type { DunningPolicy } from "../machines/dunning.ts"
import type { NudgeEvent } from "../machines/nudge.ts"
import { subscriptionMachine } from "../machines/subscription.ts"
import { problem } from "../src/base/problem.ts"
import { type ChargeRow, chargeLifecycle } from "../src/billing/charge/charge.ts"
import * as column from "../src/db/columns.ts"
import { actorTable, columnsOf } from "../src/db/table.ts"
import type { NewEvent } from "../src/outbound/event/events.ts"
import type { Command, Lifecycle, Transition } from "../src/runtime/lifecycle.ts"

type Subscription = Decision<typeof subscriptionMachine>

/** Never runs: only its types are checked. */
const wrong = [
  (decision: Subscription) => {
    const lines = paramsOf(decision, "attemptCharge")?.lines
    // @ts-expect-error an effect that the machine does not have
    paramsOf(decision, "attemptCharges")
    // @ts-expect-error a parameter that the effect does not have
    paramsOf(decision, "attemptCharge")?.totals
    // @ts-expect-error a misspelt effect
    hasEffect(decision, "setleCharge")
    // @ts-expect-error an emission is of one of the machine's types
    allParamsOf(decision, "emit").filter(({ type }) => type === "subscription.canceled")
    return lines
  },
  (snapshot: Subscription["snapshot"], policy: DunningPolicy) => {
    decide(subscriptionMachine, snapshot, { type: "charge.failed", at: 0, retryable: true, policy })
    // @ts-expect-error a misspelt event
    decide(subscriptionMachine, snapshot, { type: "charge.faild", at: 0, retryable: true, policy })
    // @ts-expect-error an event without its parameters
    decide(subscriptionMachine, snapshot, { type: "pause", at: 0 })
    // @ts-expect-error the timer of a state that does not have it
    decide(subscriptionMachine, snapshot, { type: "xstate.after.periodEnd.subscription.paused", at: 0 })
  },
  (row: ChargeRow): Command<typeof chargeMachine, ChargeRow> =>
    // @ts-expect-error an event of another machine
    ({ row, event: { type: "periodEnd", at: 0 } }),
  ({ decision }: Transition<typeof chargeMachine, ChargeRow>) => {
    // @ts-expect-error an effect of another machine
    paramsOf(decision, "attemptCharge")
  },
  (): Lifecycle<typeof chargeMachine, ChargeRow> => ({
    ...chargeLifecycle,
    // @ts-expect-error a delay without a rank
    ranks: {},
  }),
  (): NudgeEvent => {
    const event: DelayEvent<"receipts", "nudge.sent"> = { type: "xstate.after.receipts.nudge.sent", at: 0 }
    // @ts-expect-error a delay that the machine does not have
    return event
  },
  () => {
    const { mutable } = columnsOf<ChargeContext>()
    const whole = {
      sent_at: mutable(column.instant, "sentAt"),
      asks: mutable(column.integer, "asks"),
      not_found: mutable(column.integer, "notFound"),
      known_at: mutable(column.nullable(column.instant), "knownAt"),
      refused_for: mutable(column.nullable(column.text), "refusedFor"),
      page: mutable(column.nullable(column.json<RailPage>()), "page"),
      resend: mutable(column.nullable(column.oneOf(["possible", "made"])), "resend"),
    }
    const { known_at: _, ...partial } = whole
    actorTable<ChargeContext>()("charge", { noun: "charge" }, whole)
    // @ts-expect-error a field of the context that no column keeps
    actorTable<ChargeContext>()("charge", { noun: "charge" }, partial)
    // @ts-expect-error a field of another type than the column's
    mutable(text, "asks")
    // @ts-expect-error a column that can't hold the field's null
    mutable(instant, "knownAt")
    // @ts-expect-error a field that the context does not have
    mutable(integer, "askd")
  },
  (event: NewEvent) => {
    // @ts-expect-error an event that is not in the list
    const strange: NewEvent = { ...event, type: "subscription.canceled" }
    // @ts-expect-error a code that is not in the catalogue
    problem("resource_mising", "No such plan.")
    return strange
  },
]

describe("a type error about a machine, a table, an event or a code", () => {
  it("does not compile", () => {
    // The compiler makes this check, in a step of the same command (scripts/test.ts).
    expect(wrong).toHaveLength(8)
  })
})
