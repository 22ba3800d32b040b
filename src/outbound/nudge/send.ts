/**
 * Sending nudges: those that are committed are given to messengers outside any transaction, and what these say comes back
 * in as the nudge's next event. What a process that died had in hand is taken over: sent again where that is harmless,
 * else taken for unanswered, so that nobody is written to twice on one channel.
 */
import { Effect, Queue, Schedule } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { CHANNELS, type Channel, type MessengerAnswer, type NudgeEvent } from "../../../machines/nudge.ts"
import { afterQuiet, MAX_LATE_MS, type QuietHours } from "../../../machines/reminders.ts"
import type { NowOf } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { movesElsewhere, standingAt } from "../../billing/clock/clocks.ts"
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

/** Messages of a clock given to messengers at once, and taken in one go. */
const MAX_AT_ONCE = 32
const MAX_BATCH = 500
/** How often a process looks for nudges that were dropped. */
const LOOK_FOR_DROPPED_EVERY_MS = 2_000
/** Writing an answer down is tried again so often: it is known only here. */
const MAX_RECORD_TRIES = 6
const RECORD_AFTER_MS = 100

interface Taken extends NudgeRow {
  /** Whether a process had it in hand already. */
  readonly was_in_hand: boolean
  readonly business_name: string
  /** Its time on its clock; null on the wall clock. */
  readonly clock_at: number | null
}

/** What is to become of a nudge that was taken. */
interface Answered {
  readonly nudge: NudgeRow
  readonly answer: NudgeEvent
  readonly messageId: string | null
}

/** Takes the nudges that a query names (with `was_in_hand`), in the order in which they were made. */
const takeNudges = Effect.fnUntraced(function* (named: (sql: SqlClient.SqlClient, taking: Taking) => Fragment) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* take(
    nudgeLease,
    (taking) => sql<Taken>`
      UPDATE nudge SET runner = ${taking.runner}, taken_at = now()
      FROM (${named(sql, taking)}) t, account a
      WHERE (nudge.account_id, nudge.livemode, nudge.id) = (t.account_id, t.livemode, t.id) AND a.id = nudge.account_id
      RETURNING nudge.*, t.was_in_hand, a.business_name,
        (SELECT ${standingAt(sql, "nudge", "k")} FROM test_clock k
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

/** What waits on the wall clock, as much of each channel as there is room for. */
const takeWaiting = (rooms: ReadonlyArray<Room>) =>
  takeNudges(
    (sql) => sql`
      SELECT w.*, false AS was_in_hand FROM ${rowsAsTable(rooms, ROOM)} r CROSS JOIN LATERAL (
        SELECT n.account_id, n.livemode, n.id FROM nudge n
        WHERE n.state = 'sending' AND n.runner IS NULL AND n.test_clock_id IS NULL AND n.livemode = r.livemode AND n.channel = r.channel
          AND ${staysHere(sql, "n")}
        ORDER BY n.livemode, n.channel, n.id LIMIT r.room FOR UPDATE SKIP LOCKED
      ) w`,
  )

/** What waits on clocks that stand: a moving one's own worker sees to it. */
const takeOnStandingClocks = takeNudges(
  (sql) => sql`
    SELECT n.account_id, n.livemode, n.id, false AS was_in_hand FROM nudge n
    JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (n.account_id, n.livemode, n.test_clock_id)
    WHERE n.state = 'sending' AND n.runner IS NULL AND n.test_clock_id IS NOT NULL AND k.state <> 'advancing'
      AND ${staysHere(sql, "n")}
    LIMIT ${MAX_BATCH} FOR UPDATE OF n SKIP LOCKED`,
)

/** What a process that died, or this one, dropped; on a clock that another one moves, which waits for it, what this one did. */
const takeDropped = takeNudges(
  (sql, { runner, isDropped }) => sql`
    SELECT n.account_id, n.livemode, n.id, true AS was_in_hand FROM nudge n
    LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (n.account_id, n.livemode, n.test_clock_id)
    WHERE n.state = 'sending' AND n.runner IS NOT NULL AND ${isDropped("n")}
      AND (k.state IS DISTINCT FROM 'advancing' OR (n.runner = ${runner} AND ${movesElsewhere(sql, "k", runner)}))
      AND ${staysHere(sql, "n")}
    LIMIT ${MAX_BATCH} FOR UPDATE OF n SKIP LOCKED`,
)

const takeOnClock = (testClockId: string, lane: Shard) =>
  takeNudges(
    (sql, { isFree }) => sql`
      SELECT n.account_id, n.livemode, n.id, n.runner IS NOT NULL AS was_in_hand FROM nudge n
      WHERE n.state = 'sending' AND n.test_clock_id = ${testClockId} AND ${isInShard(sql, "customer_id", lane)} AND ${isFree("n")}
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
 * Applies messengers' answers, and lets go of the nudges: those that are passed on to their next channel are taken again. An
 * answer to a nudge that was taken over meanwhile, or that a receipt has moved, changes nothing.
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
    schedule: Schedule.exponential(RECORD_AFTER_MS),
  })
})

