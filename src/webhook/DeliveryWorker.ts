/**
 * Delivers what waits. Every endpoint has a lane (Lane.ts): one process at a time works it. Lanes do not wait for each
 * other, so a slow or dead endpoint holds nobody else back; one that fails is tried sparingly. What all lanes need of the
 * database is read and written together, a few statements each round, however many they are. A process that dies leaves
 * its lanes to the others, which repeat what it had not recorded yet, with the same webhook-id.
 */
import { Effect, Redacted, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import { REF_COLUMNS, records } from "../db/records.ts"
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
import { LIVE_SECRETS, lockEndpoint, moveEndpoint } from "./Endpoints.ts"
import { giveUpEnded, purgeEvents } from "./housekeeping.ts"
import { Lane, type Target } from "./Lane.ts"
import { Sender } from "./Sender.ts"
import { WAITING, waitingEndpoints } from "./waiting.ts"

/** How often outcomes are written, and lanes that got emptier are filled. */
const ROUND_MS = 20
/** How often a process looks for what is new; less often where looking takes long, since very many endpoints are behind. */
const LOOK_EVERY_MS = 100
const MOST_OF_TIME_LOOKING = 0.1
const GIVE_UP_EVERY_MS = 1_000
/** After a round that failed: the database is away, say. */
const AFTER_FAILURE_MS = 1_000

/** How long a process that stops waits for the tries that are under way. */
const FINISH_WITHIN_MS = 3_000

const MOST_LANES = 5_000
/** Deliveries that a process has in hand: of one endpoint, and of all together. */
const MOST_OF_LANE = 256
const MOST_IN_HAND = 20_000

/** Without a success for so long and so often, an endpoint is disabled (decision I2). */
const FAILING_MS = 5 * DAY_MS
const FAILING_TRIES = 10

const GONE = 410

/** Takes endpoints that something waits for and nobody delivers to. */
const takeEndpoints = (held: ReadonlyArray<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    return yield* sql<EndpointRow>`
      WITH RECURSIVE ${waitingEndpoints(sql)}
      UPDATE webhook_endpoint SET runner = ${runner}
      FROM (
        SELECT e.account_id, e.livemode, e.id
        FROM waiting w JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (w.account_id, w.livemode, w.id)
        WHERE (w.due_at IS NULL OR w.due_at <= now()) AND e.state = 'enabled' AND NOT e.id = ANY(${held}::text[])
          AND (e.runner IS NULL OR e.runner = ${runner} OR ${isDead(sql, "e.runner", runner)})
        LIMIT ${MOST_LANES - held.length} FOR UPDATE OF e SKIP LOCKED
      ) free
      WHERE (webhook_endpoint.account_id, webhook_endpoint.livemode, webhook_endpoint.id) = (free.account_id, free.livemode, free.id)
      RETURNING webhook_endpoint.*, NULL::text AS test_clock_id`
  })

/** The endpoints as they are now, those that this process has still. */
const readTargets = (lanes: ReadonlyArray<Ref>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    const rows = yield* sql<EndpointRow & { readonly secrets: ReadonlyArray<string> }>`
      SELECT e.*, NULL::text AS test_clock_id, ARRAY(${sql.literal(LIVE_SECRETS)}) AS secrets
      FROM ${records(sql, lanes, REF_COLUMNS)} l
      JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
      WHERE e.runner = ${runner}`
    return new Map(
      rows.map(({ secrets, ...endpoint }): [string, Target] => [
        endpoint.id,
        { endpoint, secrets: secrets.map((secret) => Redacted.make(secret)) },
      ]),
    )
  })

const ROOM = { ...REF_COLUMNS, room: "integer", in_hand: "text" } as const

/**
 * What is to be sent next: retries that are due, then what was never tried, in order of creation. Retries get half of the
 * room at most: they must not keep what is new from being tried.
 */
const readWaiting = (lanes: ReadonlyArray<{ readonly lane: Lane; readonly room: number }>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const rooms = lanes.map(({ lane, room }) => {
      const { account_id, livemode, id } = lane.target.endpoint
      return { account_id, livemode, id, room, in_hand: `{${lane.inHand.join()}}` }
    })
    const some = (which: "due_at <= now()" | "due_at IS NULL", most: string) => sql`
      (SELECT * FROM webhook_delivery
      WHERE webhook_endpoint_id = e.id AND account_id = e.account_id AND livemode = e.livemode
        AND ${sql.literal(`${WAITING} AND ${which}`)} AND seq > e.given_up_to AND NOT seq = ANY(l.in_hand::bigint[])
      ORDER BY webhook_endpoint_id, due_at NULLS FIRST, seq LIMIT ${sql.literal(most)})`
    const rows = yield* sql<WithEvent>`
      SELECT ${sql.literal(WITH_EVENT)} FROM ${records(sql, rooms, ROOM)} l
      JOIN webhook_endpoint e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.id)
      CROSS JOIN LATERAL (${some("due_at <= now()", "(l.room + 1) / 2")} UNION ALL ${some("due_at IS NULL", "l.room")}) d
      JOIN event ON (event.account_id, event.livemode, event.id) = (d.account_id, d.livemode, d.event_id)
      WHERE e.state = 'enabled'
      -- Retries first, then in order of creation, on which the order of each object's rests.
      ORDER BY d.due_at, d.seq`
    return rows.map(waitingOf)
  })

