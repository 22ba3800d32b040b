/**
 * Sends waiting webhook deliveries. Every endpoint has an EndpointQueue, which one process at a time works on. Queues are
 * independent, so a slow or dead endpoint does not block others; a failing one is tried less. Each round reads and writes the rows
 * of all queues together (queue.ts). Others take a dead process's endpoints and repeat unrecorded tries, with the same webhook-id.
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
import { lockUnlockedRows, readTargets, readWaiting, recordHealth, releaseEndpoints, takeEndpoints } from "./queue.ts"
import { Sender } from "./Sender.ts"
import { reportUnopened } from "./secrets.ts"
import { firstWaiting } from "./waiting.ts"

/** How often outcomes are recorded and queues are refilled. */
const ROUND_MS = 20
/** How often a busy process polls for new deliveries. Polling takes at most a tenth of the time, even with very many endpoints. */
const POLL_MS = 100
const MAX_POLL_SHARE = 0.1
const GIVE_UP_EVERY_MS = 1_000

/** How long a stopping process waits for running tries. */
const FINISH_WITHIN_MS = 3_000

const MAX_QUEUES = 5_000
/** Deliveries in flight, of one endpoint and of all together. Only few have their bodies loaded (Bodies.ts). */
const MAX_PER_QUEUE = 256
const MAX_IN_FLIGHT = 20_000

/** An endpoint is disabled after both: this time and this number of tries without a success (decision I2). */
const FAILING_MS = 5 * DAY_MS
const FAILING_TRIES = 10

/** Returns the endpoint's row after these tries, which are in the order of their end. */
const healthAfter = (endpoint: EndpointRow, tried: ReadonlyArray<Tried>): EndpointRow => {
  let { failures, failing_since } = endpoint
  for (const { outcome } of tried) {
    failures = outcome.failure_reason === null ? 0 : failures + 1
    failing_since = outcome.failure_reason === null ? null : (failing_since ?? currentTime())
  }
  return { ...endpoint, failures, failing_since }
}

/** Returns why an endpoint is to be disabled; empty if it is not. */
const endingOf = (endpoint: EndpointRow, tried: ReadonlyArray<Tried>): ReadonlyArray<Ending> => {
  if (tried.some(({ outcome }) => outcome.response_status === GONE)) return [{ endpoint, type: "endpoint.gone" }]
  const isLong = endpoint.failing_since !== null && currentTime() - endpoint.failing_since >= FAILING_MS
  return isLong && endpoint.failures >= FAILING_TRIES ? [{ endpoint, type: "endpoint.failing" }] : []
}

/** The worker's state between rounds. */
class Rounds {
  readonly queues: EndpointQueues
  /** Endpoints to disable, by ID, until that is committed. */
  readonly endings = new Map<string, Ending>()
  #nextPollAt = 0
  #lastPollMs = 0

  constructor(sender: Sender["Service"]) {
    this.queues = new EndpointQueues(sender)
  }

  /** Whether there is nothing to do until a delivery waits. */
  get isIdle(): boolean {
    return this.queues.isIdle && this.endings.size === 0
  }

  get isPollDue(): boolean {
    return this.pauseMs <= 0
  }

  /** The time until the next poll (ms). */
  get pauseMs(): number {
    return this.#nextPollAt - performance.now()
  }

  /** Schedules the next poll. A single slow poll does not delay it: the database may have stalled. */
  polled(startedAt: number): void {
    const tookMs = performance.now() - startedAt
    this.#nextPollAt = startedAt + Math.max(POLL_MS, Math.min(tookMs, this.#lastPollMs) / MAX_POLL_SHARE)
    this.#lastPollMs = tookMs
  }
}

/** The finished tries of a queue, those that count for its endpoint's health, and the endpoint after them. */
interface Recording {
  readonly queue: EndpointQueue
  readonly tries: ReadonlyArray<Tried>
  readonly relevant: ReadonlyArray<Tried>
  readonly updated: EndpointRow
}

const recordingOf = (queue: EndpointQueue, tries: ReadonlyArray<Tried>): Recording => {
  // If the endpoint was changed since, its earlier tries do not count for its health.
  const relevant = tries.filter(({ endpoint }) => isSame(endpoint, queue.target.endpoint))
  return { queue, tries, relevant, updated: healthAfter(queue.target.endpoint, relevant) }
}

