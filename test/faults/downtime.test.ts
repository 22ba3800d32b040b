import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { KEYS } from "../../scripts/server.ts"
import { servicesLayer } from "../../src/app/services.ts"
import { DAY_MS } from "../../src/base/time.ts"
import { chargeTimers } from "../../src/billing/payments/simulatorCharges.ts"
import { subscriptionTimers } from "../../src/billing/subscription/timers.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { sweep } from "../../src/runtime/fire.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { holdTable, lockUntilReleased } from "../support/hold.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const [database, served, shared, alone] = [useDatabase(), useDatabase(), useDatabase(), useDatabase()]

/** More than a batch, so that several are in progress at the same time. */
const SUBSCRIPTIONS = 1200

const bill = {
  no: 2,
  purpose: "renewal",
  anchorAt: Date.UTC(2025, 0, 1),
  periodNo: 1,
  quantity: 1,
  periodStart: Date.UTC(2025, 1, 1),
  periodEnd: Date.UTC(2025, 2, 1),
  lines: [{ type: "plan", description: "Plan", quantity: 1, unit_amount: 5000, amount: 5000 }],
  amountKobo: 5000,
  attempt: 1,
  attemptedAt: Date.UTC(2025, 1, 1),
  origin: "due",
  methodId: null,
  nextMethod: null,
  standIn: null,
}

const dunning = {
  policy: { maxAttempts: 2, intervalsDays: [1, 7], escalation: "restrict_access", cancelAfterDays: 9 },
  firstFailedAt: Date.UTC(2025, 1, 1),
  retriesMade: 0,
  nextRetryAt: Date.UTC(2025, 1, 2),
  gaveUp: false,
}

/** Overdue subscriptions after months of downtime: all their timers are long due. */
const seed = (account: string) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`
      INSERT INTO plan (account_id, livemode, id, name, amount_kobo, currency, billing_cycle, trial_days, pause_enabled, pro_rate, service_config, retry_logic, reminders, metadata, created_at, updated_at)
      VALUES (${account}, false, 'plan_1', 'P', 5000, 'NGN', 'monthly', 0, false, true, '{}',
        '{"enabled": true, "max_attempts": 2, "retry_intervals_days": [1, 7], "escalation_on_failure": "restrict_access", "cancel_after_days_unpaid": 9}', '{}', '{}', now(), now())`
    yield* sql`INSERT INTO customer (account_id, livemode, id, name, metadata, created_at) VALUES (${account}, false, 'cus_1', 'C', '{}', now())`
    yield* sql`
      INSERT INTO payment_method (account_id, livemode, id, customer_id, type, created_at)
      VALUES (${account}, false, 'pm_test_insufficient_funds', 'cus_1', 'card', now())`
    yield* sql`
      INSERT INTO subscription (account_id, livemode, id, customer_id, plan_id, payment_method_id, state, status, version, billing_cycle, price_kobo, quantity, start_at, anchor_at, period_no,
        period_start_at, period_end_at, period_quantity, cancel_at_period_end, bills_made, bill, dunning, metadata, created_at)
      SELECT ${account}, false, 'sub_' || lpad(n::text, 26, '0'), 'cus_1', 'plan_1', 'pm_test_insufficient_funds', 'overdue.retrying', 'past_due', 1, 'monthly', 5000, 1, '2025-01-01Z', '2025-01-01Z', 0,
        '2025-01-01Z', '2025-02-01Z', 1, false, 2, ${JSON.stringify(bill)}::text::jsonb, ${JSON.stringify(dunning)}::text::jsonb, '{}', '2025-01-01Z'
      FROM generate_series(1, ${SUBSCRIPTIONS}::int) n`
    yield* sql`
      INSERT INTO timer (account_id, livemode, actor_id, name, actor_kind, generation, due_at, rank, event)
      SELECT account_id, livemode, id, t.name, 'subscription', 1, t.due_at::timestamptz, t.rank, 'xstate.after.' || t.name || '.subscription.overdue' || t.rest
      FROM subscription, (VALUES ('nextRetry', '2025-02-02Z', 4, '.retrying'), ('unpaidTooLong', '2025-02-10Z', 5, ''), ('billPeriodEnd', '2025-03-01Z', 1, '')) AS t (name, due_at, rank, rest)`
  })

