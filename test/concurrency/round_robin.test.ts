/** Tests fairness of background work between accounts: clocks that move, and plans whose reminders change often. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { clockLease } from "../../src/billing/clock/clock.ts"
import { takeClocks } from "../../src/billing/clock/clockWorker.ts"
import { rescheduleNext } from "../../src/billing/subscription/reschedule.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { release } from "../../src/process/lease.ts"
import { createApi } from "../support/api.ts"
import { fullClock } from "../support/clockfull.ts"
import { useDatabase } from "../support/database.ts"
import { startServer } from "../support/server.ts"
import { useServices } from "../support/services.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const [QUEUE, MOVING, REMINDED] = [useDatabase(), useDatabase(), useDatabase()]

describe("clocks that wait to move", () => {
  const process = useServices(QUEUE)
  const other = useServices(QUEUE)

  it("are taken by account, longest wait first; one account gets at most its share", async () => {
    const accounts: Array<string> = []
    for (const name of ["Many", "Few", "One"])
      accounts.push((await QUEUE.run(() => createAccount({ businessName: name }))).account.id)
    const [many, few, one] = accounts as [string, string, string]
    const wait = (account: string, clocks: number, seconds: number) =>
      QUEUE.run(
        (sql) => sql`
          INSERT INTO test_clock (account_id, livemode, id, frozen_at, state, version, customer_count, created_at, deletes_at, failed_steps, target_at, waiting_since)
          SELECT ${account}, false, ${account} || ' ' || n, now(), 'advancing', 1, 0, now(), now(), 0, now(), now() - make_interval(secs => ${seconds}::int - n)
          FROM generate_series(1, ${clocks}::int) AS s (n)`,
      )
    const take = async (free: number, by = process) =>
      (await by(takeClocks(free)))
        .map(({ account_id, id }) => `${accounts.indexOf(account_id)} ${id.split(" ")[1]}`)
        .sort()
    await wait(many, 12, 100)
    expect(await take(8)).toEqual(["0 1", "0 2", "0 3"])
    await wait(few, 5, 50)
    await wait(one, 1, 10)
    // The first account has its share. The other accounts get one each before any gets two.
    expect(await take(2)).toEqual(["1 1", "2 1"])
    expect(await take(1)).toEqual(["1 2"])
    // Another process has its own share for each account, first for the account with the fewest.
    expect(await take(1, other)).toEqual(["1 3"])
    expect(await take(8, other)).toEqual(["0 4", "0 5", "0 6", "1 4", "1 5"])
    // A released clock is free again, behind those that have waited longer.
    await QUEUE.run(
      (sql) =>
        sql`UPDATE test_clock SET runner = NULL, waiting_since = now() WHERE id IN (${`${many} 1`}, ${`${many} 2`}, ${`${many} 3`})`,
    )
    await process(
      release(
        clockLease,
        [1, 2, 3].map((n) => ({ id: `${many} ${n}` })),
      ),
    )
    expect(await take(8)).toEqual(["0 7", "0 8", "0 9"])
  })
})

describe("a short advance", () => {
  it("completes while another account's long ones are in progress", async () => {
    const [long, short] = [
      await MOVING.run(() => createAccount({ businessName: "Long" })),
      await MOVING.run(() => createAccount({ businessName: "Short" })),
    ]
    const server = await startServer(MOVING.url())
    const [slow, quick] = [createApi(server.origin, long.keys.sk_test), createApi(server.origin, short.keys.sk_test)]
    const start = async (api: typeof slow, frozen_time: string) => {
      const { id } = data(await api.post("/test/clocks", { frozen_time: "2025-01-01T00:00:00Z" }), 201)
      const customer = await createCustomer(api, { test_clock: id })
      const plan = await createPlan(api, { billing_cycle: "daily" })
      data(await api.post("/subscriptions", { customer, plan, payment_method: "pm_test_success" }), 201)
      data(await api.post(`/test/clocks/${id}/advance`, { frozen_time }), 202)
      return id as string
    }
    const clocks: Array<string> = []
    for (let n = 0; n < 9; n++) clocks.push(await start(slow, "2026-01-01T00:00:00Z"))
    const mine = await start(quick, "2025-01-03T00:00:00Z")
    await eventually(async () => (data(await quick.get(`/test/clocks/${mine}`)).status === "ready" ? true : undefined))
    // All of them have moved, and none has finished.
    await eventually(async () => {
      const found = await Promise.all(clocks.map(async (id) => data(await slow.get(`/test/clocks/${id}`))))
      expect(found.map(({ status }) => status)).toEqual(clocks.map(() => "advancing"))
      return found.every(({ frozen_time }) => frozen_time > "2025-01-01T00:00:00.000Z") ? true : undefined
    })
    await server.kill()
  })
})

describe("a plan with many subscriptions whose reminders are changed again and again", () => {
  const MAX_BATCH = 10

  it("delays no other plan, of its account or of another", async () => {
    const size = { customers: 35, journal: 0, events: 0 }
    const [one, two] = [
      (await REMINDED.run(() => createAccount({ businessName: "Restless" }))).account.id,
      (await REMINDED.run(() => createAccount({ businessName: "Quiet" }))).account.id,
    ]
    await REMINDED.run(() => fullClock(one, "a", size))
    await REMINDED.run(() => fullClock(one, "b", { ...size, customers: 1 }))
    await REMINDED.run(() => fullClock(two, "c", { ...size, customers: 1 }))
    // On the wall clock, which a worker serves.
    await REMINDED.run((sql) => sql`UPDATE subscription SET test_clock_id = NULL`)
    const change = (tags: ReadonlyArray<string>) =>
      REMINDED.run(
        (sql) => sql`UPDATE plan SET reminders_rescheduled_to = '' WHERE right(id, 1) = ANY(${tags}::text[])`,
      )
    const waiting = async () =>
      (
        await REMINDED.run(
          (sql) => sql<{ tag: string }>`
            SELECT right(id, 1) AS tag FROM plan WHERE reminders_rescheduled_to IS NOT NULL ORDER BY 1`,
        )
      ).map(({ tag }) => tag)
    await change(["a", "b", "c"])
    const batch = rescheduleNext(MAX_BATCH)
    for (let round = 0; round < 4; round++) {
      expect(await REMINDED.run(() => batch)).toBe(true)
      await change(["a"])
    }
    expect(await waiting()).toEqual(["a"])
    await REMINDED.run(() => Effect.repeat(batch, { while: (found) => found }))
    expect(await waiting()).toEqual([])
    const reminders = await REMINDED.run((sql) => sql`SELECT 1 FROM timer WHERE name = 'reminder'`)
    expect(reminders).toHaveLength(37)
  })
})
