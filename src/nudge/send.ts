/**
 * Sending nudges: those that are committed are given to messengers outside any transaction, and what these say comes back
 * in as the nudge's next event. What a process that died had in hand is taken over: sent again where that is harmless,
 * else taken for unanswered, so that nobody is written to twice on one channel.
 */
import { Effect, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import type { MessengerAnswer } from "../../machines/nudge.ts"
import { refOf } from "../db/tenant.ts"
import type { Origin } from "../http/Origin.ts"
import { advance } from "../lifecycle/advance.ts"
import { isDead, Runner } from "../lifecycle/Runner.ts"
import { type Accepted, type Message, Messenger, type SendError } from "../messenger/Messenger.ts"
import { orElseUnlessStopped } from "../timers/TimerWorker.ts"
import type { Wakeups } from "../timers/Wakeups.ts"
import { commitNudges, type Handled } from "./commit.ts"
import { nudgeLifecycle } from "./Nudge.ts"
import { type Nudging, paymentLink } from "./Nudging.ts"
import { lockNudges, type NudgeRow } from "./rows.ts"

/** Messages given to messengers at once. */
const AT_ONCE = 32
/** Nudges taken in one go. */
const BATCH = 500

interface Taken extends NudgeRow {
  /** Whether a process had it in hand already. */
  readonly was_in_hand: boolean
  readonly business_name: string
  /** The clock's time; null on the wall clock. */
  readonly clock_at: number | null
}

interface Answered {
  readonly nudge: NudgeRow
  readonly answer: MessengerAnswer
  readonly messageId: string | null
}

/** Which nudges are meant: those of a clock, or those of an environment that no moving clock sees to. */
export type Which = { readonly testClockId: string } | { readonly livemode: boolean }

const take = (which: Which, most: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner, nudges, taking } = yield* Runner
    const meant =
      "testClockId" in which
        ? sql`n.test_clock_id = ${which.testClockId}`
        : sql`n.livemode = ${which.livemode} AND k.state IS DISTINCT FROM 'advancing'`
    const taken = Effect.suspend(
      () => sql<Taken>`
        UPDATE nudge SET sender = ${runner}
        FROM (
          SELECT n.account_id, n.livemode, n.id, n.sender IS NOT NULL AS was_in_hand, k.frozen_at AS clock_at, a.business_name
          FROM nudge n JOIN account a ON a.id = n.account_id
          LEFT JOIN test_clock k ON (k.account_id, k.livemode, k.id) = (n.account_id, n.livemode, n.test_clock_id)
          WHERE n.state = 'sending' AND ${meant}
            AND (n.sender IS NULL OR CASE WHEN n.sender = ${runner} THEN NOT n.id = ANY(${[...nudges]}::text[]) ELSE ${isDead(sql, "n.sender", runner)} END)
          ORDER BY n.id LIMIT ${most} FOR UPDATE OF n SKIP LOCKED
        ) t
        WHERE (nudge.account_id, nudge.livemode, nudge.id) = (t.account_id, t.livemode, t.id)
        RETURNING nudge.*, t.was_in_hand, t.clock_at, t.business_name`,
    )
    const hold = (rows: ReadonlyArray<Taken>) =>
      Effect.sync(() => {
        for (const { id } of rows) nudges.add(id)
      })
    return yield* taking(Effect.tap(taken, hold))
  })

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

/** Applies messengers' answers; answers the nudges that are to be given to their next channel, which stay in hand. */
const settle = (answered: ReadonlyArray<Answered>, now: number) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const { id: runner } = yield* Runner
    return yield* sql.withTransaction(
      Effect.gen(function* () {
        const rows = new Map((yield* lockNudges(answered.map(({ nudge }) => refOf(nudge)))).map((row) => [row.id, row]))
        const transitions = advance(
          nudgeLifecycle,
          answered.flatMap(({ nudge, answer }) => {
            const row = rows.get(nudge.id)
            // Taken over meanwhile by a process to which this one looked dead: that one's word counts.
            return row === undefined || row.sender !== runner ? [] : [{ row, event: answer }]
          }),
        )
        const called = new Map(answered.map(({ nudge, messageId }) => [nudge.id, messageId]))
        const handled = new Map(
          transitions.map(({ row, to }): [string, Handled] => [
            row.id,
            { sender: to === "sending" ? runner : null, messageId: called.get(row.id)! },
          ]),
        )
        const moved = yield* commitNudges(transitions, now, handled)
        return moved.filter(({ state }) => state === "sending")
      }),
    )
  })

