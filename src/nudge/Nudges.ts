/** Nudges by hand (spec 4.8; decisions H3, H7). */
import { Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { standingTime } from "../clock/Clocks.ts"
import { findCustomers, lockCustomer } from "../customer/Customers.ts"
import type { Tenant } from "../db/tenant.ts"
import { invalid, noSuchReference, problem } from "../problem.ts"
import { DAY_MS } from "../time.ts"
import type { NudgeCreate } from "./api.ts"
import { type About, makeNudges } from "./make.ts"
import { countByHand } from "./rows.ts"

/** Nudges by hand that a customer may be sent within a day. */
const MOST_BY_HAND = 3

/** Finds what a nudge can say of a subscription, and whose it is. */
export type Subjects = (
  tenant: Tenant,
  subscriptionId: string,
) => Effect.Effect<
  { readonly customerId: string; readonly about: About } | undefined,
  SqlError.SqlError,
  SqlClient.SqlClient
>

const checkMessage = ({ template, custom_message }: NudgeCreate) => {
  if (template === "custom" && custom_message === undefined)
    return Effect.fail(
      problem("parameter_missing", "custom_message is needed where template is custom.", "custom_message"),
    )
  return template !== "custom" && custom_message !== undefined
    ? Effect.fail(invalid("custom_message", "custom_message goes with the template custom only."))
    : Effect.void
}

/** Makes a nudge, to be sent once it is committed. */
export const createNudge = (tenant: Tenant, input: NudgeCreate, subjects: Subjects) =>
  Effect.gen(function* () {
    yield* checkMessage(input)
    const [found] = yield* findCustomers(tenant, [input.customer])
    if (found === undefined) return yield* noSuchReference("customer", input.customer, "customer")
    const now = yield* standingTime(tenant, found.test_clock_id)
    // One at a time, so that the limit holds for nudges at once too.
    const customer = yield* lockCustomer(tenant, found.id, "NO KEY UPDATE")
    const named = input.subscription ?? null
    const subject = named === null ? undefined : yield* subjects(tenant, named)
    if (named !== null && subject === undefined) return yield* noSuchReference("subscription", named, "subscription")
    if (subject !== undefined && subject.customerId !== customer.id)
      return yield* invalid("subscription", `subscription must be one of the customer's: ${named} is another's.`)
    if ((yield* countByHand(tenant, customer.id, now - DAY_MS)) >= MOST_BY_HAND)
      return yield* problem(
        "nudge_limit_reached",
        `The customer was sent ${MOST_BY_HAND} nudges within the last 24 hours: send the next one later.`,
      )
    const [nudge] = yield* makeNudges([
      {
        account_id: tenant.account_id,
        livemode: tenant.livemode,
        customerId: customer.id,
        testClockId: customer.test_clock_id,
        about: subject?.about ?? null,
        template: input.template,
        message: input.custom_message ?? null,
        channels: input.channels ?? null,
        source: "api",
        reminder: null,
        sendAt: null,
        at: now,
      },
    ])
    return nudge!
  })
