/**
 * DatabaseClock compares this machine's clock with the database's (decision D10). A process checks it before its first work with the database,
 * and every two seconds from then on. While they disagree it answers no request and does no background work: one of the two is wrong, and
 * the process does not know which.
 */
import { Context, Data, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { formatInstant, MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { clocksAgree, disagreement, isCheckFresh, MAX_DIFFERENCE_MS, recordClockCheck } from "../base/wallClock.ts"
import { lastAnswer } from "./lastAnswer.ts"
import { orElseUnlessStopped } from "./workers.ts"

const LOOK_EVERY_MS = 2 * SECOND_MS
/** How long a request waits for a check if the clocks are in doubt (the machine was suspended, for example). */
const LOOK_WITHIN_MS = SECOND_MS
/** All requests that find them in doubt share a check, so that a wrong clock does not cause a query for each request. */
const LOOK_HOLDS_MS = SECOND_MS / 2
/** How often the log repeats that they disagree. */
const LOG_AGAIN_MS = MINUTE_MS

/** The clocks of this machine and of the database disagree; the message has both times and what to do. */
export class ClocksDisagree extends Data.TaggedError("ClocksDisagree")<{ readonly message: string }> {}

const messageOf = ({ machineAt, databaseAt }: { readonly machineAt: number; readonly databaseAt: number }): string => {
  const apart = Math.abs(machineAt - databaseAt) / SECOND_MS
  const seconds = apart.toFixed(apart < 10 ? 1 : 0)
  const which = machineAt > databaseAt ? "ahead of" : "behind"
  return `This machine's clock says ${formatInstant(machineAt)}, the database's ${formatInstant(databaseAt)}: it is ${seconds} s ${which} it, and ${MAX_DIFFERENCE_MS / SECOND_MS} s are allowed. Set the clock of the machine that is wrong, by NTP (timedatectl set-ntp true).`
}

/** Checks the database's clock. */
const look = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const askedAt = performance.now()
  const [row] = yield* sql<{ at: number }>`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`
  recordClockCheck({ databaseAt: row!.at, askedAt, answeredAt: performance.now() })
})

/** Fails if the clocks disagree; for commands. */
export const requireAgreement = Effect.gen(function* () {
  yield* look
  const found = disagreement()
  if (found !== undefined) return yield* new ClocksDisagree({ message: messageOf(found) })
})

/** Creates a check that logs what has changed since the last one. */
const makeLoggedLook = () => {
  let loggedAt: number | undefined
  return Effect.andThen(
    look,
    Effect.suspend(() => {
      const found = disagreement()
      const now = performance.now()
      if (found === undefined) {
        const wasWrong = loggedAt !== undefined
        loggedAt = undefined
        return wasWrong ? Effect.logInfo("The clocks of this machine and of the database agree again.") : Effect.void
      }
      if (loggedAt !== undefined && now - loggedAt < LOG_AGAIN_MS) return Effect.void
      loggedAt = now
      return Effect.logError(
        `${messageOf(found)} Until they agree, requests are refused (503) and no background work is done.`,
      )
    }),
  )
}

const uncertain = problem("service_unavailable", "The service cannot reach its database just now.")
const disagrees = problem(
  "service_unavailable",
  "The clocks of this server and of its database disagree, so nothing was done.",
)

export class DatabaseClock extends Context.Service<
  DatabaseClock,
  {
    /** Fails if the clocks disagree, or if the last check is too old. Costs nothing while they agree. */
    readonly agrees: Effect.Effect<void, Problem>
    /** Why `agrees` fails, with both instants; undefined if the clocks agree. */
    readonly disagreement: Effect.Effect<string | undefined>
  }
>()("billing/process/DatabaseClock") {
  /** Checks once when it is built. */
  static readonly layer: Layer.Layer<DatabaseClock, SqlError.SqlError, SqlClient.SqlClient> = Layer.effect(
    DatabaseClock,
    Effect.gen(function* () {
      const lookAndLog = makeLoggedLook()
      yield* Effect.addFinalizer(() => Effect.sync(() => recordClockCheck(undefined)))
      yield* lookAndLog
      // Other queries report a database that is unavailable.
      const lookSafely = lookAndLog.pipe(orElseUnlessStopped((cause) => Effect.logDebug("the database's clock", cause)))
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(LOOK_EVERY_MS), lookSafely)))
      const lookNow = yield* lastAnswer(LOOK_HOLDS_MS, Effect.ignore(Effect.timeout(lookSafely, LOOK_WITHIN_MS)))
      const agreeNow = Effect.suspend(() =>
        clocksAgree() ? Effect.succeed(true) : Effect.map(lookNow, () => clocksAgree()),
      )
      return DatabaseClock.of({
        agrees: Effect.flatMap(agreeNow, (agree) =>
          agree ? Effect.void : Effect.fail(isCheckFresh() ? disagrees : uncertain),
        ),
        disagreement: Effect.map(agreeNow, () => {
          const found = disagreement()
          return found === undefined ? undefined : messageOf(found)
        }),
      })
    }),
  )
}
