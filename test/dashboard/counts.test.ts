import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { MAX_COUNTED, statusCounts } from "../../src/dashboard/counts.ts"
import { countJournal } from "../../src/runtime/counting.ts"
import { recount, recountNew } from "../../src/runtime/recounting.ts"
import { arrowsOfJournal, countedArrows, countedStates, statesOfRows } from "../support/counts.ts"
import { useDatabase } from "../support/database.ts"
import { useOwnInstance } from "../support/instance.ts"
import { signedIn } from "../support/member.ts"
import { advance, data, eventually, subscribe } from "../support/story.ts"
import { insertSubscribed } from "../support/subscribed.ts"

const { database, server, accountId, api } = useOwnInstance()

const read = () =>
  database.run(() =>
    Effect.all({
      counted: countedStates(accountId()),
      rows: statesOfRows(accountId()),
      arrows: countedArrows(accountId()),
      journal: arrowsOfJournal(accountId()),
    }),
  )

/** Waits until the running worker has counted everything: states, amounts and arrows. */
const untilExact = async () => {
  const same = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other)
  const last: { value?: Awaited<ReturnType<typeof read>> } = {}
  await eventually(async () => {
    const now = await read()
    last.value = now
    return same(now.counted, now.rows) && same(now.arrows, now.journal) ? true : undefined
  }, 30_000).catch((error: unknown) => {
    if (last.value === undefined) throw error
    expect(last.value!.counted).toEqual(last.value!.rows)
    expect(last.value!.arrows).toEqual(last.value!.journal)
  })
  return last.value!
}

const outlives = useDatabase()
const large = useDatabase()

describe("the counts of machines", () => {
  it("are exact after renewals, failures, changes of quantity, pauses, a deleted clock and a reset", async () => {
    const good = await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success", { pause_enabled: true })
    const bad = await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success")
    expect((await untilExact()).counted.length).toBe(2)
    data(await api.patch(`/subscriptions/${good.id}`, { quantity: 3 }))
    data(await api.patch(`/subscriptions/${good.id}`, { quantity: 2 }))
    await advance(api, good.clock, "2027-04-02T09:00:00Z")
    data(await api.patch(`/subscriptions/${bad.id}`, { payment_method: "pm_test_insufficient_funds" }))
    await advance(api, bad.clock, "2027-02-03T09:00:00Z")
    data(await api.patch(`/subscriptions/${good.id}`, { quantity: 5 }))
    data(await api.post(`/subscriptions/${good.id}/pause`, {}))
    data(await api.post(`/subscriptions/${bad.id}/cancel`, {}))
    const { counted } = await untilExact()
    expect(counted).toContainEqual({
      livemode: false,
      kind: "subscription",
      state: "paused",
      actors: 1,
      kobo: 2_500_000,
    })

    data(await api.delete(`/test/clocks/${bad.clock}`))
    const left = await untilExact()
    expect(left.counted.filter(({ state }) => state === "cancelled")).toEqual([])

    data(await api.post("/test/reset", { confirm: "RESET" }), 202)
    await eventually(async () => {
      const { rows } = await read()
      return rows.length === 0 ? true : undefined
    })
    expect((await untilExact()).counted).toEqual([])
  })

  it("misses nothing of transactions that commit late, and counts nothing twice", async () => {
    const story = await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success")
    await untilExact()
    // A transaction writes to the journal, and commits after later ones and after several countings.
    const positions = () => database.run((sql) => sql<{ counted_at: number }>`SELECT counted_at FROM journal_position`)
    await database.run((sql) =>
      sql.withTransaction(
        Effect.gen(function* () {
          yield* sql`
            INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version)
            SELECT account_id, livemode, actor_id, version + 100, actor_kind, at, event, to_state, to_state, effects, machine_version
            FROM lifecycle_journal WHERE account_id = ${accountId()} AND actor_id = ${story.id} AND version = 2`
          yield* Effect.promise(() => subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success"))
          const [before] = yield* Effect.promise(positions)
          yield* Effect.promise(() =>
            eventually(async () => {
              const [now] = await positions()
              return now!.counted_at > before!.counted_at + 3_000 ? true : undefined
            }),
          )
        }),
      ),
    )
    const late = await untilExact()
    expect(late.arrows).toContainEqual(
      expect.objectContaining({ from_state: "active.current", to_state: "active.current", transitions: 1 }),
    )
    // A recount beside running countings, and after a stop.
    await database.run(() => recount([{ account_id: accountId(), livemode: false }]))
    await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success")
    await untilExact()
    await database.run(() => Effect.andThen(countJournal(), countJournal()))
    await untilExact()
  })

  it("are exact after a worker died while it counted", async () => {
    const { run } = outlives
    const journal = (from: string, to: string, version: number) =>
      run((sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`
              INSERT INTO lifecycle_journal (account_id, livemode, actor_id, version, actor_kind, at, event, from_state, to_state, effects, machine_version)
              SELECT account_id, livemode, id, ${version}, 'subscription', now(), '{"type": "pause"}', ${from}, ${to}, '[]', 1 FROM subscription`
            yield* sql`UPDATE subscription SET version = ${version}, state = ${to}`
          }),
        ),
      )
    const states = () => run((sql) => sql`SELECT state, actors, kobo FROM state_count WHERE actors <> 0 ORDER BY state`)
    await run((sql) => insertSubscribed(sql, 3))
    await run(countJournal)
    await run(() => recountNew)
    await journal("active.current", "active.charging", 2)
    // The counts are locked, and the connection of the worker that waits for them is ended.
    const ended = () =>
      run(
        (sql) => sql`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%WITH fresh%'`,
      )
    let counting: Promise<unknown> = Promise.resolve()
    await run((sql) =>
      sql.withTransaction(
        Effect.andThen(
          sql`SELECT 1 FROM state_count FOR UPDATE`,
          Effect.promise(() => {
            counting = run(countJournal).catch(() => "died")
            return eventually(async () => ((await ended()).length > 0 ? true : undefined), 20_000)
          }),
        ),
      ),
    )
    await counting
    await journal("active.charging", "active.current", 3)
    await journal("active.current", "ending", 4)
    await run(countJournal)
    await run(countJournal)
    expect(await states()).toEqual([{ state: "ending", actors: 3, kobo: 15_000 }])
    const [arrows] = await run((sql) => sql`SELECT sum(transitions)::bigint AS sum FROM arrow_count`)
    expect(arrows).toEqual({ sum: 9 })
    // In another database, as after restoring a dump, everything is counted again.
    await run((sql) => sql`UPDATE journal_position SET counted_in = 'elsewhere'`)
    await run((sql) => sql`UPDATE state_counted SET counted_in = 'elsewhere'`)
    await run((sql) => sql`UPDATE state_count SET actors = 77`)
    await run(countJournal)
    await run(() => recountNew)
    expect(await states()).toEqual([{ state: "ending", actors: 3, kobo: 15_000 }])
  })
})

