/** Acts on what callbacks of rails named: the rail is asked about it, and nothing else of a callback is believed (decision P13). */
import { Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, staysHere } from "../../db/tenant.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import { QueuePoller } from "../../process/QueuePoller.ts"
import { whenWoken } from "../../process/workers.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { charges } from "../charge/charge.ts"
import { askAboutRefunds } from "../refund/requests.ts"
import { askWhetherPaid, queueStatusChecks } from "./statusChecks.ts"

const MAX_BATCH = 200
/** However often a reference is named, this process follows it up so seldom: whoever has the keys may name it without end. */
const AGAIN_AFTER_MS = 250

interface Named {
  readonly account_id: string
  readonly livemode: boolean
  readonly rail: OutsideRail
  readonly reference: string
  readonly denies: boolean
}

const NAMED = { account_id: "text", livemode: "boolean", rail: "text", reference: "text", denies: "boolean" } as const

/**
 * Takes the next references, and has rails asked about the charges that they name: about one that is paid already only where a
 * callback denies it, and how its refund stands. References that nobody knows are dropped; those of charges that somebody holds stay, and
 * keep no other account's waiting. In the running transaction.
 */
const takeNamed = Effect.fnUntraced(function* (resting: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const named = yield* sql<Named>`
    SELECT account_id, livemode, rail, reference, denies FROM rail_callback c
    WHERE account_id || ' ' || reference <> ALL(${resting}::text[]) AND ${staysHere(sql, "c")} LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED`
  if (named.length === 0) return named
  const found = yield* sql<Ref & { is_paid: boolean; denies: boolean; refund_id: string | null }>`
    SELECT c.account_id, c.livemode, c.id, c.status = 'succeeded' AS is_paid, r.denies, f.id AS refund_id
    FROM ${rowsAsTable(named, NAMED)} r
    JOIN charge c ON (c.account_id, c.livemode, c.id, c.rail) = (r.account_id, r.livemode, r.reference, r.rail)
    LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode, f.status) = (c.id, c.account_id, c.livemode, 'pending')
    ORDER BY c.id`
  const free = new Set((yield* charges.lock(found.map(refOf), "UPDATE SKIP LOCKED")).map(({ id }) => id))
  const mine = found.filter(({ id }) => free.has(id))
  const held = new Set(found.flatMap(({ id }) => (free.has(id) ? [] : [id])))
  yield* queueStatusChecks(mine.filter(({ is_paid }) => !is_paid))
  yield* askWhetherPaid(mine.filter(({ is_paid, denies }) => is_paid && denies))
  yield* askAboutRefunds(
    mine.flatMap(({ refund_id, ...ref }) => (refund_id === null ? [] : [{ ...ref, id: refund_id }])),
  )
  const followed = named.filter(({ reference }) => !held.has(reference))
  yield* sql`
    DELETE FROM rail_callback c USING ${rowsAsTable(followed, NAMED)} r
    WHERE (c.account_id, c.livemode, c.rail, c.reference) = (r.account_id, r.livemode, r.rail, r.reference)`
  return named
})

/** References, each behind its account, that were followed up just now. */
class Recent {
  readonly #followed = new Map<string, number>()

  add(named: ReadonlyArray<Named>): void {
    for (const { account_id, reference } of named) this.#followed.set(`${account_id} ${reference}`, performance.now())
  }

  get references(): ReadonlyArray<string> {
    const oldest = performance.now() - AGAIN_AFTER_MS
    for (const [named, at] of this.#followed) if (at < oldest) this.#followed.delete(named)
    return [...this.#followed.keys()]
  }
}

/** Follows up what callbacks named, for as long as the scope is open. */
export const railCallbackWorker = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const recent = new Recent()
  const work = Effect.gen(function* () {
    for (let found = MAX_BATCH; found === MAX_BATCH; ) {
      const named = yield* retryingDeadlocks(sql.withTransaction(takeNamed(recent.references)))
      recent.add(named)
      found = named.length
    }
  })
  const wake = yield* Queue.sliding<void>(1)
  const named = sql`SELECT FROM rail_callback ORDER BY account_id, livemode, rail, reference LIMIT 1`
  yield* (yield* QueuePoller).watch(named, () => Queue.offerUnsafe(wake, undefined))
  yield* whenWoken("rail callbacks", wake, Effect.uninterruptible(work))
})