const outcomesOf = (recordings: ReadonlyArray<Recording>): ReadonlyArray<Outcome> =>
  recordings.flatMap(({ tries }) => tries.map(({ outcome }) => outcome))

const write = Effect.fnUntraced(function* (recordings: ReadonlyArray<Recording>) {
  const changed = recordings.flatMap(({ queue: { target }, updated }) =>
    updated.failures === target.endpoint.failures && updated.failing_since === target.endpoint.failing_since
      ? []
      : [updated],
  )
  // The lock order is endpoints, then their deliveries.
  yield* recordHealth(changed)
  yield* recordOutcomes(outcomesOf(recordings))
})

/** The written recordings, and those dropped because their account is moving: the other cell sends pending deliveries again. */
interface Recorded {
  readonly written: ReadonlyArray<Recording>
  readonly dropped: ReadonlyArray<Recording>
}

/** Writes the recordings whose rows are not locked by others. */
const writeUnlocked = Effect.fnUntraced(function* (recordings: ReadonlyArray<Recording>) {
  const skipped = yield* lockUnlockedRows(
    recordings.map(({ updated }) => updated),
    outcomesOf(recordings),
  )
  const written = recordings.filter(({ updated }) => !skipped.has(updated.id))
  yield* write(written)
  return { written, dropped: recordings.filter(({ updated }) => skipped.get(updated.id) === true) } satisfies Recorded
})

const cannotWriteAll = (error: unknown): boolean => isLockTimeout(error) || isFenced(error)

/** Records finished tries and the health of their endpoints. Returns the written queues. Locked rows wait for the next round. */
const record = Effect.fnUntraced(function* ({ queues, endings }: Rounds) {
  const byQueue = Map.groupBy(queues.tried, ({ queue }) => queue)
  const recordings = [...byQueue].map(([queue, tries]) => recordingOf(queue, tries))
  const sql = yield* SqlClient.SqlClient
  const writeAll = Effect.as(withLockTimeout(write(recordings)), {
    written: recordings,
    dropped: [],
  } satisfies Recorded)
  const { written, dropped } =
    recordings.length === 0
      ? { written: [], dropped: [] }
      : yield* Effect.catchIf(writeAll, cannotWriteAll, () => sql.withTransaction(writeUnlocked(recordings)))
  // Tries that ended meanwhile, or could not be written, stay for the next round.
  const done = [...written, ...dropped].flatMap(({ tries }) => tries)
  queues.recorded(done)
  for (const { queue, delivery } of done) queue.recorded(delivery.seq)
  for (const { queue, relevant, updated } of written) {
    queue.update({ ...queue.target, endpoint: updated })
    for (const ending of endingOf(updated, relevant)) endings.set(updated.id, ending)
  }
  for (const [id, ending] of endings) {
    const disabled = Effect.as(disable(ending), true)
    // If the account is moving, the target cell disables the endpoint.
    const isOver = yield* Effect.catchIf(disabled, cannotWriteAll, (error) => Effect.succeed(isFenced(error)))
    if (isOver) endings.delete(id)
  }
  return written.map(({ queue }) => queue)
})

/** Reads the endpoints again. They may be disabled, deleted, or taken over by a process that considered this one dead. */
const refresh = Effect.fnUntraced(function* ({ queues }: Rounds, selected: ReadonlyArray<EndpointQueue>) {
  if (selected.length === 0) return
  const targets = yield* readTargets(selected.map(({ target }) => target.endpoint))
  for (const queue of selected) {
    const { id } = queue.target.endpoint
    const target = targets.get(id)
    if (target !== undefined) queue.update(target)
    else {
      queue.clear()
      if (!targets.has(id)) yield* release(endpointLease, queues.remove(id))
    }
  }
})

/** Reads waiting deliveries into queues that have room. */
const read = Effect.fnUntraced(function* (
  { queues }: Rounds,
  roomy: ReadonlyArray<{ readonly queue: EndpointQueue; readonly room: number }>,
) {
  if (roomy.length === 0) return
  for (const delivery of yield* readWaiting(roomy)) queues.get(delivery.webhook_endpoint_id)?.add(delivery)
})

