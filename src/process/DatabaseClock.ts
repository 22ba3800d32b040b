/**
 * The database's clock, which this machine's has to agree with (decision D10). A process looks at it before anything else that it does
 * with the database, and every two seconds from then on. While they disagree it answers no request and does no background work:
 * one of the two is wrong, and the process does not know which.
 */
import { Context, Data, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Problem, problem } from "../base/problem.ts"
import { formatInstant, MINUTE_MS, SECOND_MS } from "../base/time.ts"
import { clocksAgree, disagreement, isLookFresh, MAX_DIFFERENCE_MS, noteLook } from "../base/wallClock.ts"
import { lastAnswer } from "./lastAnswer.ts"
import { orElseUnlessStopped } from "./workers.ts"

const LOOK_EVERY_MS = 2 * SECOND_MS
/** A request that finds the clocks in doubt (the machine was suspended, say) waits so long for a look. */
const LOOK_WITHIN_MS = SECOND_MS
/** All that find them in doubt share a look: a database of which the clock is wrong is not asked by each request. */
const LOOK_HOLDS_MS = SECOND_MS / 2
/** How often the log says again that they disagree. */
const SAY_AGAIN_MS = MINUTE_MS

/** The clocks of this machine and of the database disagree; the message says both, and what to do. */
export class ClocksDisagree extends Data.TaggedError("ClocksDisagree")<{ readonly message: string }> {}

const messageOf = ({ machineAt, databaseAt }: { readonly machineAt: number; readonly databaseAt: number }): string => {
  const apart = Math.abs(machineAt - databaseAt) / SECOND_MS
  const seconds = apart.toFixed(apart < 10 ? 1 : 0)
  const which = machineAt > databaseAt ? "ahead of" : "behind"
  return `This machine's clock says ${formatInstant(machineAt)}, the database's ${formatInstant(databaseAt)}: it is ${seconds} s ${which} it, and ${MAX_DIFFERENCE_MS / SECOND_MS} s are allowed. Set the clock of the machine that is wrong, by NTP (timedatectl set-ntp true).`
}

/** Looks at the database's clock. */
const look = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const askedAt = performance.now()
  const [row] = yield* sql<{ at: number }>`SELECT (extract(epoch FROM clock_timestamp()) * 1000)::float8 AS at`
  noteLook({ databaseAt: row!.at, askedAt, answeredAt: performance.now() })
})

/** For a command: fails where the clocks disagree. */
export const requireAgreement = Effect.gen(function* () {
  yield* look
  const found = disagreement()
  if (found !== undefined) return yield* new ClocksDisagree({ message: messageOf(found) })
})

/** Looks, and says in the log what has changed since the last look. */
const makeLook = () => {
  let saidAt: number | undefined
  return Effect.andThen(
    look,
    Effect.suspend(() => {
      const found = disagreement()
      const now = performance.now()
      if (found === undefined) {
        const had = saidAt !== undefined
        saidAt = undefined
        return had ? Effect.logInfo("The clocks of this machine and of the database agree again.") : Effect.void
      }
      if (saidAt !== undefined && now - saidAt < SAY_AGAIN_MS) return Effect.void
      saidAt = now
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
    /** Fails where the clocks disagree, or where the database has not been asked for too long. Costs nothing while they agree. */
    readonly agrees: Effect.Effect<void, Problem>
    /** What `agrees` fails for, with both instants; undefined where the clocks agree. */
    readonly disagreement: Effect.Effect<string | undefined>
  }
>()("billing/process/DatabaseClock") {
  /** Has looked once when it is made. */
  static readonly layer: Layer.Layer<DatabaseClock, SqlError.SqlError, SqlClient.SqlClient> = Layer.effect(
    DatabaseClock,
    Effect.gen(function* () {
      const lookAndSay = makeLook()
      yield* Effect.addFinalizer(() => Effect.sync(() => noteLook(undefined)))
      yield* lookAndSay
      // A database that is away shows in what asks it for something else.
      const goOn = lookAndSay.pipe(orElseUnlessStopped((cause) => Effect.logDebug("the database's clock", cause)))
      yield* Effect.forkScoped(Effect.forever(Effect.andThen(Effect.sleep(LOOK_EVERY_MS), goOn)))
      const lookNow = yield* lastAnswer(LOOK_HOLDS_MS, Effect.ignore(Effect.timeout(goOn, LOOK_WITHIN_MS)))
      const agreeNow = Effect.suspend(() =>
        clocksAgree() ? Effect.succeed(true) : Effect.map(lookNow, () => clocksAgree()),
      )
      return DatabaseClock.of({
        agrees: Effect.flatMap(agreeNow, (agree) =>
          agree ? Effect.void : Effect.fail(isLookFresh() ? disagrees : uncertain),
        ),
        disagreement: Effect.map(agreeNow, () => {
          const found = disagreement()
          return found === undefined ? undefined : messageOf(found)
        }),
      })
    }),
  )
}