describe("the pages of machines", () => {
  it("show how many are in each state, with their amounts, and how many took each arrow", async () => {
    const owner = await signedIn(database, server().origin, accountId())
    const story = await subscribe(api, "2027-01-01T09:00:00Z", "pm_test_success")
    const { counted } = await untilExact()
    const active = counted.find(({ kind, state }) => kind === "subscription" && state === "active.current")!
    const page = await owner.get("/dashboard/sandbox/machines/subscription?span=week")
    expect(page.status).toBe(200)
    expect(page.text).toContain("<h1>Subscription</h1>")
    expect(page.text).toContain(`data-state="active.current" data-count="${active.actors}"`)
    expect(page.text).toContain('href="/dashboard/sandbox/subscriptions?status=active"')
    expect(page.text).toMatch(/data-from="opening" data-to="active" data-count="[1-9]\d*"/)
    expect(page.text).toContain("Transitions in 7 days")
    expect(page.text).toContain('hx-sse:connect="/dashboard/sandbox/machines/subscription/live?span=week"')
    expect(page.text).not.toContain("style=")
    expect(Buffer.byteLength(page.text)).toBeLessThan(60_000)
    const all = await owner.get("/dashboard/sandbox/machines")
    expect(all.text).toContain("<h1>Machines</h1>")
    expect(all.text).toContain('<a href="/dashboard/sandbox/machines/charge">Charge</a>')
    // Clocks that were never advanced have no journal: the page counts their rows.
    const clocks = data(await api.get(`/test/clocks/${story.clock}`))
    expect(clocks.status).toBe("ready")
    expect((await owner.get("/dashboard/sandbox/machines/test_clock")).text).toMatch(
      /data-state="ready" data-count="[1-9]/,
    )
    for (const kind of ["charge", "refund", "nudge", "invoice", "webhook_delivery", "live_access", "checkout_session"])
      expect((await owner.get(`/dashboard/sandbox/machines/${kind}`)).status, kind).toBe(200)
    expect((await owner.get("/dashboard/sandbox/machines/constructor")).status).toBe(404)
    expect((await owner.get("/dashboard/live/machines/subscription")).text).toContain(
      'data-state="active" data-count="0"',
    )
  })
})

describe("the subscriptions of a large account", () => {
  it("are counted by status from the counts of machines, above what a page counts itself", async () => {
    const { run } = large
    await run((sql) => insertSubscribed(sql, MAX_COUNTED + 5))
    const counts = () => run(() => statusCounts({ account_id: "acct_1", livemode: false }))
    expect((await counts()).active).toBe(MAX_COUNTED + 1)
    await run(countJournal)
    await run(() => recountNew)
    expect(await counts()).toEqual({ active: MAX_COUNTED + 5, past_due: 0, trialing: 0, paused: 0 })
  })
})