/** How endpoints have been doing: what changed of it. */
const recordHealth = (endpoints: ReadonlyArray<EndpointRow>) =>
  Effect.gen(function* () {
    if (endpoints.length === 0) return
    const sql = yield* SqlClient.SqlClient
    const HEALTH = { ...REF_COLUMNS, failures: "integer", failing_since: "timestamptz" } as const
    yield* sql`
      UPDATE webhook_endpoint e SET failures = r.failures, failing_since = r.failing_since
      FROM ${records(sql, endpoints, HEALTH)} r
      WHERE (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id) AND e.state = 'enabled'`
  })

/** Whether it is the same still: its owner may have mended it while tries were under way. */
const isSame = (one: EndpointRow, other: EndpointRow): boolean => one.url === other.url && one.version === other.version

/** Disables an endpoint that is gone or fails for good. */
const disable = (endpoint: EndpointRow, type: Ending) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const move = Effect.gen(function* () {
      const row = yield* lockEndpoint(endpoint, endpoint.id)
      if (row?.state === "enabled" && isSame(row, endpoint)) yield* moveEndpoint(row, { type, at: Date.now() })
    })
    yield* sql.withTransaction(move)
  })

const letGo = (endpoints: ReadonlyArray<Ref>) =>
  Effect.gen(function* () {
    if (endpoints.length === 0) return
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    yield* sql`
      UPDATE webhook_endpoint e SET runner = NULL FROM ${records(sql, endpoints, REF_COLUMNS)} r
      WHERE (e.account_id, e.livemode, e.id) = (r.account_id, r.livemode, r.id) AND e.runner = ${runner}`
  })

/** A try that is over, its lane, and the endpoint as it was tried. */
interface Done {
  readonly lane: Lane
  readonly endpoint: EndpointRow
  readonly delivery: Waiting
  readonly outcome: Outcome
}

/** The endpoint after outcomes, in the order in which they came. */
const after = (endpoint: EndpointRow, done: ReadonlyArray<Done>): EndpointRow => {
  let { failures, failing_since } = endpoint
  for (const { outcome } of done) {
    failures = outcome.failure_reason === null ? 0 : failures + 1
    failing_since = outcome.failure_reason === null ? null : (failing_since ?? Date.now())
  }
  return { ...endpoint, failures, failing_since }
}

type Ending = "endpoint.gone" | "endpoint.failing"

/** Why an endpoint is to be disabled, if it is. */
const ending = ({ failures, failing_since }: EndpointRow, done: ReadonlyArray<Done>): Ending | undefined => {
  if (done.some(({ outcome }) => outcome.response_status === GONE)) return "endpoint.gone"
  const long = failing_since !== null && Date.now() - failing_since >= FAILING_MS
  return long && failures >= FAILING_TRIES ? "endpoint.failing" : undefined
}

