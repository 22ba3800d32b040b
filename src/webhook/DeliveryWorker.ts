/**
 * Delivers what waits. Every endpoint has a lane: one process at a time works it, several tries of it are under way at
 * once, and those of one object go in order. Lanes do not wait for each other, so a slow or dead endpoint holds nobody
 * else back; one that fails is tried sparingly. A process that dies leaves its lanes to the others, which repeat what it
 * had not recorded yet, with the same webhook-id.
 */
import { Cause, Deferred, Effect, type Redacted, Schedule, Semaphore } from "effect"
import { SqlClient } from "effect/sql"
import type { Ref } from "../db/tenant.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import { DAY_MS } from "../time.ts"
import { everyMinute, orElseUnlessStopped } from "../timers/TimerWorker.ts"
import {
  type Outcome,
  recordOutcomes,
  tryDelivery,
  type Waiting,
  WITH_EVENT,
  type WithEvent,
  waitingOf,
} from "./deliver.ts"
import type { EndpointRow } from "./Endpoint.ts"
import { lockEndpoint, moveEndpoint, readSecrets } from "./Endpoints.ts"

/** How often a process looks for endpoints that something waits for: one cheap statement. */
const LOOK_EVERY_MS = 200
/** Lanes of one process. A lane holds little while its endpoint is slow. */
const MOST_LANES = 500
/** Deliveries of an endpoint in hand, and tries of it under way. */
const WINDOW = 100
const AT_ONCE = 16
/** The same for an endpoint whose last try failed. */
const FAILING_WINDOW = 2
/** Outcomes are written together: those of so long. */
const GATHER_MS = 5
/** Database work of all lanes at once; the rest of the pool is for requests. */
const STATEMENTS_AT_ONCE = 4
const GIVEN_UP_AT_ONCE = 1_000

/** Without a success for so long and so often, an endpoint is disabled (decision I2). */
const FAILING_MS = 5 * DAY_MS
const FAILING_TRIES = 10

const RETENTION = "30 days"
const PURGED_AT_ONCE = 5_000

const PENDING = "status = 'pending' AND NOT once"

/** Takes endpoints that something waits for and nobody delivers to. `held`: those in hand. */
const takeLanes = (held: ReadonlyArray<string>, most: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const pending = sql.literal(PENDING)
    // Hops from endpoint to endpoint along the index of what waits: endpoints with nothing cost nothing.
    return yield* sql<EndpointRow>`
      WITH RECURSIVE waiting AS (
        (SELECT account_id, livemode, webhook_endpoint_id AS id FROM webhook_delivery WHERE ${pending} ORDER BY webhook_endpoint_id LIMIT 1)
        UNION ALL
        SELECT n.* FROM waiting w CROSS JOIN LATERAL (
          SELECT d.account_id, d.livemode, d.webhook_endpoint_id FROM webhook_delivery d
          WHERE ${pending} AND d.webhook_endpoint_id > w.id ORDER BY d.webhook_endpoint_id LIMIT 1
        ) n
      )
      UPDATE webhook_endpoint SET runner = ${runner}
      FROM (
        SELECT e.account_id, e.livemode, e.id
        FROM waiting w JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
        WHERE (e.runner IS NULL OR ${isDead(sql, "e.runner", runner)} OR e.runner = ${runner}) AND NOT e.id = ANY(${held}::text[])
          AND (EXISTS (SELECT 1 FROM webhook_delivery d WHERE d.webhook_endpoint_id = e.id AND ${pending} AND d.due_at IS NULL)
            OR EXISTS (SELECT 1 FROM webhook_delivery d WHERE d.webhook_endpoint_id = e.id AND ${pending} AND d.due_at <= now()))
        LIMIT ${most} FOR UPDATE OF e SKIP LOCKED
      ) free
      WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
      RETURNING webhook_endpoint.*, NULL::text AS test_clock_id`
  })

/** The endpoint as it is now, if this process has it still. */
const readLane = (ref: Ref) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const [row] = yield* sql<EndpointRow & { given_up_to: number }>`
      SELECT *, NULL::text AS test_clock_id FROM webhook_endpoint
      WHERE account_id = ${ref.account_id} AND livemode = ${ref.livemode} AND id = ${ref.id} AND runner = ${runner}`
    return row
  })

