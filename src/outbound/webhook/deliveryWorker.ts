/**
 * Delivers what waits. Every endpoint has a lane (Lane.ts): one process at a time works it. Lanes do not wait for each
 * other, so a slow or dead endpoint holds nobody else back; one that fails is tried sparingly. What all lanes need of the
 * database is read and written together (queue.ts), once each round. A process that dies leaves its lanes to the others,
 * which repeat what it had not recorded yet, with the same webhook-id.
 */
import { Effect, Queue } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, MINUTE_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isFenced } from "../../db/tenant.ts"
import { isLockTimeout, withLockTimeout } from "../../postgres/lockWait.ts"
import { Deletions } from "../../process/deletion/Deletions.ts"
import { release, releasing } from "../../process/lease.ts"
import { QueuePoller } from "../../process/QueuePoller.ts"
import { every } from "../../process/workers.ts"
import { type Outcome, readBodies, recordOutcomes } from "./deliver.ts"
import type { EndpointQueue } from "./EndpointQueue.ts"
import { EndpointQueues, type Tried } from "./EndpointQueues.ts"
import { disable, type Ending, GONE, isSame } from "./ending.ts"
import { type EndpointRow, endpointLease } from "./endpoint.ts"
import { giveUpEnded, purgeEvents } from "./housekeeping.ts"
import { leaveEndpoints, lockFree, readTargets, readWaiting, recordHealth, takeEndpoints } from "./queue.ts"
import { Sender } from "./Sender.ts"
import { reportUnopened } from "./secrets.ts"
import { firstWaiting } from "./waiting.ts"

/** How often outcomes are written, and lanes that got emptier are filled. */
const ROUND_MS = 20
/** How often a process that delivers looks for what is new; less often where looking takes long, since very many endpoints are behind. */
const LOOK_EVERY_MS = 100
const MAX_TIME_LOOKING = 0.1
const GIVE_UP_EVERY_MS = 1_000

/** How long a process that stops waits for the tries that are under way. */
const FINISH_WITHIN_MS = 3_000

const MAX_LANES = 5_000
/** Deliveries that a process has in hand, of which few have their bodies (Bodies.ts): of one endpoint, and of all together. */
const MAX_OF_LANE = 256
const MAX_IN_HAND = 20_000

/** Without a success for so long and so often, an endpoint is disabled (decision I2). */
const FAILING_MS = 5 * DAY_MS
const FAILING_TRIES = 10

/** The endpoint after tries, in the order in which they ended. */
const healthAfter = (endpoint: EndpointRow, tried: ReadonlyArray<Tried>): EndpointRow => {
  let { failures, failing_since } = endpoint
  for (const { outcome } of tried) {
    failures = outcome.failure_reason === null ? 0 : failures + 1
    failing_since = outcome.failure_reason === null ? null : (failing_since ?? currentTime())
  }
  return { ...endpoint, failures, failing_since }
}

/** Why an endpoint is to be disabled, if it is. */
const endingOf = (endpoint: EndpointRow, tried: ReadonlyArray<Tried>): ReadonlyArray<Ending> => {
  if (tried.some(({ outcome }) => outcome.response_status === GONE)) return [{ endpoint, type: "endpoint.gone" }]
  const long = endpoint.failing_since !== null && currentTime() - endpoint.failing_since >= FAILING_MS
  return long && endpoint.failures >= FAILING_TRIES ? [{ endpoint, type: "endpoint.failing" }] : []
}

/** What a process remembers from round to round. */
class Rounds {
  readonly lanes: EndpointQueues
  /** Endpoints that are to be disabled: until that is written. */
  readonly endings = new Map<string, Ending>()
  #lookAt = 0
  #tookBefore = 0

  constructor(sender: Sender["Service"]) {
    this.lanes = new EndpointQueues(sender)
  }

  /** Whether nothing is left to do until something waits. */
  get isIdle(): boolean {
    return this.lanes.isIdle && this.endings.size === 0
  }

  get looksNow(): boolean {
    return this.pauseMs <= 0
  }

  /** How long until it may look again. */
  get pauseMs(): number {
    return this.#lookAt - performance.now()
  }

  /** A look that began then is over. One slow one is nothing: the database may have stalled. */
  looked(beganAt: number): void {
    const took = performance.now() - beganAt
    this.#lookAt = beganAt + Math.max(LOOK_EVERY_MS, Math.min(took, this.#tookBefore) / MAX_TIME_LOOKING)
    this.#tookBefore = took
  }
}

