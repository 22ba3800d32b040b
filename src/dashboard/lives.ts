/** Reads the life of a subscription up to a version: what happened then, the path through its machine, and its context (decision R10). */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { type CreateEvent, create, decide, stateName, type TimedEvent, triggerOf } from "../../machines/decide.ts"
import { subscriptionMachine } from "../../machines/subscription.ts"
import { type SubscriptionRow, subscriptions } from "../billing/subscription/subscription.ts"
import { ofTenant, tenantOf } from "../db/tenant.ts"
import type { Life } from "../pages/dashboard/life.ts"
import type { Step } from "../pages/pictures/draw.ts"

/** The newest transitions that a path shows. Reading them takes some 10 ms. */
const MAX_PATH = 5_000
/** An earlier context is replayed from the first event: each takes some 20 µs, during which the process does nothing else. */
const MAX_REPLAYED = 1_500

type SubscriptionEvent = Parameters<typeof decide<typeof subscriptionMachine>>[2]

/** Replays the events of a subscription; the first one creates it. */
const replay = (events: ReadonlyArray<TimedEvent>) => {
  const first = create(subscriptionMachine, events[0] as CreateEvent<typeof subscriptionMachine>)
  return events.reduce(
    (snapshot, event) => decide(subscriptionMachine, snapshot, event as SubscriptionEvent).snapshot,
    first,
  )
}

/** Reads the distinct steps that led to a version. */
const readPath = Effect.fnUntraced(function* (row: SubscriptionRow, version: number) {
  const sql = yield* SqlClient.SqlClient
  const steps = yield* sql<{ from: string; to: string; type: string }>`
    SELECT from_state AS from, to_state AS to, event->>'type' AS type FROM lifecycle_journal
    WHERE ${ofTenant(sql, row)} AND actor_id = ${row.id} AND version <= ${version} AND version > ${version - MAX_PATH}
    GROUP BY 1, 2, 3`
  return steps.map(({ from, to, type }): Step => ({ from, to, trigger: triggerOf(type) }))
})

/** Reads the state and the context at a version that is not the newest. A context behind too many transitions is null. */
const readEarlier = Effect.fnUntraced(function* (row: SubscriptionRow, version: number) {
  const sql = yield* SqlClient.SqlClient
  if (version <= MAX_REPLAYED) {
    const rows = yield* sql<{ event: TimedEvent }>`
      SELECT event FROM lifecycle_journal WHERE ${ofTenant(sql, row)} AND actor_id = ${row.id} AND version <= ${version} ORDER BY version`
    if (rows.length === 0) return { state: row.state, context: null }
    const snapshot = replay(rows.map(({ event }) => event))
    return { state: stateName(snapshot), context: snapshot.context }
  }
  const [found] = yield* sql<{ to_state: string }>`
    SELECT to_state FROM lifecycle_journal WHERE ${ofTenant(sql, row)} AND actor_id = ${row.id} AND version = ${version}`
  return { state: found?.to_state ?? row.state, context: null }
})

/** The version that a page asks for: a number from 1 to the newest; others show the newest. */
export const versionIn = (asked: string | null, newest: number): number => {
  const version = /^[1-9]\d{0,8}$/.test(asked ?? "") ? Number(asked) : newest
  return Math.min(version, newest)
}

/** Reads the life of a subscription up to a version. */
export const readLife = Effect.fn("dashboard.life")(function* (row: SubscriptionRow, version: number) {
  const isNewest = version === row.version
  const [path, at] = yield* Effect.all(
    [
      readPath(row, version),
      isNewest
        ? Effect.succeed({ state: row.state, context: subscriptions.contextOf(row) })
        : readEarlier(row, version),
    ],
    { concurrency: 2 },
  )
  return { ...tenantOf(row), version, newest: row.version, path, ...at } satisfies Life & object
})
