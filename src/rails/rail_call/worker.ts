/**
 * Makes the calls that are queued (queue.ts): at most 20 to one rail at a time, at most 5 of them for one account, so that
 * neither one merchant's renewals at midnight nor a rail that hangs hold anybody else up (decision P11). Taking calls and
 * writing what was heard go on beside each other. What a process that died had under way is taken over.
 */
import { Cause, Effect, Exit, Metric, Queue, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { SECOND_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { isFenced } from "../../db/tenant.ts"
import { unitOfWork } from "../../db/UnitOfWork.ts"
import { retryingDeadlocks } from "../../postgres/deadlock.ts"
import { withLockTimeout } from "../../postgres/lockWait.ts"
import { release } from "../../process/lease.ts"
import { QueuePoller } from "../../process/QueuePoller.ts"
import { every, whenWoken } from "../../process/workers.ts"
import { OUTSIDE_RAILS, type OutsideRail, type RailResult } from "../rail/Rail.ts"
import {
  type Busy,
  type Call,
  type CallKind,
  callLease,
  endCalls,
  postponeCalls,
  queueCalls,
  returnCalls,
  type TakenCall,
  takeCalls,
} from "./queue.ts"
import { isAnswered, recordReach } from "./throttle.ts"

const MAX_OF_RAIL = 20
const MAX_OF_ACCOUNT = 5
/** What was heard is written in batches of so many; more than this unwritten, and no further calls are taken. */
const MAX_BATCH = 50
const MAX_UNWRITTEN = 500
/** How often it is tried to write what is about accounts that were fenced. */
const UNPARK_EVERY_MS = SECOND_MS
/** How long a process that stops waits for the calls that are under way. */
const FINISH_WITHIN_MS = 10 * SECOND_MS
const FINISH_AGAIN_MS = 100

/** A call, and the conversation that it is. It never fails: what went wrong is what was heard. */
export interface Prepared {
  readonly call: TakenCall
  readonly talk: Effect.Effect<RailResult>
}

const calls = Metric.counter("billing_rail_calls_total", {
  description: "Calls to rails of the outside world, by rail, kind and what was heard",
  incremental: true,
})

/** What came of a call. */
export interface AnsweredCall {
  readonly call: TakenCall
  readonly result: RailResult
  /** ms since the epoch. */
  readonly endedAt: number
}

/** What is done about what was heard. */
export interface Written<R> {
  /** Calls that were not made and are to be. */
  readonly again: ReadonlyArray<TakenCall>
  /** Questions that were not answered, and that nobody else asks again. */
  readonly later: ReadonlyArray<TakenCall>
  /** Calls that are to be made next, about what the ended ones were about. */
  readonly next?: ReadonlyArray<Call>
  /** What is left to do once it is committed. */
  readonly after: Effect.Effect<void, SqlError.SqlError, R>
}

/** Those who have calls made. `R`: what it takes them. */
export interface Caller<R> {
  readonly kinds: ReadonlyArray<CallKind>
  readonly prepare: (calls: ReadonlyArray<TakenCall>) => Effect.Effect<ReadonlyArray<Prepared>, SqlError.SqlError, R>
  /** Writes what was heard, in the running transaction. */
  readonly write: (
    heard: ReadonlyArray<AnsweredCall>,
  ) => Effect.Effect<Written<R>, SqlError.SqlError, R | SqlClient.SqlClient>
  /** Asks about what somebody wants to know more of than the call which has just ended says. */
  readonly askAgain: (
    calls: ReadonlyArray<TakenCall>,
  ) => Effect.Effect<void, SqlError.SqlError, R | SqlClient.SqlClient>
}

/** What a process has under way and has not written yet. */
class Conversations {
  readonly #underWay = new Map<string, TakenCall>()
  /** Accounts behind which to look for calls next, by rail. */
  readonly cursors = new Map<OutsideRail, string>()
  unwritten: ReadonlyArray<AnsweredCall> = []
  /** Those among them of which nobody else can see yet how their rail was reached. */
  readonly unrecorded = new Set<AnsweredCall>()
  /** Of accounts that are fenced: written once they are not, or have left. A few of each: no more calls are made for them meanwhile. */
  #parked: ReadonlyArray<AnsweredCall> = []

  began(call: TakenCall): void {
    this.#underWay.set(call.id, call)
  }

  ended(heard: AnsweredCall): void {
    this.#underWay.delete(heard.call.id)
    this.unwritten = [...this.unwritten, heard]
    this.unrecorded.add(heard)
  }

  /** With these nothing more can be done for now. */
  park(heard: ReadonlyArray<AnsweredCall>): void {
    this.#parked = [...this.#parked, ...heard]
  }

  /** Takes up what was parked; returns whether there is anything. */
  unpark(): boolean {
    const parked = this.#parked
    this.#parked = []
    this.unwritten = [...this.unwritten, ...parked]
    return parked.length > 0
  }

  get isIdle(): boolean {
    return this.#underWay.size === 0 && this.unwritten.length === 0
  }

  of(rail: OutsideRail): ReadonlyArray<TakenCall> {
    return [...this.#underWay.values()].filter((call) => call.rail === rail)
  }

  /** Accounts with what counts towards their limit; one that was not answered gets no call until that is written. */
  busy(rail: OutsideRail): ReadonlyArray<Busy> {
    const unanswered = [...this.unrecorded].filter(({ call, result }) => call.rail === rail && !isAnswered(result))
    const silent = new Set(unanswered.map(({ call }) => call.account_id))
    const byAccount = Map.groupBy(this.of(rail), ({ account_id }) => account_id)
    return [...new Set([...silent, ...byAccount.keys()])].map((account_id) => ({
      account_id,
      under_way: silent.has(account_id) ? MAX_OF_ACCOUNT : byAccount.get(account_id)!.length,
    }))
  }
}

/** Puts a call that cannot be prepared back as it was; it is tried again. */
const leave = (call: TakenCall, cause: Cause.Cause<unknown>) =>
  Effect.logError("a call to a rail cannot be prepared", { about: call.id }, cause).pipe(
    Effect.andThen(Effect.ignore(returnCalls([call]))),
    Effect.andThen(release(callLease, [call])),
  )

/**
 * Prepares calls; where that fails each by itself, so that one which cannot be prepared holds nothing else up. Returns those that
 * are prepared, and how many cannot be.
 */
const prepareEach = Effect.fnUntraced(function* <R>({ prepare }: Caller<R>, its: ReadonlyArray<TakenCall>) {
  if (its.length === 0) return { prepared: [], left: 0 }
  const together = yield* Effect.exit(prepare(its))
  if (Exit.isSuccess(together)) return { prepared: together.value, left: 0 }
  const prepared: Array<Prepared> = []
  let left = 0
  for (const call of its) {
    const alone = yield* Effect.exit(prepare([call]))
    if (Exit.isSuccess(alone)) prepared.push(...alone.value)
    else {
      left++
      yield* leave(call, alone.cause)
    }
  }
  return { prepared, left }
})

/** Takes what there is to do at a rail, and begins it. */
const begin = Effect.fnUntraced(function* <R>(
  rail: OutsideRail,
  conversations: Conversations,
  callers: ReadonlyArray<Caller<R>>,
  talk: (prepared: Prepared) => Effect.Effect<void>,
) {
  const room = MAX_OF_RAIL - conversations.of(rail).length
  if (room <= 0 || conversations.unwritten.length >= MAX_UNWRITTEN) return
  const busy = conversations.busy(rail)
  const after = conversations.cursors.get(rail) ?? ""
  const kinds = callers.flatMap((caller) => caller.kinds)
  // Not in a transaction: taking waits for its turn in this process, and whoever has that may wait for a connection.
  const { taken, goOn } = yield* takeCalls({ rail, kinds, after, limit: room, perAccount: MAX_OF_ACCOUNT, busy })
  conversations.cursors.set(rail, goOn)
  const found = yield* Effect.forEach(callers, (caller) =>
    prepareEach(
      caller,
      taken.filter(({ kind }) => caller.kinds.includes(kind)),
    ),
  )
  for (const one of found.flatMap(({ prepared }) => prepared)) {
    conversations.began(one.call)
    yield* talk(one)
  }
  const left = found.reduce((sum, one) => sum + one.left, 0)
  if (left > 0) return yield* Effect.die(new Error(`${left} calls to ${rail} could not be prepared.`))
})

/** Writes what was heard, with all that follows from it, and ends the calls, in one transaction. */
const writeBatch = Effect.fnUntraced(function* <R>({ write, askAgain }: Caller<R>, batch: ReadonlyArray<AnsweredCall>) {
  const calls = batch.map(({ call }) => call)
  const work = Effect.gen(function* () {
    const { again, later, next = [], after } = yield* write(batch)
    yield* returnCalls(again)
    yield* postponeCalls(later)
    const wanted = yield* endCalls(calls.filter((call) => !again.includes(call) && !later.includes(call)))
    queueCalls(yield* unitOfWork, next, false)
    yield* askAgain(calls.filter(({ id }) => wanted.some((one) => one.id === id)))
    return after
  })
  const after = yield* retryingDeadlocks(withLockTimeout(work))
  yield* release(callLease, calls)
  yield* after
})

/** What was written, and what was not since its account is fenced. */
interface WrittenEach {
  readonly done: Array<AnsweredCall>
  readonly fenced: Array<AnsweredCall>
}

const isOfFenced = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && isFenced(reason.error))

/**
 * Writes these together; where that fails each group of them by itself, so that what cannot be written holds nothing else up.
 */
const writeEach = Effect.fnUntraced(function* <E, R>(
  all: ReadonlyArray<AnsweredCall>,
  groupOf: (one: AnsweredCall) => string,
  write: (its: ReadonlyArray<AnsweredCall>) => Effect.Effect<void, E, R>,
) {
  const written: WrittenEach = { done: [], fenced: [] }
  if (all.length === 0) return written
  const tried = (its: ReadonlyArray<AnsweredCall>) =>
    Effect.tap(write(its), () => Effect.sync(() => void written.done.push(...its)))
  const alone = (its: ReadonlyArray<AnsweredCall>) =>
    Effect.catchCause(tried(its), (cause) => {
      if (!isOfFenced(cause))
        return Effect.logError("what a rail said cannot be written", { about: its.map(({ call }) => call.id) }, cause)
      written.fenced.push(...its)
      return Effect.void
    })
  yield* Effect.catchCause(tried(all), () =>
    Effect.forEach(Map.groupBy(all, groupOf).values(), alone, { discard: true }),
  )
  return written
})

/** Writes how the rails of these were reached. */
const record = Effect.fnUntraced(function* (conversations: Conversations, all: ReadonlyArray<AnsweredCall>) {
  const recorded = yield* writeEach(
    all.filter((one) => conversations.unrecorded.has(one)),
    ({ call }) => call.account_id,
    (its) => retryingDeadlocks(recordReach(its.map(({ call, result }) => ({ ...call, result })))),
  )
  for (const one of recorded.done) conversations.unrecorded.delete(one)
})

/**
 * Writes what was heard so far. What cannot be written stays, and holds nothing else up. How the rails were reached comes first: whoever
 * sees what came of a call sees whether its rail wants less, too.
 */
const write = Effect.fnUntraced(function* <R>(conversations: Conversations, callers: ReadonlyArray<Caller<R>>) {
  const batch = conversations.unwritten.slice(0, MAX_BATCH)
  if (batch.length === 0) return
  yield* record(conversations, batch)
  const recorded = batch.filter((one) => !conversations.unrecorded.has(one))
  const written = yield* Effect.forEach(callers, (caller) =>
    writeEach(
      recorded.filter(({ call }) => caller.kinds.includes(call.kind)),
      ({ call }) => call.id,
      (its) => writeBatch(caller, its),
    ),
  )
  const fenced = written.flatMap((one) => one.fenced)
  conversations.park(fenced)
  const over = new Set([...written.flatMap(({ done }) => done), ...fenced])
  // What failed goes behind the others.
  const failed = batch.filter((one) => !over.has(one))
  conversations.unwritten = [...conversations.unwritten.filter((one) => !batch.includes(one)), ...failed]
  if (failed.length > 0) return yield* Effect.die(new Error(`${failed.length} answers of rails could not be written.`))
})

/** Makes queued calls for as long as the scope is open. */
export const railCallWorker = Effect.fnUntraced(function* <R>(callers: ReadonlyArray<Caller<R>>) {
  const conversations = new Conversations()
  const takeNow = yield* Queue.sliding<void>(1)
  const writeNow = yield* Queue.sliding<void>(1)
  const talk = ({ call, talk }: Prepared) =>
    Effect.asVoid(
      Effect.forkDetach(
        Effect.flatMap(talk, (result) => {
          conversations.ended({ call, result, endedAt: currentTime() })
          Queue.offerUnsafe(takeNow, undefined)
          Queue.offerUnsafe(writeNow, undefined)
          return Metric.update(
            Metric.withAttributes(calls, { rail: call.rail, kind: call.kind, result: result.kind }),
            1,
          )
        }),
      ),
    )
  const taking = Effect.forEach(OUTSIDE_RAILS, (rail) => begin(rail, conversations, callers, talk), { discard: true })
  const writing = Effect.gen(function* () {
    do yield* write(conversations, callers)
    while (conversations.unwritten.length > 0)
    // What failed is tried again.
  }).pipe(Effect.tapCause(() => Queue.offer(writeNow, undefined)))
  // Opened before the two below, so closed after them: nothing new is taken any more.
  yield* Effect.addFinalizer(() =>
    Effect.ignore(writing).pipe(
      Effect.repeat({ until: () => conversations.isIdle, schedule: Schedule.spaced(FINISH_AGAIN_MS) }),
      Effect.timeoutOption(FINISH_WITHIN_MS),
    ),
  )
  // Calls that others queued, too.
  const sql = yield* SqlClient.SqlClient
  const queued = sql`SELECT FROM rail_call ORDER BY rail, account_id LIMIT 1`
  yield* (yield* QueuePoller).watch(queued, () => Queue.offerUnsafe(takeNow, undefined))
  yield* whenWoken("rail calls", takeNow, Effect.uninterruptible(taking))
  yield* whenWoken("rail answers", writeNow, Effect.uninterruptible(writing))
  const unpark = Effect.sync(() => void (conversations.unpark() && Queue.offerUnsafe(writeNow, undefined)))
  yield* every("rail answers of fenced accounts", UNPARK_EVERY_MS, unpark)
})