describe("after downtime", () => {
  it("each overdue subscription is retried once and then cancelled: no timer is lost between shards", async () => {
    const { account } = await database.run(() => createAccount({ businessName: "Down" }))
    await database.run(() => seed(account.id))
    await Effect.runPromise(
      Effect.asVoid(sweep([chargeTimers, subscriptionTimers])).pipe(
        Effect.provide(servicesLayer(database.url(), KEYS)),
        Effect.scoped,
      ),
    )
    const states = await database.run((sql) => sql`SELECT state, status, count(*) AS n FROM subscription GROUP BY 1, 2`)
    expect(states).toEqual([{ state: "cancelled", status: "cancelled", n: SUBSCRIPTIONS }])
    const attempts = await database.run(
      (sql) => sql`SELECT attempt_number, count(*) AS n FROM charge GROUP BY 1 ORDER BY 1`,
    )
    // The next one would be 7 days after it.
    expect(attempts).toEqual([{ attempt_number: 2, n: SUBSCRIPTIONS }])
  })

  it("a failed renewal is retried its interval after the attempt, and counts as unpaid since then", async () => {
    const { account, keys } = await served.run(() => createAccount({ businessName: "Back" }))
    const before = await startServer(served.url())
    const api = createApi(before.origin, keys.sk_test)
    const retry_logic = { retry_intervals_days: [1], cancel_after_days_unpaid: 2 }
    const plan = await createPlan(api, { billing_cycle: "weekly", retry_logic })
    const body = {
      customer: await createCustomer(api),
      plan,
      payment_method: "pm_test_success_then_insufficient_funds",
    }
    const { id } = data(await api.post("/subscriptions", body), 201)
    expect(await before.stop()).toBe(0)
    // Due five days ago, with all the steps that would have followed.
    await served.run(() => rewind(account.id, 12 * DAY_MS))
    const after = await startServer(served.url())
    const late = createApi(after.origin, keys.sk_test)
    const overdue = await eventually(async () => {
      const found = data(await late.get(`/subscriptions/${id}`))
      return found.status === "active" ? undefined : found
    })
    const [failed, ...others] = await late.all(`/charges?subscription=${id}`)
    expect([failed.status, failed.attempt_number, others.length]).toEqual(["failed", 1, 1])
    const next = new Date(Date.parse(failed.created_at) + DAY_MS).toISOString()
    expect([failed.next_retry_at, overdue.status, overdue.retry.next_retry_at]).toEqual([next, "past_due", next])
    const [timer] = await served.run(
      (sql) => sql<{ days: number }>`
        SELECT floor(extract(epoch FROM due_at - now()) / 86400 + 0.5)::int AS days FROM timer WHERE actor_id = ${id} AND name = 'unpaidTooLong'`,
    )
    expect(timer!.days).toBe(2)
    expect(await after.stop()).toBe(0)
  })

  it("a locked row of one account does not delay other accounts' renewals", async () => {
    const names = ["Held", "Free"]
    const before = await startServer(shared.url())
    const both = await Promise.all(
      names.map(async (businessName) => {
        const { account, keys } = await shared.run(() => createAccount({ businessName }))
        const api = createApi(before.origin, keys.sk_test)
        const customer = await createCustomer(api)
        const body = {
          customer,
          plan: await createPlan(api, { billing_cycle: "weekly" }),
          payment_method: "pm_test_success",
        }
        const { id } = data(await api.post("/subscriptions", body), 201)
        return { account: account.id, keys, customer, id }
      }),
    )
    expect(await before.stop()).toBe(0)
    for (const { account } of both) await shared.run(() => rewind(account, 7 * DAY_MS))
    const [mine, other] = both as [(typeof both)[0], (typeof both)[0]]
    const locked = await lockUntilReleased(
      shared,
      (sql) => sql`SELECT 1 FROM customer WHERE id = ${mine.customer} FOR UPDATE`,
    )
    const after = await startServer(shared.url())
    const renewed = ({ keys, id }: typeof mine) =>
      eventually(async () => {
        const { length } = await createApi(after.origin, keys.sk_test).all(
          `/charges?subscription=${id}&status=succeeded`,
        )
        return length === 2 ? true : undefined
      })
    await renewed(other)
    await locked.release()
    await renewed(mine)
    expect(await after.stop()).toBe(0)
  })

  it("a sent renewal whose charge is locked does not delay others: recovery settles it", async () => {
    const { account, keys } = await alone.run(() => createAccount({ businessName: "Alone" }))
    const before = await startServer(alone.url())
    const api = createApi(before.origin, keys.sk_test)
    const body = {
      customer: await createCustomer(api),
      plan: await createPlan(api, { billing_cycle: "weekly" }),
      payment_method: "pm_test_success",
    }
    const { id } = data(await api.post("/subscriptions", body), 201)
    expect(await before.stop()).toBe(0)
    await alone.run(() => rewind(account.id, 7 * DAY_MS))
    const rail = await holdTable(alone, "simulator_attempt")
    const sweeping = Effect.runPromise(
      sweep([subscriptionTimers]).pipe(Effect.provide(servicesLayer(alone.url(), KEYS)), Effect.scoped),
    )
    await rail.waiters()
    const locked = await lockUntilReleased(
      alone,
      (sql) => sql`SELECT 1 FROM charge WHERE status = 'pending' FOR UPDATE`,
    )
    await rail.release()
    await sweeping
    const statuses = async () => {
      const rows = await alone.run((sql) => sql<{ status: string }>`SELECT status FROM charge ORDER BY created_at`)
      return rows.map(({ status }) => status).join()
    }
    expect(await statuses()).toBe("succeeded,pending")
    await locked.release()
    const after = await startServer(alone.url())
    await eventually(async () => ((await statuses()) === "succeeded,succeeded" ? true : undefined))
    expect(data(await createApi(after.origin, keys.sk_test).get(`/subscriptions/${id}`)).status).toBe("active")
    expect(await after.stop()).toBe(0)
  })
})
