/**
 * Makes the queued calls (queue.ts): at most 20 at a time to one rail, of these at most 5 for one account. So one merchant's
 * renewals at midnight, or a rail that hangs, do not delay others (decision P11). Taking calls and writing results run in
 * parallel. The calls of a dead process are taken over.
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
/** Results that one transaction writes. */
const MAX_BATCH = 50
/** With this many unwritten results no further calls are taken. */
const MAX_UNWRITTEN = 500
/** How often results of fenced accounts are retried. */
const UNPARK_EVERY_MS = SECOND_MS
/** How long a stopping process waits for its calls in flight. */
const FINISH_WITHIN_MS = 10 * SECOND_MS
const FINISH_AGAIN_MS = 100

/** A call that is ready to be made. `talk` makes it and never fails: an error is a result. */
export interface Prepared {
  readonly call: TakenCall
  readonly talk: Effect.Effect<RailResult>
}

const calls = Metric.counter("billing_rail_calls_total", {
  description: "Calls to external rails, by rail, kind and result",
  incremental: true,
})

/** A finished call with its result. */
export interface AnsweredCall {
  readonly call: TakenCall
  readonly result: RailResult
  /** ms since the epoch. */
  readonly endedAt: number
}

/** The follow-up of written results. */
export interface FollowUp<R> {
  /** Calls that were not made: they return to the queue. */
  readonly again: ReadonlyArray<TakenCall>
  /** Unanswered queries that no other code repeats: they are postponed. */
  readonly later: ReadonlyArray<TakenCall>
  /** The next calls about the same objects. */
  readonly next?: ReadonlyArray<Call>
  /** Runs after the commit. */
  readonly after: Effect.Effect<void, SqlError.SqlError, R>
}

/** A handler of some kinds of calls. `R`: the services that it needs. */
export interface CallHandler<R> {
  readonly kinds: ReadonlyArray<CallKind>
  readonly prepare: (calls: ReadonlyArray<TakenCall>) => Effect.Effect<ReadonlyArray<Prepared>, SqlError.SqlError, R>
  /** Writes results, in the running transaction. */
  readonly write: (
    answered: ReadonlyArray<AnsweredCall>,
  ) => Effect.Effect<FollowUp<R>, SqlError.SqlError, R | SqlClient.SqlClient>
  /** Queues queries about the objects of finished calls. */
  readonly askAgain: (
    calls: ReadonlyArray<TakenCall>,
  ) => Effect.Effect<void, SqlError.SqlError, R | SqlClient.SqlClient>
}

/** The calls of this process: in flight, and finished but not written. */
class OpenCalls {
  readonly #inFlight = new Map<string, TakenCall>()
  /** The account after which to look for calls next, by rail. */
  readonly cursors = new Map<OutsideRail, string>()
  unwritten: ReadonlyArray<AnsweredCall> = []
  /** Unwritten results whose effect on the rail's throttle is not written yet. */
  readonly unrecorded = new Set<AnsweredCall>()
  /** Results of fenced accounts, written when the fence is gone or the account has moved. They are few: a fenced account gets no more calls. */
  #parked: ReadonlyArray<AnsweredCall> = []

  start(call: TakenCall): void {
    this.#inFlight.set(call.id, call)
  }

  finish(answered: AnsweredCall): void {
    this.#inFlight.delete(answered.call.id)
    this.unwritten = [...this.unwritten, answered]
    this.unrecorded.add(answered)
  }

  /** Sets aside results that cannot be written for now. */
  park(answered: ReadonlyArray<AnsweredCall>): void {
    this.#parked = [...this.#parked, ...answered]
  }

  /** Makes parked results writable again. Returns whether any were parked. */
  unpark(): boolean {
    const parked = this.#parked
    this.#parked = []
    this.unwritten = [...this.unwritten, ...parked]
    return parked.length > 0
  }

  get isIdle(): boolean {
    return this.#inFlight.size === 0 && this.unwritten.length === 0
  }

