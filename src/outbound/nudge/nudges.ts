/** Nudges by hand (decisions H3, H7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { asReference, beforeState, invalid, noSuch, problem } from "../../base/problem.ts"
import { DAY_MS } from "../../base/time.ts"
import { standingTime } from "../../billing/clock/clocks.ts"
import { customers } from "../../billing/customer/customer.ts"
import { ofTenant, type Tenant, tenantOf } from "../../db/tenant.ts"
import { commit } from "../../runtime/commit.ts"
import type { NudgeCreate } from "./api.ts"
import { newNudge, readAddressees } from "./create.ts"
import { NudgeSubjects } from "./NudgeSubjects.ts"
import { Nudging } from "./Nudging.ts"

/** Nudges by hand that a customer may be sent within a day. */
const MAX_BY_HAND = 3

/** Refuses a message beside a template that has its own. */
export const checkCreate = (name: string, { template }: NudgeCreate) =>
  name === "custom_message" && template !== "custom"
    ? Effect.fail(invalid(name, "custom_message goes with the template custom only."))
    : undefined

/** The template custom needs its words. */
export const missingOfCreate = ({ template, custom_message }: NudgeCreate) =>
  template === "custom" && custom_message === undefined
    ? problem("parameter_missing", "custom_message is needed where template is custom.", "custom_message")
    : undefined

/** How many nudges by hand a customer was sent, or is being sent, since then. The customer must be locked. */
const countByHand = Effect.fnUntraced(function* (tenant: Tenant, customerId: string, since: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number }>`
    SELECT count(*) AS n FROM nudge
    WHERE customer_id = ${customerId} AND ${ofTenant(sql, tenant)}
      AND source <> 'automatic' AND created_at > ${PgTypes.timestamptz(since)} AND NOT (status = 'failed' AND sent_at IS NULL)`
  return row!.n
})

/** The subscription that a nudge is to be about, which must be the customer's. */
const subjectOf = Effect.fnUntraced(function* (tenant: Tenant, customerId: string, named: string | null) {
  if (named === null) return null
  const subjects = yield* NudgeSubjects
  const subject = yield* asReference(subjects.find(tenant, named), "subscription")
  return subject.customerId === customerId
    ? subject.about
    : yield* invalid("subscription", `subscription must be one of the customer's: ${named} is another's.`)
})

/** Makes a nudge, to be sent once it is committed. */
export const createNudge = Effect.fn("nudge.create")(function* (tenant: Tenant, input: NudgeCreate) {
  const found = yield* asReference(customers.get(tenant, input.customer), "customer")
  const subject = subjectOf(tenant, found.id, input.subscription ?? null)
  const now = yield* beforeState(subject, asReference(standingTime(tenant, found.test_clock_id), "customer"))
  // One at a time, so that the limit holds for nudges at once too.
  const customer = yield* customers.lockOne(tenant, found.id, "NO KEY UPDATE")
  const about = yield* subject
  if ((yield* countByHand(tenant, customer.id, now - DAY_MS)) >= MAX_BY_HAND)
    return yield* problem(
      "nudge_limit_reached",
      `The customer was sent ${MAX_BY_HAND} nudges within the last 24 hours: send the next one later.`,
    )
  const request = {
    ...tenantOf(tenant),
    customerId: customer.id,
    testClockId: customer.test_clock_id,
    about,
    template: input.template,
    message: input.custom_message ?? null,
    channels: input.channels ?? null,
    source: "api" as const,
    reminder: null,
    sendAt: null,
    at: now,
  }
  const addressees = yield* readAddressees([{ ...request, planId: about?.planId ?? null }])
  const { token } = yield* Nudging
  const made = newNudge(request, addressees, token)
  // Its customer is locked.
  if (made === undefined) return yield* noSuch("customer", customer.id)
  yield* commit([made.outcome])
  return made.row
})
