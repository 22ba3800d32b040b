/** Follows up the references that rails' callbacks name: asks the rail about each, and trusts nothing else in a callback (decision P13). */
import { Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf, staysHere } from "../../db/tenant.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import { QueuePoller } from "../../process/QueuePoller.ts"
import { whenWoken } from "../../process/workers.ts"
import type { OutsideRail } from "../../rails/rail/Rail.ts"
import { charges } from "../charge/charge.ts"
import { askAboutRefunds } from "../refund/calls.ts"
import { queueDeniedPaymentChecks, queueStatusChecks } from "./statusChecks.ts"

const MAX_BATCH = 200
/** Shortest time between two follow-ups of a reference by this process: a holder of the keys may name it endlessly. */
const AGAIN_AFTER_MS = 250

interface CallbackReference {
  readonly account_id: string
  readonly livemode: boolean
  readonly rail: OutsideRail
  readonly reference: string
  readonly denies: boolean
}

const NAMED = { account_id: "text", livemode: "boolean", rail: "text", reference: "text", denies: "boolean" } as const

/**
 * Takes the next references and queues status checks of their charges and pending refunds. A paid charge is checked only if a callback
 * denies the payment. References without a charge are dropped. References of locked charges stay, without delaying other accounts. Runs in
 * the running transaction.
 */
const takeNamed = Effect.fnUntraced(function* (recent: ReadonlyArray<string>) {
  const sql = yield* SqlClient.SqlClient
  const named = yield* sql<CallbackReference>`
    SELECT account_id, livemode, rail, reference, denies FROM rail_callback c
    WHERE account_id || ' ' || reference <> ALL(${recent}::text[]) AND ${staysHere(sql, "c")} LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED`
  if (named.length === 0) return named
  const found = yield* sql<Ref & { is_paid: boolean; denies: boolean; refund_id: string | null }>`
    SELECT c.account_id, c.livemode, c.id, c.status = 'succeeded' AS is_paid, r.denies, f.id AS refund_id
    FROM ${rowsAsTable(named, NAMED)} r
    JOIN charge c ON (c.account_id, c.livemode, c.id, c.rail) = (r.account_id, r.livemode, r.reference, r.rail)
    LEFT JOIN refund f ON (f.charge_id, f.account_id, f.livemode, f.status) = (c.id, c.account_id, c.livemode, 'pending')
    ORDER BY c.id`
  const unlocked = new Set((yield* charges.lock(found.map(refOf), "UPDATE SKIP LOCKED")).map(({ id }) => id))
  const charged = found.filter(({ id }) => unlocked.has(id))
  const lockedIds = new Set(found.flatMap(({ id }) => (unlocked.has(id) ? [] : [id])))
  yield* queueStatusChecks(charged.filter(({ is_paid }) => !is_paid))
  yield* queueDeniedPaymentChecks(charged.filter(({ is_paid, denies }) => is_paid && denies))
  yield* askAboutRefunds(
    charged.flatMap(({ refund_id, ...ref }) => (refund_id === null ? [] : [{ ...ref, id: refund_id }])),
  )
  const handled = named.filter(({ reference }) => !lockedIds.has(reference))
  yield* sql`
    DELETE FROM rail_callback c USING ${rowsAsTable(handled, NAMED)} r
    WHERE (c.account_id, c.livemode, c.rail, c.reference) = (r.account_id, r.livemode, r.rail, r.reference)`
  return named
})

/** References with their accounts that this process followed up recently. */
class Recent {
  readonly #handled = new Map<string, number>()

  add(named: ReadonlyArray<CallbackReference>): void {
    for (const { account_id, reference } of named) this.#handled.set(`${account_id} ${reference}`, performance.now())
  }

  get references(): ReadonlyArray<string> {
    const oldest = performance.now() - AGAIN_AFTER_MS
    for (const [named, at] of this.#handled) if (at < oldest) this.#handled.delete(named)
    return [...this.#handled.keys()]
  }
}

/** Follows up the references that callbacks name, for as long as the scope is open. */
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
