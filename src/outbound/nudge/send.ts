/**
 * Sends committed nudges to messengers, outside any transaction. A messenger's answer is the nudge's next event.
 * Nudges in flight in a dead process are taken over: sent again if the messenger is repeatable, else treated as
 * unanswered, so that no customer gets a message twice on one channel.
 */
import { Effect, Queue, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { CHANNELS, type Channel, type MessengerAnswer, type NudgeEvent } from "../../../machines/nudge.ts"
import { afterQuiet, MAX_LATE_MS, type QuietHours } from "../../../machines/reminders.ts"
import type { NowOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { clockTimeSql, movesElsewhere } from "../../billing/clock/clocks.ts"
import { Counter } from "../../concurrency/Counter.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { refOf, staysHere } from "../../db/tenant.ts"
import { releasing, type Taking, take } from "../../process/lease.ts"
import { ProcessLease } from "../../process/ProcessLease.ts"
import { QueuePoller } from "../../process/QueuePoller.ts"
import { every, whenWoken } from "../../process/workers.ts"
import { isInShard, type Shard } from "../../runtime/clockBatches.ts"
import { type Accepted, type Message, Messenger, type SendError } from "../messenger/Messenger.ts"
import { Nudging, paymentLink } from "./Nudging.ts"
import { type NudgeRow, nudgeLease, nudges } from "./nudge.ts"
import { transitionNudges } from "./transition.ts"

/** Messages of one clock in flight, and nudges taken per statement. */
const MAX_AT_ONCE = 32
const MAX_BATCH = 500
/** How often a process polls for dropped nudges. */
const DROPPED_POLL_MS = 2_000
/** Storing an answer is retried this often: it exists only in memory. */
const MAX_RECORD_TRIES = 6
const RECORD_RETRY_MS = 100

interface Taken extends NudgeRow {
  /** Whether it was in flight in a process before. */
  readonly was_in_flight: boolean
  readonly business_name: string
  /** Now, on its test clock; null on the wall clock. */
  readonly clock_at: number | null
}

/** A taken nudge with its next event. */
interface Answered {
  readonly nudge: NudgeRow
  readonly answer: NudgeEvent
  readonly messageId: string | null
}

/** Takes the nudges that a query selects (with `was_in_flight`). Returns them in order of creation. */
const takeNudges = Effect.fnUntraced(function* (selected: (sql: SqlClient.SqlClient, taking: Taking) => Fragment) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* take(
    nudgeLease,
    (taking) => sql<Taken>`
      UPDATE nudge SET runner = ${taking.runner}, taken_at = now()
      FROM (${selected(sql, taking)}) t, account a
      WHERE (nudge.account_id, nudge.livemode, nudge.id) = (t.account_id, t.livemode, t.id) AND a.id = nudge.account_id
      RETURNING nudge.*, t.was_in_flight, a.business_name,
        (SELECT ${clockTimeSql(sql, "nudge", "k")} FROM test_clock k
          WHERE (k.account_id, k.livemode, k.id) = (nudge.account_id, nudge.livemode, nudge.test_clock_id)) AS clock_at`,
  )
  return [...rows].sort((a, b) => (a.id < b.id ? -1 : 1))
})

interface Room {
  readonly livemode: boolean
  readonly channel: Channel
  readonly room: number
}

const ROOM = { livemode: "boolean", channel: "text", room: "integer" } as const

/** Takes waiting nudges on the wall clock, at most `room` of each channel. */
const takeWaiting = (rooms: ReadonlyArray<Room>) =>
  takeNudges(
    (sql) => sql`
      SELECT w.*, false AS was_in_flight FROM ${rowsAsTable(rooms, ROOM)} r CROSS JOIN LATERAL (
        SELECT n.account_id, n.livemode, n.id FROM nudge n
        WHERE n.state = 'sending' AND n.runner IS NULL AND n.test_clock_id IS NULL AND n.livemode = r.livemode AND n.channel = r.channel
          AND ${staysHere(sql, "n")}
        ORDER BY n.livemode, n.channel, n.id LIMIT r.room FOR UPDATE SKIP LOCKED
      ) w`,
  )

/** Takes waiting nudges on test clocks that are not advancing. The worker of an advancing clock sends its nudges. */
const takeOnStandingClocks = takeNudges(
  (sql) => sql`
    SELECT n.account_id, n.livemode, n.id, false AS was_in_flight FROM nudge n
    JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (n.account_id, n.livemode, n.test_clock_id)
    WHERE n.state = 'sending' AND n.runner IS NULL AND n.test_clock_id IS NOT NULL AND k.state <> 'advancing'
      AND ${staysHere(sql, "n")}
    LIMIT ${MAX_BATCH} FOR UPDATE OF n SKIP LOCKED`,
)

/** Takes nudges dropped by a dead process or this one. On a clock that another process advances: only those dropped by this one. */
const takeDropped = takeNudges(
  (sql, { runner, isDropped }) => sql`
    SELECT n.account_id, n.livemode, n.id, true AS was_in_flight FROM nudge n
    LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (n.account_id, n.livemode, n.test_clock_id)
    WHERE n.state = 'sending' AND n.runner IS NOT NULL AND ${isDropped("n")}
      AND (k.state IS DISTINCT FROM 'advancing' OR (n.runner = ${runner} AND ${movesElsewhere(sql, "k", runner)}))
      AND ${staysHere(sql, "n")}
    LIMIT ${MAX_BATCH} FOR UPDATE OF n SKIP LOCKED`,
)

const takeOnClock = (testClockId: string, shard: Shard) =>
  takeNudges(
    (sql, { isFree }) => sql`
      SELECT n.account_id, n.livemode, n.id, n.runner IS NOT NULL AS was_in_flight FROM nudge n
      WHERE n.state = 'sending' AND n.test_clock_id = ${testClockId} AND ${isInShard(sql, "customer_id", shard)} AND ${isFree("n")}
      ORDER BY n.id LIMIT ${MAX_BATCH} FOR UPDATE SKIP LOCKED`,
  )

const messageOf = (nudge: Taken, link: string, at: number): Message => ({
  id: nudge.id,
  account_id: nudge.account_id,
  livemode: nudge.livemode,
  channel: nudge.channel,
  to: nudge.contacts[nudge.channel]!,
  sender: nudge.business_name,
  subject: nudge.message.subject,
  text: nudge.message.text,
  link,
  template: { name: nudge.message.wording, values: [...nudge.message.values, link] },
  at,
})

const accepted = ({ receiptAt }: Accepted, at: number): MessengerAnswer => ({
  type: "messenger.accepted",
  at,
  receiptAt,
})

const notAccepted = (error: SendError, at: number): MessengerAnswer => {
  if (error._tag === "Refused") return { type: "messenger.refused", at, reason: error.reason }
  return error._tag === "Busy"
    ? { type: "messenger.busy", at, retryAfterMs: error.retryAfterMs }
    : { type: "messenger.unknown", at }
}

/**
 * Applies messengers' answers and releases the nudges. Those that continue with their next channel are taken again. The answer
 * is ignored if another process took the nudge over meanwhile, or if a receipt changed it.
 */
const record = Effect.fnUntraced(function* (answered: ReadonlyArray<Answered>, nowOf: NowOf) {
  const sql = yield* SqlClient.SqlClient
  const { id: runner } = yield* ProcessLease
  const apply = Effect.gen(function* () {
    const rows = new Map((yield* nudges.lock(answered.map(({ nudge }) => refOf(nudge)))).map((row) => [row.id, row]))
    const commands = answered.flatMap(({ nudge, answer }) => {
      const row = rows.get(nudge.id)
      return row?.runner === runner && row.version === nudge.version ? [{ row, event: answer }] : []
    })
    yield* transitionNudges(commands, nowOf, new Map(answered.map(({ nudge, messageId }) => [nudge.id, messageId])))
  })
  yield* Effect.retry(sql.withTransaction(apply), {
    times: MAX_RECORD_TRIES - 1,
    schedule: Schedule.exponential(RECORD_RETRY_MS),
  })
})

/** Returns the event that withdraws an automatic nudge that is too late, or postpones one in the quiet hours. */
const deferralOf = (nudge: Taken, at: number, quiet: QuietHours | null): NudgeEvent | undefined => {
  if (!nudge.livemode || nudge.source !== "automatic") return undefined
  if (nudge.sent_at === null && at - (nudge.send_at ?? nudge.created_at) >= MAX_LATE_MS) return { type: "withdraw", at }
  const sendAt = afterQuiet(at, quiet)
  return sendAt > at ? { type: "postpone", at, sendAt } : undefined
}

/** Sends a nudge by the messenger of its channel. `at`: now, on its own clock. */
const sendOne = Effect.fnUntraced(function* (nudge: Taken, at: number) {
  const messenger = (yield* Messenger).of(nudge.livemode, nudge.channel)
  const deferral = deferralOf(nudge, at, (yield* Nudging).quietOf(nudge))
  const unsent = (answer: NudgeEvent): Answered => ({ nudge, answer, messageId: null })
  // It may have been sent already, so it cannot be withdrawn.
  if (nudge.was_in_flight && (!messenger.repeatable || deferral?.type === "withdraw"))
    return unsent({ type: "messenger.unknown", at })
  if (deferral !== undefined) return unsent(deferral)
  const message = messageOf(nudge, yield* paymentLink(nudge), at)
  return yield* messenger.send(message).pipe(
    Effect.match({
      onSuccess: (taken): Answered => ({ nudge, answer: accepted(taken, at), messageId: taken.messageId }),
      onFailure: (error): Answered => unsent(notAccepted(error, at)),
    }),
  )
})

/**
 * Sends nudges of one clock, or of the wall clock, and stores the answers. It is uninterruptible: a process that stops
 * first finishes the nudges in flight.
 */
const sendBatch = (taken: ReadonlyArray<Taken>) => {
  const clockOf = new Map(taken.map(({ customer_id, clock_at }) => [customer_id, clock_at]))
  const nowOf: NowOf = ({ customer_id }) => clockOf.get(customer_id!) ?? currentTime()
  const work = Effect.flatMap(
    Effect.forEach(taken, (nudge) => sendOne(nudge, nowOf(nudge)), { concurrency: MAX_AT_ONCE }),
    (answered) => record(answered, nowOf),
  )
  return Effect.uninterruptible(releasing(nudgeLease, taken, work))
}

/** Sends all waiting nudges of a clock's shard, in batches, until every channel is tried. */
export const sendOnClock = Effect.fn("nudge.sendOnClock")(function* (testClockId: string, shard: Shard) {
  for (;;) {
    const taken = yield* takeOnClock(testClockId, shard)
    if (taken.length === 0) return
    yield* sendBatch(taken)
  }
})

/** SQL: finds any nudge that may be waiting, on the wall clock or on a test clock, by their indexes. */
const firstWaiting = (sql: SqlClient.SqlClient) => sql`
  (SELECT FROM nudge WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NULL ORDER BY livemode, channel, id LIMIT 1)
  UNION ALL
  (SELECT FROM nudge WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NOT NULL ORDER BY test_clock_id, id LIMIT 1)`

/** All pairs of environment and channel: each has a messenger. */
const MESSENGERS = [true, false].flatMap((livemode) => CHANNELS.map((channel) => ({ livemode, channel })))

type MessengerKey = Pick<Room, "livemode" | "channel">

/** Sends nudges while the scope is open. */
export const nudgeWorker = Effect.gen(function* () {
  const messenger = yield* Messenger
  const inFlight = new Counter()
  const nameOf = ({ livemode, channel }: MessengerKey) => `${livemode} ${channel}`
  const sendAlone = (nudge: Taken) => {
    inFlight.add(nameOf(nudge), 1)
    return sendBatch([nudge]).pipe(
      Effect.catchCause((cause) => Effect.logError("nudge", { nudge: nudge.id }, cause)),
      Effect.ensuring(Effect.sync(() => inFlight.add(nameOf(nudge), -1))),
      Effect.forkScoped({ startImmediately: true }),
    )
  }
  const sendAll = (taken: ReadonlyArray<Taken>) => Effect.forEach(taken, sendAlone, { discard: true })
  const sendWaiting = Effect.gen(function* () {
    // Each messenger has its own limit, so a stuck one does not block the others.
    const rooms = MESSENGERS.map((one) => ({
      ...one,
      room: messenger.of(one.livemode, one.channel).atOnce - inFlight.of(nameOf(one)),
    }))
    yield* sendAll(yield* takeWaiting(rooms.filter(({ room }) => room > 0)))
    yield* sendAll(yield* takeOnStandingClocks)
  })
  // Uninterruptible: every taken nudge is sent, so a stopped process leaves none that only looks sent.
  const wake = yield* Queue.sliding<void>(1)
  yield* (yield* QueuePoller).watch(firstWaiting(yield* SqlClient.SqlClient), () => Queue.offerUnsafe(wake, undefined))
  yield* whenWoken("nudges", wake, Effect.uninterruptible(sendWaiting))
  yield* every("dropped nudges", DROPPED_POLL_MS, Effect.uninterruptible(Effect.flatMap(takeDropped, sendAll)))
})