/** Whether an automatic nudge's turn has come too late, or at an hour at which nobody is to be reminded. */
const postponed = (nudge: Taken, at: number, quiet: QuietHours | null): NudgeEvent | undefined => {
  if (!nudge.livemode || nudge.source !== "automatic") return undefined
  if (nudge.sent_at === null && at - (nudge.send_at ?? nudge.created_at) >= MAX_LATE_MS) return { type: "withdraw", at }
  const sendAt = afterQuiet(at, quiet)
  return sendAt > at ? { type: "postpone", at, sendAt } : undefined
}

/** Gives a nudge to the messenger of its channel. `at`: now, by its own clock. */
const giveOne = Effect.fnUntraced(function* (nudge: Taken, at: number) {
  const messenger = (yield* Messenger).of(nudge.livemode, nudge.channel)
  const held = postponed(nudge, at, (yield* Nudging).quietOf(nudge))
  const unsent = (answer: NudgeEvent): Answered => ({ nudge, answer, messageId: null })
  // It may have been sent: that it came too late cannot be said of it any more.
  if (nudge.was_in_hand && (!messenger.repeatable || held?.type === "withdraw"))
    return unsent({ type: "messenger.unknown", at })
  if (held !== undefined) return unsent(held)
  const message = messageOf(nudge, yield* paymentLink(nudge), at)
  return yield* messenger.send(message).pipe(
    Effect.match({
      onSuccess: (taken): Answered => ({ nudge, answer: accepted(taken, at), messageId: taken.messageId }),
      onFailure: (error): Answered => unsent(notAccepted(error, at)),
    }),
  )
})

/**
 * Gives nudges of one clock, or of none, to the messengers of their channels, and writes down what these say. Not
 * interrupted in between: a process that stops finishes what it has begun.
 */
const give = (taken: ReadonlyArray<Taken>) => {
  const clockOf = new Map(taken.map(({ customer_id, clock_at }) => [customer_id, clock_at]))
  const nowOf: NowOf = ({ customer_id }) => clockOf.get(customer_id!) ?? currentTime()
  const work = Effect.flatMap(
    Effect.forEach(taken, (nudge) => giveOne(nudge, nowOf(nudge)), { concurrency: MAX_AT_ONCE }),
    (answered) => record(answered, nowOf),
  )
  return Effect.uninterruptible(releasing(nudgeLease, taken, work))
}

/** Sends what there is to send in a lane of a clock, in batches, channel after channel. */
export const sendOnClock = Effect.fn("nudge.sendOnClock")(function* (testClockId: string, lane: Shard) {
  for (;;) {
    const taken = yield* takeOnClock(testClockId, lane)
    if (taken.length === 0) return
    yield* give(taken)
  }
})

/** Some nudge that may be to be sent, on the wall clock or on a test clock: by the indexes of those. */
const firstWaiting = (sql: SqlClient.SqlClient) => sql`
  (SELECT FROM nudge WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NULL ORDER BY livemode, channel, id LIMIT 1)
  UNION ALL
  (SELECT FROM nudge WHERE state = 'sending' AND runner IS NULL AND test_clock_id IS NOT NULL ORDER BY test_clock_id, id LIMIT 1)`

/** Every messenger there is. */
const MESSENGERS = [true, false].flatMap((livemode) => CHANNELS.map((channel) => ({ livemode, channel })))

type Which = Pick<Room, "livemode" | "channel">

/** Sends nudges for as long as the scope is open. */
export const nudgeWorker = Effect.gen(function* () {
  const messenger = yield* Messenger
  const underWay = new Counter()
  const nameOf = ({ livemode, channel }: Which) => `${livemode} ${channel}`
  const sendAlone = (nudge: Taken) => {
    underWay.add(nameOf(nudge), 1)
    return give([nudge]).pipe(
      Effect.catchCause((cause) => Effect.logError("nudge", { nudge: nudge.id }, cause)),
      Effect.ensuring(Effect.sync(() => underWay.add(nameOf(nudge), -1))),
      Effect.forkScoped({ startImmediately: true }),
    )
  }
  const sendAll = (taken: ReadonlyArray<Taken>) => Effect.forEach(taken, sendAlone, { discard: true })
  const look = Effect.gen(function* () {
    // As much of each channel as its messenger takes at once: one that is stuck holds up no other.
    const rooms = MESSENGERS.map((one) => ({
      ...one,
      room: messenger.of(one.livemode, one.channel).atOnce - underWay.of(nameOf(one)),
    }))
    yield* sendAll(yield* takeWaiting(rooms.filter(({ room }) => room > 0)))
    yield* sendAll(yield* takeOnStandingClocks)
  })
  // What is taken is begun: a process that stops leaves nothing that looks as if it had been sent.
  const wake = yield* Queue.sliding<void>(1)
  yield* (yield* QueuePoller).watch(firstWaiting(yield* SqlClient.SqlClient), () => Queue.offerUnsafe(wake, undefined))
  yield* whenWoken("nudges", wake, Effect.uninterruptible(look))
  yield* every(
    "dropped nudges",
    LOOK_FOR_DROPPED_EVERY_MS,
    Effect.uninterruptible(Effect.flatMap(takeDropped, sendAll)),
  )
})
