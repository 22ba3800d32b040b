import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { countJournal } from "../../src/runtime/counting.ts"
import { recount } from "../../src/runtime/recounting.ts"
import { arrowsOfJournal, countedArrows, countedStates, statesOfRows } from "../support/counts.ts"
import { useInstance } from "../support/instance.ts"
import { advance, data, eventually, subscribe } from "../support/story.ts"

const { database, accountId, api } = useInstance()

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

    data(await api.post("/test/reset", {}), 202)
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
})
