/**
 * Submits a checkout page (decisions G2, G3, G8). One transaction claims the session and commits the charge (claimSession.ts). The rail is
 * called after it, and its result arrives through the payment subject (paymentSubject.ts). Other submissions meanwhile wait for that
 * result.
 */
import { Effect } from "effect"
import { type ChargeRow, charges } from "../../billing/charge/charge.ts"
import { Payments } from "../../billing/payments/Payments.ts"
import { TenantDatabase } from "../../db/TenantDatabase.ts"
import { type Tenant, tenantOf } from "../../db/tenant.ts"
import { Batches } from "../../http/batches.ts"
import { orMade } from "../../http/failures.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { pageWaitingLimit, waitForCharge } from "../payment_page/settled.ts"
import type { Submission } from "../payment_page/submission.ts"
import { type SessionRow, sessions } from "./checkout.ts"
import { buyerOf, claimSessions } from "./claimSession.ts"
import type { SessionClaim } from "./completeSubmission.ts"

/** The result of a submission. */
export interface Completed {
  readonly session: SessionRow
  /** The payment of this form, else the newest on the page, if any. */
  readonly charge: ChargeRow | undefined
  /** Whether this submission caused the result, or repeats the one that did. */
  readonly own: boolean
  /** The payment of another request, still in progress after the longest wait. */
  readonly busyWith?: ChargeRow
}

/** Submissions that arrive together start in one batch. */
const SUBMISSIONS = {}

const start = (claim: SessionClaim) =>
  Effect.flatMap(Batches, (batches) => {
    const tenant = tenantOf(claim.found)
    return retryingDeadlocks(batches.start(SUBMISSIONS, tenant, buyerOf(claim.found), claim, claimSessions))
  })

/** Reads the current session, with the given payment or its newest one. */
const readCompleted = Effect.fnUntraced(function* (tenant: Tenant, id: string, chargeId?: string) {
  const session = yield* sessions.get(tenant, id)
  const wanted = chargeId ?? session.charge_id
  const charge = wanted === null ? undefined : yield* charges.get(tenant, wanted)
  return { session, charge }
})

/** Submits the page of a session; returns the result, as far as it is known. */
export const submitCheckout = Effect.fn("checkout.submit")(function* (
  found: SessionRow,
  submitted: Submission,
  hostedBy: OutsideRail | null,
) {
  const { reading } = yield* TenantDatabase
  const tenant = tenantOf(found)
  const limit = pageWaitingLimit()
  const read = (chargeId?: string) => reading(tenant, readCompleted(tenant, found.id, chargeId))
  for (let latest = found; ; latest = yield* reading(tenant, sessions.get(tenant, found.id))) {
    const started = yield* start({ found: latest, submitted, hostedBy })
    if (started.kind === "over") return { ...(yield* read(started.chargeId)), own: started.again } satisfies Completed
    if (started.kind === "started") {
      const { session, charge, attempts, codes, now } = started
      const finished = Effect.gen(function* () {
        yield* (yield* Payments).collect(attempts, now, codes)
        if (charge === undefined) return yield* read()
        const paid = yield* waitForCharge(tenant, charge.id, limit)
        return { session: yield* reading(tenant, sessions.get(tenant, found.id)), charge: paid }
      })
      return { ...(yield* orMade(finished, () => ({ session, charge }))), own: true } satisfies Completed
    }
    if (started.kind === "once_more") continue
    const charge = yield* waitForCharge(tenant, started.chargeId, limit)
    if (started.own) return { ...(yield* read(started.chargeId)), own: true } satisfies Completed
    if (charge.status === "pending") return { ...(yield* read()), own: false, busyWith: charge } satisfies Completed
  }
})