/** What is to be sent next: retries that are due, then what was never tried, in order of creation. */
const readWaiting = (ref: Ref, room: number, inHand: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const of = (due: "d.due_at IS NULL" | "d.due_at <= now()", most: number) => sql<WithEvent>`
      SELECT ${sql.literal(WITH_EVENT)} FROM webhook_delivery d
      JOIN event e ON (e.account_id, e.livemode, e.id) = (d.account_id, d.livemode, d.event_id)
      WHERE d.webhook_endpoint_id = ${ref.id} AND d.account_id = ${ref.account_id} AND d.livemode = ${ref.livemode}
        AND ${sql.literal(PENDING)} AND ${sql.literal(due)} AND NOT d.id = ANY(${inHand}::text[])
      ORDER BY d.webhook_endpoint_id, d.due_at, d.seq LIMIT ${most}`
    // Half of the room at most for retries: they must not keep what is new from being tried.
    const retries = yield* of("d.due_at <= now()", Math.ceil(room / 2))
    const fresh = yield* of("d.due_at IS NULL", room - retries.length)
    return [...retries, ...fresh].map(waitingOf)
  })

/** Gives up what an endpoint is not to get any more. Answers how many that were. */
const giveUp = (ref: Ref, upTo: number | null) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const within = upTo === null ? sql`true` : sql`seq <= ${upTo}`
    const gone = yield* sql`
      UPDATE webhook_delivery SET status = 'failed', due_at = NULL, failure_reason = 'endpoint_disabled'
      WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM webhook_delivery
        WHERE webhook_endpoint_id = ${ref.id} AND ${sql.literal(PENDING)} AND ${within} LIMIT ${GIVEN_UP_AT_ONCE}
      ) RETURNING 1`
    return gone.length
  })

/** How an endpoint has been doing: written only when that changes. */
interface Health {
  readonly failures: number
  readonly failing_since: number | null
}

const healthAfter = (before: Health, outcomes: ReadonlyArray<Outcome>, now: number): Health => {
  let { failures, failing_since } = before
  for (const { failure_reason } of outcomes) {
    failures = failure_reason === null ? 0 : failures + 1
    failing_since = failure_reason === null ? null : (failing_since ?? now)
  }
  return { failures, failing_since }
}

const GONE = 410

/** Writes outcomes, and what they say of the endpoint; disables one that is gone or fails for good. */
const settle = (endpoint: EndpointRow, outcomes: ReadonlyArray<Outcome>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const now = Date.now()
    yield* recordOutcomes(outcomes)
    const health = healthAfter(endpoint, outcomes, now)
    if (health.failures !== endpoint.failures)
      yield* sql`
        UPDATE webhook_endpoint SET failures = ${health.failures}, failing_since = ${health.failing_since === null ? null : new Date(health.failing_since)}
        WHERE account_id = ${endpoint.account_id} AND livemode = ${endpoint.livemode} AND id = ${endpoint.id} AND state = 'enabled'`
    const gone = outcomes.some(({ response_status }) => response_status === GONE)
    const failing =
      health.failures >= FAILING_TRIES && health.failing_since !== null && now - health.failing_since >= FAILING_MS
    if (gone || failing)
      yield* sql.withTransaction(
        Effect.gen(function* () {
          const row = yield* lockEndpoint(endpoint, endpoint.id)
          if (row?.state === "enabled")
            yield* moveEndpoint(row, { type: gone ? "endpoint.gone" : "endpoint.failing", at: now })
        }),
      )
    return { ...endpoint, ...health }
  })

