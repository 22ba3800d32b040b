/** Tests a batch of submissions that does not wait for locks: a submission that needs a locked row continues alone. */
import { Cause, Effect, Exit } from "effect"
import { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { sessions } from "../../src/buying/checkout/checkout.ts"
import { claimSessions } from "../../src/buying/checkout/claimSession.ts"
import type { Submission } from "../../src/buying/payment_page/submission.ts"
import type { Tenant } from "../../src/db/tenant.ts"
import { WaitForLocks } from "../../src/postgres/lockWait.ts"
import { checkout, createSession } from "../support/checkout.ts"
import { lockUntilReleased } from "../support/hold.ts"
import { useOwnInstance } from "../support/instance.ts"
import { useServices } from "../support/services.ts"
import { advance, createClock, createCustomer, createPlan, data } from "../support/story.ts"

const { api, database } = useOwnInstance()
const services = useServices(database)

const TYPED: Submission = {
  details: null,
  methodId: "pm_test_success",
  email: null,
  code: null,
  simulated: true,
  number: null,
  amountKobo: null,
  seenKobo: null,
}

interface Submitted extends Partial<Submission> {
  /** The session's ID. */
  readonly id: string
}

/** Claims the sessions in one batch that does not wait. Returns each one's code, or the claim. */
const claimed = async (...submitted: ReadonlyArray<Submitted>) => {
  const [{ account_id }] = (await database.run(
    (sql) => sql<{ account_id: string }>`SELECT account_id FROM checkout_session WHERE id = ${submitted[0]!.id}`,
  )) as [{ account_id: string }]
  const tenant: Tenant = { account_id, livemode: false }
  const batch = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const claims = yield* Effect.forEach(submitted, ({ id, ...typed }) =>
      Effect.map(sessions.get(tenant, id), (found) => ({ found, submitted: { ...TYPED, ...typed }, hostedBy: null })),
    )
    return yield* sql.withTransaction(Effect.provideService(claimSessions(tenant, claims), WaitForLocks, false))
  })
  return (await services(batch)).map((exit) => {
    if (Exit.isSuccess(exit)) return exit.value.kind
    const reason = exit.cause.reasons.find(Cause.isFailReason)
    return reason === undefined ? String(exit.cause) : reason.error.code
  })
}

const holdSubscription = (id: string) =>
  lockUntilReleased(database, (sql) => sql`SELECT 1 FROM subscription WHERE id = ${id} FOR UPDATE`)

describe("submissions of many buyers", () => {
  it("skip some of each buyer's consecutive submissions; all of one buyer's are claimed", async () => {
    const [busy, other] = [await checkout(api), await checkout(api)]
    const wrong = Array.from({ length: 6 }, () => ({ id: busy.id, methodId: "pm_none" }))
    expect(await claimed(...wrong, { id: other.id, methodId: "pm_none" })).toEqual([
      ...Array(4).fill("resource_missing"),
      ...Array(2).fill("lock_timeout"),
      "resource_missing",
    ])
    expect(await claimed(...wrong)).toEqual(Array(6).fill("resource_missing"))
  })

  it("need locked rows only if they change them", async () => {
    const clock = await createClock(api, "2026-01-31T09:00:00Z")
    const customer = await createCustomer(api, { test_clock: clock })
    const overduePlan = {
      customer,
      plan: await createPlan(api),
      payment_method: "pm_test_success_then_insufficient_funds",
    }
    const overdue = data(await api.post("/subscriptions", overduePlan), 201).id
    await advance(api, clock, "2026-03-01T16:00:00Z")
    const paid = await createSession(api, { customer, plan: await createPlan(api) })
    const trial = await createSession(api, { customer, plan: await createPlan(api, { trial_days: 7 }) })
    const locked = await holdSubscription(overdue)
    // The trial completes immediately, and the overdue bill is tried with its method.
    expect(await claimed({ id: trial.id })).toEqual(["lock_timeout"])
    expect(await claimed({ id: trial.id, amountKobo: 1 })).toEqual(["amount_changed"])
    expect(await claimed({ id: paid.id, amountKobo: 1 })).toEqual(["amount_changed"])
    expect(await claimed({ id: paid.id, methodId: "pm_none" })).toEqual(["resource_missing"])
    await locked.release()
  })

  it("need the subscriptions that a new default would pay for, even if nothing is due", async () => {
    const customer = await createCustomer(api)
    const paying = { customer, plan: await createPlan(api), payment_method: "pm_test_success" }
    const current = data(await api.post("/subscriptions", paying), 201).id
    const trial = await createSession(api, { customer, plan: await createPlan(api, { trial_days: 7 }) })
    const locked = await holdSubscription(current)
    expect(await claimed({ id: trial.id })).toEqual(["lock_timeout"])
    await locked.release()
    expect(await claimed({ id: trial.id })).toEqual(["started"])
    expect(data(await api.get(`/customers/${customer}`)).default_payment_method.id).toBe("pm_test_success")
  })

  it("close a session that has expired, or leave it to a caller that can wait for its subscription", async () => {
    const { id, subscription } = await checkout(api)
    await database.run(
      (sql) =>
        sql`UPDATE checkout_session SET created_at = created_at - interval '2 days', expires_at = created_at - interval '1 day' WHERE id = ${id}`,
    )
    const status = async () => data(await api.get(`/checkout-sessions/${id}`)).status
    const locked = await holdSubscription(subscription)
    expect(await claimed({ id })).toEqual(["lock_timeout"])
    expect(await status()).toBe("open")
    await locked.release()
    expect(await claimed({ id })).toEqual(["over"])
    expect(await status()).toBe("expired")
  })
})