  of(rail: OutsideRail): ReadonlyArray<TakenCall> {
    return [...this.#inFlight.values()].filter((call) => call.rail === rail)
  }

  /** Returns how much of its limit each account uses. An account without a usable answer gets no call until that is written. */
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

/** Returns a call that cannot be prepared to the queue, unchanged: it is retried. */
const putBack = (call: TakenCall, cause: Cause.Cause<unknown>) =>
  Effect.logError("a call to a rail cannot be prepared", { about: call.id }, cause).pipe(
    Effect.andThen(Effect.ignore(returnCalls([call]))),
    Effect.andThen(release(callLease, [call])),
  )

/**
 * Prepares calls together. If that fails, it prepares each alone, so that a bad call does not block the others. Returns the
 * prepared calls, and the number of calls that cannot be prepared.
 */
const prepareEach = Effect.fnUntraced(function* <R>({ prepare }: CallHandler<R>, taken: ReadonlyArray<TakenCall>) {
  if (taken.length === 0) return { prepared: [], failed: 0 }
  const together = yield* Effect.exit(prepare(taken))
  if (Exit.isSuccess(together)) return { prepared: together.value, failed: 0 }
  const prepared: Array<Prepared> = []
  let failed = 0
  for (const call of taken) {
    const alone = yield* Effect.exit(prepare([call]))
    if (Exit.isSuccess(alone)) prepared.push(...alone.value)
    else {
      failed++
      yield* putBack(call, alone.cause)
    }
  }
  return { prepared, failed }
})

/** Takes the next calls to a rail, and starts them. */
const startCalls = Effect.fnUntraced(function* <R>(
  rail: OutsideRail,
  openCalls: OpenCalls,
  callers: ReadonlyArray<CallHandler<R>>,
  talk: (prepared: Prepared) => Effect.Effect<void>,
) {
  const room = MAX_OF_RAIL - openCalls.of(rail).length
  if (room <= 0 || openCalls.unwritten.length >= MAX_UNWRITTEN) return
  const busy = openCalls.busy(rail)
  const after = openCalls.cursors.get(rail) ?? ""
  const kinds = callers.flatMap((caller) => caller.kinds)
  // Outside a transaction: taking calls waits for other takers in this process, which may wait for a connection.
  const { taken, next } = yield* takeCalls({ rail, kinds, after, limit: room, perAccount: MAX_OF_ACCOUNT, busy })
  openCalls.cursors.set(rail, next)
  const results = yield* Effect.forEach(callers, (caller) =>
    prepareEach(
      caller,
      taken.filter(({ kind }) => caller.kinds.includes(kind)),
    ),
  )
  for (const one of results.flatMap(({ prepared }) => prepared)) {
    openCalls.start(one.call)
    yield* talk(one)
  }
  const failed = results.reduce((sum, one) => sum + one.failed, 0)
  if (failed > 0) return yield* Effect.die(new Error(`${failed} calls to ${rail} could not be prepared.`))
})

/** Writes results with all their effects, and deletes the calls, in one transaction. */
const writeBatch = Effect.fnUntraced(function* <R>(
  { write, askAgain }: CallHandler<R>,
  batch: ReadonlyArray<AnsweredCall>,
) {
  const calls = batch.map(({ call }) => call)
  const work = Effect.gen(function* () {
    const { again, later, next = [], after } = yield* write(batch)
    yield* returnCalls(again)
    yield* postponeCalls(later)
    const followed = yield* endCalls(calls.filter((call) => !again.includes(call) && !later.includes(call)))
    queueCalls(yield* unitOfWork, next, false)
    yield* askAgain(calls.filter(({ id }) => followed.some((one) => one.id === id)))
    return after
  })
  const after = yield* retryingDeadlocks(withLockTimeout(work))
  yield* release(callLease, calls)
  yield* after
})

/** The results that were written, and those whose account is fenced. */
interface WrittenEach {
  readonly done: Array<AnsweredCall>
  readonly fenced: Array<AnsweredCall>
}

const isOfFenced = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && isFenced(reason.error))

/**
 * Writes results together. If that fails, it writes each group alone, so that a bad result does not block the others.
 */
const writeEach = Effect.fnUntraced(function* <E, R>(
  all: ReadonlyArray<AnsweredCall>,
  groupOf: (one: AnsweredCall) => string,
  write: (group: ReadonlyArray<AnsweredCall>) => Effect.Effect<void, E, R>,
) {
  const written: WrittenEach = { done: [], fenced: [] }
  if (all.length === 0) return written
  const writeGroup = (group: ReadonlyArray<AnsweredCall>) =>
    Effect.tap(write(group), () => Effect.sync(() => void written.done.push(...group)))
  const writeAlone = (group: ReadonlyArray<AnsweredCall>) =>
    Effect.catchCause(writeGroup(group), (cause) => {
      if (!isOfFenced(cause))
        return Effect.logError(
          "results of a rail cannot be written",
          { about: group.map(({ call }) => call.id) },
          cause,
        )
      written.fenced.push(...group)
      return Effect.void
    })
  yield* Effect.catchCause(writeGroup(all), () =>
    Effect.forEach(Map.groupBy(all, groupOf).values(), writeAlone, { discard: true }),
  )
  return written
})

/** Writes the effect of results on the throttle of their rails. */
const record = Effect.fnUntraced(function* (openCalls: OpenCalls, all: ReadonlyArray<AnsweredCall>) {
  const recorded = yield* writeEach(
    all.filter((one) => openCalls.unrecorded.has(one)),
    ({ call }) => call.account_id,
    (group) => retryingDeadlocks(recordReach(group.map(({ call, result }) => ({ ...call, result })))),
  )
  for (const one of recorded.done) openCalls.unrecorded.delete(one)
})

/**
 * Writes the results so far. A result that cannot be written stays, and does not block the others. The throttle is written first: a
 * reader that sees the result of a call also sees whether its rail is throttled.
 */
const write = Effect.fnUntraced(function* <R>(openCalls: OpenCalls, callers: ReadonlyArray<CallHandler<R>>) {
  const batch = openCalls.unwritten.slice(0, MAX_BATCH)
  if (batch.length === 0) return
  yield* record(openCalls, batch)
  const recorded = batch.filter((one) => !openCalls.unrecorded.has(one))
  const written = yield* Effect.forEach(callers, (caller) =>
    writeEach(
      recorded.filter(({ call }) => caller.kinds.includes(call.kind)),
      ({ call }) => call.id,
      (group) => writeBatch(caller, group),
    ),
  )
  const fenced = written.flatMap((one) => one.fenced)
  openCalls.park(fenced)
  const over = new Set([...written.flatMap(({ done }) => done), ...fenced])
  // Failed results are retried after the others.
  const failed = batch.filter((one) => !over.has(one))
  openCalls.unwritten = [...openCalls.unwritten.filter((one) => !batch.includes(one)), ...failed]
  if (failed.length > 0) return yield* Effect.die(new Error(`${failed.length} results of rails could not be written.`))
})

/** Makes queued calls for as long as the scope is open. */
export const railCallWorker = Effect.fnUntraced(function* <R>(callers: ReadonlyArray<CallHandler<R>>) {
  const openCalls = new OpenCalls()
  const takeNow = yield* Queue.sliding<void>(1)
  const writeNow = yield* Queue.sliding<void>(1)
  const talk = ({ call, talk }: Prepared) =>
    Effect.asVoid(
      Effect.forkDetach(
        Effect.flatMap(talk, (result) => {
          openCalls.finish({ call, result, endedAt: currentTime() })
          Queue.offerUnsafe(takeNow, undefined)
          Queue.offerUnsafe(writeNow, undefined)
          return Metric.update(
            Metric.withAttributes(calls, { rail: call.rail, kind: call.kind, result: result.kind }),
            1,
          )
        }),
      ),
    )
  const taking = Effect.forEach(OUTSIDE_RAILS, (rail) => startCalls(rail, openCalls, callers, talk), { discard: true })
  const writing = Effect.gen(function* () {
    do yield* write(openCalls, callers)
    while (openCalls.unwritten.length > 0)
    // Retries failed results.
  }).pipe(Effect.tapCause(() => Queue.offer(writeNow, undefined)))
  // Registered before the two workers below, so it runs after they stop: no new calls are taken.
  yield* Effect.addFinalizer(() =>
    Effect.ignore(writing).pipe(
      Effect.repeat({ until: () => openCalls.isIdle, schedule: Schedule.spaced(FINISH_AGAIN_MS) }),
      Effect.timeoutOption(FINISH_WITHIN_MS),
    ),
  )
  // Also wakes for calls that other processes queued.
  const sql = yield* SqlClient.SqlClient
  const queued = sql`SELECT FROM rail_call ORDER BY rail, account_id LIMIT 1`
  yield* (yield* QueuePoller).watch(queued, () => Queue.offerUnsafe(takeNow, undefined))
  yield* whenWoken("rail calls", takeNow, Effect.uninterruptible(taking))
  yield* whenWoken("rail answers", writeNow, Effect.uninterruptible(writing))
  const unpark = Effect.sync(() => void (openCalls.unpark() && Queue.offerUnsafe(writeNow, undefined)))
  yield* every("rail answers of fenced accounts", UNPARK_EVERY_MS, unpark)
})