/** Delivers for as long as the scope is open. */
export const deliveryWorker = Effect.gen(function* () {
  const sender = yield* Sender
  const lanes = new Map<string, Lane>()
  const done: Array<Done> = []

  /** Endpoints that are to be disabled: until that is written. */
  const endings = new Map<string, { readonly endpoint: EndpointRow; readonly type: Ending }>()
  let underWay = 0
  let stopping = false

  const start = (lane: Lane): void => {
    for (let next = lane.next(); next !== undefined && !stopping; next = lane.next()) {
      const delivery = next
      const { target } = lane
      underWay++
      void tryDelivery(sender, delivery, target).then((outcome) => {
        underWay--
        done.push({ lane, endpoint: target.endpoint, delivery, outcome })
        lane.tried(delivery)
        start(lane)
      })
    }
  }

  /** Writes the outcomes that there are, and what they say of the endpoints; answers their lanes. */
  const settle = Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const written = [...done]
    const byLane = [...Map.groupBy(written, ({ lane }) => lane)].map(([lane, its]) => {
      // Tries of an endpoint that was changed since say nothing of it as it is now.
      const telling = its.filter(({ endpoint }) => isSame(endpoint, lane.target.endpoint))
      return { lane, its, telling, now: after(lane.target.endpoint, telling) }
    })
    const changed = byLane.flatMap(({ lane: { target }, now }) =>
      now.failures === target.endpoint.failures && now.failing_since === target.endpoint.failing_since ? [] : [now],
    )
    const outcomes = written.map(({ outcome }) => outcome)
    // Endpoints before their deliveries, as everybody locks them.
    if (written.length > 0) yield* sql.withTransaction(Effect.andThen(recordHealth(changed), recordOutcomes(outcomes)))
    // What came in meanwhile stays, and so does what could not be written.
    done.splice(0, written.length)
    for (const { lane, its, telling, now } of byLane) {
      for (const { delivery } of its) lane.settled(delivery.seq)
      lane.update({ ...lane.target, endpoint: now })
      const type = ending(now, telling)
      if (type !== undefined) endings.set(now.id, { endpoint: now, type })
    }
    for (const [id, { endpoint, type }] of endings) {
      yield* disable(endpoint, type)
      endings.delete(id)
    }
    return byLane.map(({ lane }) => lane)
  })

  /** Looks how the endpoints are now: disabled, deleted, or taken over by a process to which this one looked dead. */
  const refresh = (which: ReadonlyArray<Lane>) =>
    Effect.gen(function* () {
      if (which.length === 0) return
      const targets = yield* readTargets(which.map(({ target }) => target.endpoint))
      for (const lane of which) {
        const { id } = lane.target.endpoint
        const target = targets.get(id)
        if (target !== undefined) lane.update(target)
        else {
          lane.clear()
          lanes.delete(id)
        }
      }
    })

  /** Fills lanes that have room, and lets go of those for which nothing is left to do. */
  const fill = (which: ReadonlyArray<Lane>) =>
    Effect.gen(function* () {
      const window = Math.min(MOST_OF_LANE, Math.ceil(MOST_IN_HAND / Math.max(1, lanes.size)))
      const roomy = which.flatMap((lane) => {
        const room = lanes.get(lane.target.endpoint.id) === lane ? lane.room(window) : 0
        return room > 0 ? [{ lane, room }] : []
      })
      if (roomy.length === 0) return
      for (const delivery of yield* readWaiting(roomy)) lanes.get(delivery.webhook_endpoint_id)?.add(delivery)
      for (const { lane } of roomy) start(lane)
      const over = roomy.filter(({ lane }) => lane.idle).map(({ lane }) => lane.target.endpoint)
      for (const { id } of over) lanes.delete(id)
      yield* letGo(over)
    })

  let lookAt = 0
  let tookBefore = 0
  const round = Effect.gen(function* () {
    let which: ReadonlyArray<Lane> = yield* settle
    const now = Date.now()
    if (now >= lookAt) {
      if (lanes.size < MOST_LANES)
        for (const endpoint of yield* takeEndpoints([...lanes.keys()]))
          lanes.set(endpoint.id, new Lane({ endpoint, secrets: [] }))
      const took = Date.now() - now
      // Once is nothing: the database may have stalled.
      lookAt = now + Math.max(LOOK_EVERY_MS, Math.min(took, tookBefore) / MOST_OF_TIME_LOOKING)
      tookBefore = took
      which = [...lanes.values()]
    }
    // What is read is sent to the endpoint as it is by then, and signed with the secrets that it has.
    yield* refresh(which)
    yield* fill(which)
  })

  /** Before a stop: what is under way is waited for, for a while, and written down; the rest is left to others. */
  const finish = Effect.gen(function* () {
    stopping = true
    const limit = Date.now() + FINISH_WITHIN_MS
    while (underWay > 0 && Date.now() < limit) yield* Effect.sleep(ROUND_MS)
    yield* Effect.ensuring(settle, Effect.ignore(letGo([...lanes.values()].map(({ target }) => target.endpoint))))
  })

  const rounds = round.pipe(
    orElseUnlessStopped((cause) => Effect.andThen(Effect.logError("webhooks", cause), Effect.sleep(AFTER_FAILURE_MS))),
    Effect.andThen(
      Effect.suspend(() => Effect.sleep(lanes.size === 0 && done.length === 0 ? LOOK_EVERY_MS : ROUND_MS)),
    ),
    Effect.forever,
    Effect.ensuring(finish.pipe(Effect.ignore)),
  )
  yield* Effect.forkScoped(rounds)
  yield* Effect.forkScoped(
    giveUpEnded.pipe(
      orElseUnlessStopped((cause) => Effect.logError("webhooks given up", cause)),
      Effect.repeat(Schedule.spaced(GIVE_UP_EVERY_MS)),
    ),
  )
  yield* everyMinute("events purged", purgeEvents)
})