/** Works an endpoint's lane until nothing is due there. */
const workLane = (taken: EndpointRow, statements: Semaphore.Semaphore) =>
  Effect.gen(function* () {
    const inHand = new Map<string, Waiting>()
    /** The newest try of an object that is under way: the next waits for it. */
    const lastOf = new Map<string, Deferred.Deferred<void>>()
    let outcomes: Array<Outcome> = []
    let finished = yield* Deferred.make<void>()
    const turns = yield* Semaphore.make(AT_ONCE)

    const start = (delivery: Waiting, url: string, secrets: ReadonlyArray<Redacted.Redacted<string>>) =>
      Effect.gen(function* () {
        inHand.set(delivery.id, delivery)
        const before = lastOf.get(delivery.object_id)
        const done = yield* Deferred.make<void>()
        lastOf.set(delivery.object_id, done)
        const work = Effect.gen(function* () {
          if (before !== undefined) yield* Deferred.await(before)
          const outcome = yield* turns.withPermits(1)(tryDelivery(delivery, url, secrets))
          outcomes.push(outcome)
          if (lastOf.get(delivery.object_id) === done) lastOf.delete(delivery.object_id)
          yield* Deferred.succeed(done, undefined)
          yield* Deferred.succeed(finished, undefined)
        })
        yield* Effect.forkScoped(work)
      })

    for (;;) {
      const endpoint = yield* readLane(taken)
      // Deleted, or taken over by a process to which this one looked dead.
      if (endpoint === undefined) return
      if (endpoint.state === "disabled") {
        if ((yield* giveUp(taken, null)) === 0 && inHand.size === 0) return
      } else {
        if (endpoint.given_up_to > 0) while ((yield* giveUp(taken, endpoint.given_up_to)) > 0);
        const window = endpoint.failures > 0 ? FAILING_WINDOW : WINDOW
        // Refilled by halves, so that a statement is worth its while.
        if (inHand.size <= window / 2) {
          const found = yield* statements.withPermits(1)(readWaiting(taken, window - inHand.size, [...inHand.keys()]))
          if (found.length === 0 && inHand.size === 0) return
          const secrets = found.length === 0 ? [] : yield* readSecrets(taken)
          yield* Effect.forEach(found, (delivery) => start(delivery, endpoint.url, secrets), { discard: true })
        }
      }
      if (inHand.size === 0) continue
      yield* Deferred.await(finished)
      yield* Effect.sleep(GATHER_MS)
      finished = yield* Deferred.make<void>()
      const written = outcomes
      outcomes = []
      yield* statements.withPermits(1)(settle(endpoint, written))
      for (const { id } of written) inHand.delete(id)
    }
  }).pipe(Effect.scoped)

const letGo = (ref: Ref) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    yield* sql`
      UPDATE webhook_endpoint SET runner = NULL
      WHERE account_id = ${ref.account_id} AND livemode = ${ref.livemode} AND id = ${ref.id} AND runner = ${runner}`
  }).pipe(Effect.ignore)

/** What waits for endpoints that were deleted. */
const giveUpOrphans = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const orphans = yield* sql<Ref>`
    SELECT DISTINCT account_id, livemode, webhook_endpoint_id AS id FROM webhook_delivery d
    WHERE ${sql.literal(PENDING)} AND NOT EXISTS (
      SELECT 1 FROM webhook_endpoint e WHERE (e.account_id, e.livemode, e.id) = (d.account_id, d.livemode, d.webhook_endpoint_id))`
  for (const orphan of orphans) while ((yield* giveUp(orphan, null)) > 0);
})

/** Deletes events, and their deliveries, that are older than they are kept for (decision I5). */
export const purgeEvents = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  let purged = PURGED_AT_ONCE
  while (purged === PURGED_AT_ONCE) {
    const gone = yield* sql`
      DELETE FROM event WHERE (account_id, livemode, id) IN (
        SELECT account_id, livemode, id FROM event WHERE recorded_at < now() - ${RETENTION}::interval LIMIT ${PURGED_AT_ONCE}
      ) RETURNING 1`
    purged = gone.length
  }
})

/** Delivers for as long as the scope is open. */
export const deliveryWorker = Effect.gen(function* () {
  const lanes = new Set<string>()
  const statements = yield* Semaphore.make(STATEMENTS_AT_ONCE)
  const open = (endpoint: EndpointRow) =>
    workLane(endpoint, statements).pipe(
      Effect.catchCause((cause) =>
        Cause.hasInterruptsOnly(cause)
          ? Effect.void
          : Effect.logError("webhook lane", { endpoint: endpoint.id }, cause),
      ),
      Effect.ensuring(letGo(endpoint)),
      Effect.ensuring(Effect.sync(() => lanes.delete(endpoint.id))),
      Effect.forkScoped,
    )
  const look = Effect.gen(function* () {
    if (lanes.size >= MOST_LANES) return
    const taken = yield* takeLanes([...lanes], MOST_LANES - lanes.size)
    for (const endpoint of taken) lanes.add(endpoint.id)
    yield* Effect.forEach(taken, open, { discard: true })
  })
  yield* Effect.forkScoped(
    Effect.repeat(
      look.pipe(orElseUnlessStopped((cause) => Effect.logError("webhooks", cause))),
      Schedule.spaced(LOOK_EVERY_MS),
    ),
  )
  yield* everyMinute("webhook housekeeping", Effect.andThen(giveUpOrphans, purgeEvents))
})