/** What tries of a lane came to, and how its endpoint does after them. */
interface Recording {
  readonly lane: EndpointQueue
  readonly its: ReadonlyArray<Tried>
  readonly telling: ReadonlyArray<Tried>
  readonly now: EndpointRow
}

const recordingOf = (lane: EndpointQueue, its: ReadonlyArray<Tried>): Recording => {
  // Tries of an endpoint that was changed since say nothing of it as it is now.
  const telling = its.filter(({ endpoint }) => isSame(endpoint, lane.target.endpoint))
  return { lane, its, telling, now: healthAfter(lane.target.endpoint, telling) }
}

const outcomesOf = (recordings: ReadonlyArray<Recording>): ReadonlyArray<Outcome> =>
  recordings.flatMap(({ its }) => its.map(({ outcome }) => outcome))

const write = Effect.fnUntraced(function* (recordings: ReadonlyArray<Recording>) {
  const changed = recordings.flatMap(({ lane: { target }, now }) =>
    now.failures === target.endpoint.failures && now.failing_since === target.endpoint.failing_since ? [] : [now],
  )
  // Endpoints before their deliveries, as everybody locks them.
  yield* recordHealth(changed)
  yield* recordOutcomes(outcomesOf(recordings))
})

/** What was written, and what is not for us to write: of accounts on their way to another cell, which sends again what it finds pending. */
interface Recorded {
  readonly written: ReadonlyArray<Recording>
  readonly left: ReadonlyArray<Recording>
}

/** Writes what nobody else is holding just now. */
const writeFree = Effect.fnUntraced(function* (recordings: ReadonlyArray<Recording>) {
  const notFree = yield* lockFree(
    recordings.map(({ now }) => now),
    outcomesOf(recordings),
  )
  const written = recordings.filter(({ now }) => !notFree.has(now.id))
  yield* write(written)
  return { written, left: recordings.filter(({ now }) => notFree.get(now.id) === true) } satisfies Recorded
})

const cannotWriteAll = (error: unknown): boolean => isLockTimeout(error) || isFenced(error)

/** Writes the outcomes that there are, and what they say of the endpoints; returns their lanes. What somebody holds stays for the next round. */
const record = Effect.fnUntraced(function* ({ lanes, endings }: Rounds) {
  const recordings = [...Map.groupBy(lanes.tried, ({ lane }) => lane)].map(([lane, its]) => recordingOf(lane, its))
  const sql = yield* SqlClient.SqlClient
  const together = Effect.as(withLockTimeout(write(recordings)), { written: recordings, left: [] } satisfies Recorded)
  const { written, left } =
    recordings.length === 0
      ? { written: [], left: [] }
      : yield* Effect.catchIf(together, cannotWriteAll, () => sql.withTransaction(writeFree(recordings)))
  // What came in meanwhile stays, and so does what could not be written.
  const done = [...written, ...left].flatMap(({ its }) => its)
  lanes.recorded(done)
  for (const { lane, delivery } of done) lane.recorded(delivery.seq)
  for (const { lane, telling, now } of written) {
    lane.update({ ...lane.target, endpoint: now })
    for (const ending of endingOf(now, telling)) endings.set(now.id, ending)
  }
  for (const [id, ending] of endings) {
    const disabled = Effect.as(disable(ending), true)
    // Of an account that moves the target finds out for itself.
    const isOver = yield* Effect.catchIf(disabled, cannotWriteAll, (error) => Effect.succeed(isFenced(error)))
    if (isOver) endings.delete(id)
  }
  return written.map(({ lane }) => lane)
})

/** Looks how the endpoints are now: disabled, deleted, or taken over by a process to which this one looked dead. */
const refresh = Effect.fnUntraced(function* ({ lanes }: Rounds, which: ReadonlyArray<EndpointQueue>) {
  if (which.length === 0) return
  const targets = yield* readTargets(which.map(({ target }) => target.endpoint))
  for (const lane of which) {
    const { id } = lane.target.endpoint
    const target = targets.get(id)
    if (target !== undefined) lane.update(target)
    else {
      lane.clear()
      if (!targets.has(id)) yield* release(endpointLease, lanes.remove(id))
    }
  }
})

