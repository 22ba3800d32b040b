/**
 * Listener receives all notifications of the database on one connection. If the connection is lost or silent, it opens another one:
 * notifications in between are missed, and listeners are informed.
 */
import { randomUUID } from "node:crypto"
import { PgConnection } from "@effect/sql-pg"
import { Context, Data, Effect, FiberSet, Layer, Queue, type Redacted, Schedule, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { SECOND_MS } from "../base/time.ts"
import { poolConfig } from "../postgres/poolConfig.ts"
import { orElseUnlessStopped, whenWoken } from "./workers.ts"

const RECONNECT_MS = 500
/** How often the connection is tested, and after how many tests without a notification it counts as dead. */
const BEAT_EVERY_MS = SECOND_MS
const SILENT_AFTER_BEATS = 3

class Silent extends Data.TaggedError("Silent") {
  override readonly message = "The connection receives no notifications any more."
}

/** The callbacks of a listener. */
export interface Subscription {
  readonly notice: (payload: string) => void
  /** From now on no notification is missed. */
  readonly began?: () => void
  /** From now on all notifications are missed. */
  readonly ended?: () => void
}

interface Listening extends Subscription {
  readonly channel: string
}

/** A connection, and the fibers that listen on it. */
interface ListeningConnection {
  readonly connection: PgConnection.PgConnection
  readonly fibers: FiberSet.FiberSet<unknown, SqlError.SqlError>
}

/** Calls a listener; a failure does not affect the others. */
const notify = (call: () => void) =>
  Effect.catchCause(Effect.sync(call), (cause) => Effect.logError("a listener failed", cause))

export class Listener extends Context.Service<
  Listener,
  {
    /** Receives the notifications of a channel, while the scope is open. */
    readonly listen: (channel: string, listener: Subscription) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/process/Listener") {
  static readonly layer = (url: Redacted.Redacted<string>): Layer.Layer<Listener> =>
    Layer.effect(
      Listener,
      Effect.gen(function* () {
        // A channel of this process alone, to test its connection.
        const beat = `beat_${randomUUID()}`
        let beats = 0
        const all = new Set<Listening>([{ channel: beat, notice: () => beats++ }])
        let current: ListeningConnection | undefined

        /** Listens on the connection. A removed listener is no longer called; its channel stays open until the connection is lost. */
        const listenOn = ({ connection, fibers }: ListeningConnection, listening: Listening) =>
          FiberSet.run(
            fibers,
            Effect.scoped(
              Effect.gen(function* () {
                const notices = yield* connection.listen(listening.channel)
                yield* notify(() => listening.began?.())
                return yield* Effect.forever(
                  Effect.flatMap(Queue.take(notices), ({ payload }) =>
                    notify(() => (all.has(listening) ? listening.notice(payload) : undefined)),
                  ),
                )
              }),
            ),
          )

        const silence = Effect.gen(function* () {
          for (let seen = -1; seen !== beats; ) {
            seen = beats
            // Sleeps one by one: a process that was itself suspended then first reads the notifications that arrived meanwhile.
            yield* Effect.repeat(Effect.sleep(BEAT_EVERY_MS), { times: SILENT_AFTER_BEATS - 1 })
          }
          return yield* new Silent()
        })

        const listenOnce = Effect.fnUntraced(function* (scope: Scope.Closeable) {
          const opened = Effect.flatMap(PgConnection.make(poolConfig(url, 1, {})), ({ pin }) => pin)
          const connection = yield* Scope.provide(opened, scope)
          const fibers = yield* Scope.provide(FiberSet.make<unknown, SqlError.SqlError>(), scope)
          // The connection notifies itself: other load of the database does not affect the test.
          const beating = Effect.repeat(
            connection.query("SELECT pg_notify($1, '')", [beat]),
            Schedule.spaced(BEAT_EVERY_MS),
          )
          yield* FiberSet.run(fibers, beating)
          current = { connection, fibers }
          for (const listening of all) yield* listenOn(current, listening)
          yield* Effect.raceFirst(FiberSet.join(fibers), silence)
        })

        const listenUntilLost = Effect.acquireUseRelease(Scope.make(), listenOnce, (scope, exit) =>
          Effect.sync(() => {
            current = undefined
          }).pipe(
            Effect.andThen(Effect.forEach(all, ({ ended }) => notify(() => ended?.()))),
            // Closing waits for an answer that a dead connection never gives: the next connection does not wait for it.
            Effect.andThen(Effect.forkDetach(Scope.close(scope, exit))),
          ),
        )
        yield* Effect.forkScoped(
          listenUntilLost.pipe(
            orElseUnlessStopped((cause) => Effect.logWarning("listening to the database is tried again", cause)),
            Effect.repeat(Schedule.spaced(RECONNECT_MS)),
          ),
        )
        return Listener.of({
          listen: (channel, listener) =>
            Effect.asVoid(
              Effect.acquireRelease(
                Effect.suspend(() => {
                  const listening = { ...listener, channel }
                  all.add(listening)
                  return Effect.as(current === undefined ? Effect.void : listenOn(current, listening), listening)
                }),
                (listening) => Effect.sync(() => all.delete(listening)),
              ),
            ),
        })
      }),
    )
}

/** Runs `work` in its turn, when the channel is notified, and every `fallbackMs` in case a notification was lost; on this many `fibers`. */
export const onNotify = Effect.fnUntraced(function* <A, E, R>(
  name: string,
  channel: string,
  fallbackMs: number,
  work: Effect.Effect<A, E, R>,
  fibers = 1,
) {
  // Notifications during the work cause one more run.
  const wake = yield* Queue.sliding<void>(1)
  const { listen } = yield* Listener
  yield* listen(channel, { notice: () => Queue.offerUnsafe(wake, undefined) })
  yield* Effect.forkScoped(Effect.repeat(Queue.offer(wake, undefined), Schedule.spaced(fallbackMs)))
  for (let n = 0; n < fibers; n++) yield* whenWoken(name, wake, work)
})