/** Loads bodies while there is room, and starts their tries. */
const load = Effect.fnUntraced(function* ({ queues }: Rounds) {
  queues.takeRoom()
  for (let { missing } = queues.bodies; missing.length > 0; { missing } = queues.bodies)
    queues.bodies.load(missing, yield* readBodies(missing))
  for (const queue of queues.all) queues.start(queue)
})

/** Fills queues that have room, and releases idle ones. */
const fill = Effect.fnUntraced(function* (rounds: Rounds, selected: ReadonlyArray<EndpointQueue>) {
  const { queues } = rounds
  const window = Math.min(MAX_PER_QUEUE, Math.ceil(MAX_IN_FLIGHT / Math.max(1, queues.size)))
  const roomy = selected.flatMap((queue) => {
    const room = queues.get(queue.target.endpoint.id) === queue ? queue.room(window) : 0
    return room > 0 ? [{ queue, room }] : []
  })
  yield* read(rounds, roomy)
  yield* load(rounds)
  const idle = roomy.filter(({ queue }) => queue.idle).map(({ queue }) => queue.target.endpoint)
  if (idle.length === 0) return
  const taken = idle.flatMap(({ id }) => queues.remove(id))
  yield* releasing(endpointLease, taken, releaseEndpoints(idle))
})

/** Takes the endpoints that have waiting deliveries. Returns all queues. */
const poll = Effect.fnUntraced(function* (rounds: Rounds) {
  const { queues } = rounds
  const startedAt = performance.now()
  if (queues.size < MAX_QUEUES)
    for (const endpoint of yield* takeEndpoints(queues.ids, MAX_QUEUES - queues.size)) queues.add(endpoint)
  rounds.polled(startedAt)
  return queues.all
})

const round = Effect.fnUntraced(function* (rounds: Rounds) {
  const recorded = yield* record(rounds)
  const selected = rounds.isPollDue ? yield* poll(rounds) : recorded
  // First refresh, so that deliveries use the endpoint's current URL and secrets.
  yield* refresh(rounds, selected)
  yield* fill(rounds, selected)
})

/** Stops the worker: waits a while for running tries, records them, and leaves the endpoints to other processes. */
const finish = Effect.fnUntraced(function* (rounds: Rounds) {
  const { queues } = rounds
  queues.stop()
  const limit = performance.now() + FINISH_WITHIN_MS
  while (queues.underWay > 0 && performance.now() < limit) yield* Effect.sleep(ROUND_MS)
  yield* Effect.ensuring(
    record(rounds),
    Effect.ignore(releaseEndpoints(queues.taken), { log: "Warn", message: "cannot release webhook endpoints" }),
  )
})

/** Delivers webhooks while the scope is open. */
export const deliveryWorker = Effect.gen(function* () {
  const rounds = new Rounds(yield* Sender)
  yield* Effect.addFinalizer(() =>
    finish(rounds).pipe(Effect.catchCause((cause) => Effect.logWarning("cannot finish running webhooks", cause))),
  )
  const wake = yield* Queue.sliding<void>(1)
  yield* (yield* QueuePoller).watch(firstWaiting(yield* SqlClient.SqlClient), () => Queue.offerUnsafe(wake, undefined))
  // Deleted events are not sent, even if they were in flight. Only sandboxes have deletions.
  yield* (yield* Deletions).watch((account) => rounds.queues.clearSandbox(account))
  const untilPoll = Effect.suspend(() => Effect.sleep(Math.max(rounds.pauseMs, 0)))
  const woken = Effect.andThen(Queue.take(wake), untilPoll)
  const pause = Effect.suspend(() => (rounds.isIdle ? woken : Effect.sleep(ROUND_MS)))
  yield* every("webhooks", pause, round(rounds))
  yield* every("webhooks given up", GIVE_UP_EVERY_MS, giveUpEnded)
  yield* every("events purged", MINUTE_MS, purgeEvents())
  yield* every("webhook secrets", MINUTE_MS, reportUnopened)
})