/** Gives a nudge to the messenger of its channel. `at`: now, by its own clock. */
const giveOne = (nudge: Taken, at: number) =>
  Effect.gen(function* () {
    const messenger = (yield* Messenger).of(nudge.livemode, nudge.channel)
    if (nudge.was_in_hand && !messenger.repeatable)
      return { nudge, answer: { type: "messenger.unknown", at } as const, messageId: null }
    const message = messageOf(nudge, yield* paymentLink(nudge.id), at)
    return yield* messenger.send(message).pipe(
      Effect.match({
        onSuccess: (taken): Answered => ({ nudge, answer: accepted(taken, at), messageId: taken.messageId }),
        onFailure: (error): Answered => ({ nudge, answer: notAccepted(error, at), messageId: null }),
      }),
    )
  })

type Work = Effect.Effect<
  void,
  SqlError.SqlError,
  SqlClient.SqlClient | Runner | Wakeups | Messenger | Nudging | Origin
>

/** Gives nudges of one clock, or of none, to their messengers, channel after channel, until none is left to be given. */
const give = (nudges: ReadonlyArray<Taken>): Work =>
  Effect.gen(function* () {
    if (nudges.length === 0) return
    const now = () => nudges[0]!.clock_at ?? Date.now()
    const answered = yield* Effect.forEach(nudges, (nudge) => giveOne(nudge, now()), { concurrency: AT_ONCE })
    const taken = new Map(nudges.map((nudge) => [nudge.id, nudge]))
    const next = yield* settle(answered, now())
    yield* give(next.map((row) => ({ ...taken.get(row.id)!, ...row, was_in_hand: false })))
  })

const letGo = (nudges: ReadonlyArray<Taken>) =>
  Effect.map(Runner, (runner) => {
    for (const { id } of nudges) runner.nudges.delete(id)
  })

/** Sends what there is to send on a clock, in batches. What fails is taken anew. */
export const sendOnClock = (testClockId: string) =>
  Effect.gen(function* () {
    for (;;) {
      const taken = yield* take({ testClockId }, BATCH)
      if (taken.length === 0) return
      yield* Effect.ensuring(give(taken), letGo(taken))
    }
  })

/** How often a process looks for nudges to send. */
const LOOK_EVERY_MS = 200
/** Nudges of an environment under way: each goes its own way, so that a slow messenger keeps nobody else waiting. */
const MOST_IN_HAND = 500
/** One that failed for a reason of ours is left alone for so long. */
const AFTER_FAILURE_MS = 60_000

/** Sends nudges for as long as the scope is open. */
export const nudgeWorker = Effect.gen(function* () {
  for (const livemode of [true, false]) {
    let inHand = 0
    const sendAlone = (nudge: Taken) =>
      give([nudge]).pipe(
        orElseUnlessStopped((cause) =>
          Effect.andThen(Effect.logError("nudge", { nudge: nudge.id }, cause), Effect.sleep(AFTER_FAILURE_MS)),
        ),
        Effect.ensuring(letGo([nudge])),
        Effect.ensuring(Effect.sync(() => void inHand--)),
        Effect.forkScoped,
      )
    const look = Effect.gen(function* () {
      if (inHand >= MOST_IN_HAND) return
      const taken = yield* take({ livemode }, MOST_IN_HAND - inHand)
      inHand += taken.length
      yield* Effect.forEach(taken, sendAlone, { discard: true })
    })
    yield* Effect.forkScoped(
      Effect.repeat(
        look.pipe(orElseUnlessStopped((cause) => Effect.logError("nudges", cause))),
        Schedule.spaced(LOOK_EVERY_MS),
      ),
    )
  }
})
