/** Tests the triggers of the timer sweep: jobs for near timers, which requests only add, and a look ahead. */
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { nextDue, pauseMs } from "../../src/runtime/timerWorker.ts"
import { TIMERS_DUE, wakeAt } from "../../src/runtime/Wakeups.ts"
import { createApi } from "../support/api.ts"
import { useDatabase } from "../support/database.ts"
import { rewind } from "../support/rewind.ts"
import { startServer } from "../support/server.ts"
import { createCustomer, createPlan, data, eventually } from "../support/story.ts"

const database = useDatabase()

const SECOND_MS = 1_000
const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS
/** A sweep without look-ahead comes once a minute. */
const LESS_THAN_A_MINUTE_MS = 45_000

const jobs = () =>
  database.run(
    (sql) => sql<{ start_after: number }>`
      SELECT start_after FROM pgboss.job WHERE name = ${TIMERS_DUE} AND state = 'created' ORDER BY start_after`,
  )

const asRequest = (statement: string) =>
  database.run((sql) =>
    sql.withTransaction(
      Effect.andThen(sql`SET LOCAL ROLE billing_request`.unprepared, sql.unsafe(statement).unprepared),
    ),
  )

describe("jobs", () => {
  it("exist for each second of the next minutes, and not for later timers", async () => {
    const now = Math.floor(Date.now() / SECOND_MS) * SECOND_MS
    const [soon, later] = [now + MINUTE_MS, now + 10 * MINUTE_MS]
    await database.write((unit) => wakeAt(unit, [soon - 1, soon, soon - 400, later, now + HOUR_MS]))
    await database.write((unit) => wakeAt(unit, [soon - 700]))
    expect((await jobs()).map(({ start_after }) => start_after)).toEqual([soon])
    const [job] = await database.run(
      (sql) => sql`SELECT retry_limit, policy FROM pgboss.job WHERE name = ${TIMERS_DUE}`,
    )
    expect(job).toEqual({ retry_limit: 0, policy: "standard" })
  })

  it("are added by requests, which cannot see, change or delete them", async () => {
    const before = (await jobs()).length
    const at = "ARRAY[now() + interval '90 seconds']"
    await asRequest(`SELECT add_wakeups('${TIMERS_DUE}', ${at})`)
    expect(await jobs()).toHaveLength(before + 1)
    for (const statement of [
      "SELECT 1 FROM pgboss.job",
      "INSERT INTO pgboss.job (name) VALUES ('x')",
      "UPDATE pgboss.job SET state = 'cancelled'",
      "DELETE FROM pgboss.job",
      "SELECT 1 FROM pgboss.queue",
      "SELECT pgboss.delete_queue('x')",
    ])
      await expect(asRequest(statement), statement).rejects.toMatchObject({ reason: { cause: { code: "42501" } } })
    const many = "(SELECT array_agg(now() + n * interval '1 second') FROM generate_series(1, 1001) AS s (n))"
    await expect(asRequest(`SELECT add_wakeups('${TIMERS_DUE}', ${many})`)).rejects.toMatchObject({
      reason: { cause: { code: "54000" } },
    })
  })
})

describe("a sweep", () => {
  it("comes again when the next timer is due, after a minute at most", async () => {
    const now = Date.UTC(2030, 0, 1)
    for (const [due, pause] of [
      [undefined, MINUTE_MS],
      [now + 2 * HOUR_MS, MINUTE_MS],
      [now + 1_500, 2_000],
      [now + 2_000, 2_000],
      [now - 1, 0],
    ] as const)
      expect(pauseMs(due, now)).toBe(pause)
  })

  it("fires a timer without a job when it is due", async () => {
    const { keys, account } = await database.run(() => createAccount({ businessName: "Punctual" }))
    const first = await startServer(database.url(), { WORKERS: "0" })
    const api = createApi(first.origin, keys.sk_test)
    const body = {
      customer: await createCustomer(api),
      plan: await createPlan(api, { billing_cycle: "weekly" }),
      payment_method: "pm_test_success",
      start_at: new Date(Date.now() + HOUR_MS).toISOString(),
    }
    const before = await jobs()
    const { id } = data(await api.post("/subscriptions", body), 201)
    expect(await jobs()).toEqual(before)
    expect(await first.stop()).toBe(0)
    // A few seconds ahead: after the first sweep of the next server.
    await database.run(() => rewind(account.id, HOUR_MS - 6 * SECOND_MS))
    const due = await database.run(() => nextDue(["charge", "subscription"], Date.now()))
    expect(due).toBeDefined()
    await database.run((sql) => sql`DELETE FROM pgboss.job`)
    const second = await startServer(database.url())
    const again = createApi(second.origin, keys.sk_test)
    await eventually(
      async () => (data(await again.get(`/subscriptions/${id}`)).status === "active" ? true : undefined),
      LESS_THAN_A_MINUTE_MS,
    )
    expect(Date.now()).toBeGreaterThanOrEqual(due!)
    expect(await second.stop()).toBe(0)
  })
})