/** Reads what waits for lanes that have room. */
const read = Effect.fnUntraced(function* (
  { lanes }: Rounds,
  roomy: ReadonlyArray<{ readonly lane: EndpointQueue; readonly room: number }>,
) {
  if (roomy.length === 0) return
  for (const delivery of yield* readWaiting(roomy)) lanes.get(delivery.webhook_endpoint_id)?.add(delivery)
})

/** Loads bodies as there is room for them, and begins to send them. */
const load = Effect.fnUntraced(function* ({ lanes }: Rounds) {
  lanes.takeRoom()
  for (let { missing } = lanes.bodies; missing.length > 0; { missing } = lanes.bodies)
    lanes.bodies.load(missing, yield* readBodies(missing))
  for (const lane of lanes.all) lanes.start(lane)
})

/** Fills lanes that have room, and lets go of those for which nothing is left to do. */
const fill = Effect.fnUntraced(function* (rounds: Rounds, which: ReadonlyArray<EndpointQueue>) {
  const { lanes } = rounds
  const window = Math.min(MAX_OF_LANE, Math.ceil(MAX_IN_HAND / Math.max(1, lanes.size)))
  const roomy = which.flatMap((lane) => {
    const room = lanes.get(lane.target.endpoint.id) === lane ? lane.room(window) : 0
    return room > 0 ? [{ lane, room }] : []
  })
  yield* read(rounds, roomy)
  yield* load(rounds)
  const over = roomy.filter(({ lane }) => lane.idle).map(({ lane }) => lane.target.endpoint)
  if (over.length === 0) return
  const taken = over.flatMap(({ id }) => lanes.remove(id))
  yield* releasing(endpointLease, taken, leaveEndpoints(over))
})

/** Takes the endpoints that something waits for; returns all lanes. */
const look = Effect.fnUntraced(function* (rounds: Rounds) {
  const { lanes } = rounds
  const beganAt = performance.now()
  if (lanes.size < MAX_LANES)
    for (const endpoint of yield* takeEndpoints(lanes.ids, MAX_LANES - lanes.size)) lanes.add(endpoint)
  rounds.looked(beganAt)
  return lanes.all
})

const round = Effect.fnUntraced(function* (rounds: Rounds) {
  const recorded = yield* record(rounds)
  const which = rounds.looksNow ? yield* look(rounds) : recorded
  // What is read is sent to the endpoint as it is by then, and signed with the secrets that it has.
  yield* refresh(rounds, which)
  yield* fill(rounds, which)
})

/** Before a stop: what is under way is waited for, for a while, and written down; the rest is left to others. */
const finish = Effect.fnUntraced(function* (rounds: Rounds) {
  const { lanes } = rounds
  lanes.stop()
  const limit = performance.now() + FINISH_WITHIN_MS
  while (lanes.underWay > 0 && performance.now() < limit) yield* Effect.sleep(ROUND_MS)
  yield* Effect.ensuring(
    record(rounds),
    Effect.ignore(leaveEndpoints(lanes.taken), { log: "Warn", message: "webhook endpoints are not let go of" }),
  )
})

/** Delivers for as long as the scope is open. */
export const deliveryWorker = Effect.gen(function* () {
  const rounds = new Rounds(yield* Sender)
  yield* Effect.addFinalizer(() =>
    finish(rounds).pipe(Effect.catchCause((cause) => Effect.logWarning("webhooks under way", cause))),
  )
  const wake = yield* Queue.sliding<void>(1)
  yield* (yield* QueuePoller).watch(firstWaiting(yield* SqlClient.SqlClient), () => Queue.offerUnsafe(wake, undefined))
  // What is deleted is sent no more, also where it was in hand. Only sandboxes are deleted from.
  yield* (yield* Deletions).watch((account) => rounds.lanes.clearSandbox(account))
  const untilLook = Effect.suspend(() => Effect.sleep(Math.max(rounds.pauseMs, 0)))
  const woken = Effect.andThen(Queue.take(wake), untilLook)
  const pause = Effect.suspend(() => (rounds.isIdle ? woken : Effect.sleep(ROUND_MS)))
  yield* every("webhooks", pause, round(rounds))
  yield* every("webhooks given up", GIVE_UP_EVERY_MS, giveUpEnded)
  yield* every("events purged", MINUTE_MS, purgeEvents())
  yield* every("webhook secrets", MINUTE_MS, reportUnopened)
})
