/** Tests days of the wall clock: booked late, twice, by two processes, or after a crash, the entries are the same. */
import { Deferred, Effect } from "effect"
import { describe, expect, it } from "vitest"
import { dayOf } from "../../src/base/time.ts"
import { recogniseOnClock, recogniseThrough } from "../../src/ledger/recognition.ts"
import { formatDay } from "../../src/ledger/schedule.ts"
import { createAccount } from "../../src/merchants/account/accounts.ts"
import { type Api, createApi } from "../support/api.ts"
import { useOwnInstance } from "../support/instance.ts"
import { createCustomer, createPlan, data, subscribe as subscribeOnClock } from "../support/story.ts"
import { useWhole } from "../support/whole.ts"

const { database, server } = useOwnInstance()
useWhole(database)

const TODAY = dayOf(Date.now())
const recognise = (day: number) => database.run(() => recogniseThrough(day))

const open = async () => {
  const { account, keys } = await database.run(() => createAccount({ businessName: "Days" }))
  return { id: account.id, api: createApi(server().origin, keys.sk_test) }
}

const subscribe = async (api: Api, plan: Readonly<Record<string, unknown>>) =>
  data(
    await api.post("/subscriptions", {
      customer: await createCustomer(api),
      plan: await createPlan(api, plan),
      payment_method: "pm_test_success",
    }),
    201,
  ).id as string

/** Three plans of one account, each with a subscription. */
const business = async () => {
  const { id, api } = await open()
  for (const plan of [
    { amount: 99_999 },
    { amount: 70_001, billing_cycle: "weekly" },
    { amount: 1_234, billing_cycle: "daily" },
  ])
    await subscribe(api, plan)
  return { id, api }
}

/** The day and kobo of the entries of an account's days. */
const entries = (account: string) =>
  database.run(
    (sql) => sql<{ day: string; kobo: number }>`
      SELECT e.occurred_on::text AS day, l.amount_kobo AS kobo FROM ledger_entry e
      JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id) AND l.ledger_account = 'deferred_revenue'
      WHERE e.account_id = ${account} AND e.event = 'recognised' ORDER BY e.occurred_on, l.amount_kobo`,
  )

describe("a day", () => {
  it("has the same entries if booked a month late, twice, and by two processes at the same time", async () => {
    const daily = await business()
    for (let day = TODAY; day <= TODAY + 35; day++) expect(await recognise(day)).toEqual([])
    const late = await business()
    await Promise.all([recognise(TODAY + 35), recognise(TODAY + 35), recognise(TODAY + 35)])
    await recognise(TODAY + 35)
    const expectedEntries = await entries(daily.id)
    expect(expectedEntries.length).toBeGreaterThan(30)
    expect(await entries(late.id)).toEqual(expectedEntries)
    expect(expectedEntries.reduce((sum, { kobo }) => sum + kobo, 0)).toBe(99_999 + 70_001 + 1_234)
  })

  it("that was closed but not booked, because a process died, is booked by the next", async () => {
    const { id } = await business()
    await database.run((sql) => sql`SELECT close_revenue_days(${id}, false, 'wall', ${formatDay(TODAY + 3)}::date)`)
    expect(await entries(id)).toEqual([])
    expect(await recognise(TODAY + 3)).toEqual([])
    expect(new Set((await entries(id)).map(({ day }) => day)).size).toBe(4)
  })

  it("that is closed accepts no entries: a late start is caught up on the next", async () => {
    const { id, api } = await open()
    await subscribe(api, { amount: 40_000 })
    await recognise(TODAY + 9)
    const before = await entries(id)
    await subscribe(api, { amount: 70_000, billing_cycle: "weekly" })
    await recognise(TODAY + 9)
    expect(await entries(id)).toEqual(before)
    await recognise(TODAY + 10)
    const caughtUp = (await entries(id)).filter(({ day }) => day === formatDay(TODAY + 10))
    expect(caughtUp.map(({ kobo }) => kobo)).toContain(70_000)
  })

  it("of a book without recognised revenue ends in one step, and so does a time without service", async () => {
    const { id, api } = await open()
    const { clock } = await subscribeOnClock(api, "2025-01-31T09:00:00Z", "pm_test_success")
    const arrivesAt = (at: string) =>
      database.run((sql) =>
        sql.withTransaction(recogniseOnClock({ account_id: id, livemode: false, id: clock }, Date.parse(at))),
      )
    // The first day's part is due after the day. Before that, all days since 1969 are to be closed.
    expect(await arrivesAt("2025-01-31T10:00:00Z")).toBe(false)
    expect(await entries(id)).toEqual([])
    expect(await arrivesAt("2025-02-28T00:00:00Z")).toBe(false)
    expect(await entries(id)).toHaveLength(28)
    expect(await arrivesAt("2035-02-28T00:00:00Z")).toBe(false)
    expect(await entries(id)).toHaveLength(28)
  })

  it("stays open while a transaction writes to its book, and the closing does not wait", async () => {
    const { id } = await business()
    const [holding, done] = [Deferred.makeUnsafe<void>(), Deferred.makeUnsafe<void>()]
    const writer = database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`SELECT open_revenue_day(${id}, false, NULL, ${formatDay(TODAY)}::date)`
          yield* Deferred.succeed(holding, undefined)
          yield* Deferred.await(done)
        }),
      ),
    )
    await Effect.runPromise(Deferred.await(holding))
    expect((await recognise(TODAY + 1)).map(({ account_id }) => account_id)).toEqual([id])
    expect(await entries(id)).toEqual([])
    await Effect.runPromise(Deferred.succeed(done, undefined))
    await writer
    expect(await recognise(TODAY + 1)).toEqual([])
    expect(await entries(id)).not.toEqual([])
  })
})
