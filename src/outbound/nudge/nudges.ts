/** Creates nudges by hand (decisions H3, H7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { asReference, checkBeforeStateError, invalid, noSuch, problem } from "../../base/problem.ts"
import { DAY_MS } from "../../base/time.ts"
import { clockTime } from "../../billing/clock/clocks.ts"
import { customers } from "../../billing/customer/customer.ts"
import { ofTenant, type Tenant, tenantOf } from "../../db/tenant.ts"
import { commit } from "../../runtime/commit.ts"
import type { NudgeCreate } from "./api.ts"
import { newNudge, readAddressees } from "./create.ts"
import { NudgeSubjects } from "./NudgeSubjects.ts"
import { Nudging } from "./Nudging.ts"

/** The limit of nudges by hand per customer within 24 hours. */
const MAX_BY_HAND = 3

/** Refuses `custom_message` with a template that has its own text. */
export const checkCreate = (name: string, { template }: NudgeCreate) =>
  name === "custom_message" && template !== "custom"
    ? Effect.fail(invalid(name, "custom_message is allowed only with the template custom."))
    : undefined

/** Refuses the template `custom` without `custom_message`. */
export const missingOfCreate = ({ template, custom_message }: NudgeCreate) =>
  template === "custom" && custom_message === undefined
    ? problem("parameter_missing", "custom_message is required if template is custom.", "custom_message")
    : undefined

/** Counts the customer's nudges by hand since `since`, except those that were never sent and failed. The customer must be locked. */
const countByHand = Effect.fnUntraced(function* (tenant: Tenant, customerId: string, since: number) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number }>`
    SELECT count(*) AS n FROM nudge
    WHERE customer_id = ${customerId} AND ${ofTenant(sql, tenant)}
      AND source <> 'automatic' AND created_at > ${PgTypes.timestamptz(since)} AND NOT (status = 'failed' AND sent_at IS NULL)`
  return row!.n
})

/** Reads the nudge's subscription, which must belong to the customer. */
const subjectOf = Effect.fnUntraced(function* (tenant: Tenant, customerId: string, named: string | null) {
  if (named === null) return null
  const subjects = yield* NudgeSubjects
  const subject = yield* asReference(subjects.find(tenant, named), "subscription")
  return subject.customerId === customerId
    ? subject.about
    : yield* invalid("subscription", `subscription must belong to the customer: ${named} belongs to another one.`)
})

/** Creates a nudge. It is sent after the commit. */
export const createNudge = Effect.fn("nudge.create")(function* (tenant: Tenant, input: NudgeCreate, byMember: boolean) {
  const found = yield* asReference(customers.get(tenant, input.customer), "customer")
  const subject = subjectOf(tenant, found.id, input.subscription ?? null)
  const now = yield* checkBeforeStateError(subject, asReference(clockTime(tenant, found.test_clock_id), "customer"))
  // The lock makes the limit hold for concurrent requests too.
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
    source: byMember ? ("dashboard" as const) : ("api" as const),
    reminder: null,
    sendAt: null,
    at: now,
  }
  const addressees = yield* readAddressees([{ ...request, planId: about?.planId ?? null }])
  const { token } = yield* Nudging
  const nudge = newNudge(request, addressees, token)
  // Cannot happen while its customer is locked.
  if (nudge === undefined) return yield* noSuch("customer", customer.id)
  yield* commit([nudge.outcome])
  return nudge.row
})
