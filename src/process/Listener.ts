/**
 * What is notified in the database, whatever it is about, heard on one connection. Where that is lost or silent, another is made: what was
 * notified meanwhile is missed, and listeners are told so.
 */
import { randomUUID } from "node:crypto"
import { PgConnection } from "@effect/sql-pg"
import { Context, Data, Effect, FiberSet, Layer, Queue, type Redacted, Schedule, Scope } from "effect"
import type { SqlError } from "effect/sql"
import { SECOND_MS } from "../base/time.ts"
import { poolConfig } from "../postgres/poolConfig.ts"
import { orElseUnlessStopped, whenWoken } from "./workers.ts"

const RECONNECT_MS = 500
/** How often the connection is tried, and after how many tries that it heard nothing of it has died without a word. */
const BEAT_EVERY_MS = SECOND_MS
const SILENT_AFTER_BEATS = 3

class Silent extends Data.TaggedError("Silent") {
  override readonly message = "The connection hears nothing any more."
}

/** What happens to a listener. */
export interface Subscription {
  readonly notice: (payload: string) => void
  /** From here on nothing is missed. */
  readonly began?: () => void
  /** From here on everything is. */
  readonly ended?: () => void
}

interface Listening extends Subscription {
  readonly channel: string
}

/** A connection, and what hears on it for each listener. */
interface Line {
  readonly connection: PgConnection.PgConnection
  readonly hearing: FiberSet.FiberSet<unknown, SqlError.SqlError>
}

/** Tells a listener something; one that fails takes nothing from the others. */
const notify = (tell: () => void) =>
  Effect.catchCause(Effect.sync(tell), (cause) => Effect.logError("a listener failed", cause))

export class Listener extends Context.Service<
  Listener,
  {
    /** Hears what is notified on a channel, for as long as the scope is open. */
    readonly listen: (channel: string, listener: Subscription) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/process/Notices") {
  static readonly layer = (url: Redacted.Redacted<string>): Layer.Layer<Listener> =>
    Layer.effect(
      Listener,
      Effect.gen(function* () {
        // This process's own: what it tries its connection with, nobody else hears.
        const beat = `beat_${randomUUID()}`
        let beats = 0
        const all = new Set<Listening>([{ channel: beat, notice: () => beats++ }])
        let line: Line | undefined

        /** Who has gone is told nothing any more; what it listened to is heard until the connection is lost. */
        const hearOn = ({ connection, hearing }: Line, listening: Listening) =>
          FiberSet.run(
            hearing,
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
          for (let known = -1; known !== beats; ) {
            known = beats
            // One by one: a process that stood still itself first hears what came meanwhile.
            yield* Effect.repeat(Effect.sleep(BEAT_EVERY_MS), { times: SILENT_AFTER_BEATS - 1 })
          }
          return yield* new Silent()
        })

        const hear = Effect.fnUntraced(function* (scope: Scope.Closeable) {
          const made = Effect.flatMap(PgConnection.make(poolConfig(url, 1, {})), ({ pin }) => pin)
          const connection = yield* Scope.provide(made, scope)
          const hearing = yield* Scope.provide(FiberSet.make<unknown, SqlError.SqlError>(), scope)
          // By the connection itself, which hears what it notifies: whatever else the database is busy with says nothing of it.
          const beating = Effect.repeat(
            connection.query("SELECT pg_notify($1, '')", [beat]),
            Schedule.spaced(BEAT_EVERY_MS),
          )
          yield* FiberSet.run(hearing, beating)
          line = { connection, hearing }
          for (const listening of all) yield* hearOn(line, listening)
          yield* Effect.raceFirst(FiberSet.join(hearing), silence)
        })

        const heard = Effect.acquireUseRelease(Scope.make(), hear, (scope, exit) =>
          Effect.sync(() => {
            line = undefined
          }).pipe(
            Effect.andThen(Effect.forEach(all, ({ ended }) => notify(() => ended?.()))),
            // Hanging up waits for an answer, which a dead connection does not give: the next one does not wait for it.
            Effect.andThen(Effect.forkDetach(Scope.close(scope, exit))),
          ),
        )
        yield* Effect.forkScoped(
          heard.pipe(
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
                  return Effect.as(line === undefined ? Effect.void : hearOn(line, listening), listening)
                }),
                (listening) => Effect.sync(() => all.delete(listening)),
              ),
            ),
        })
      }),
    )
}

/** Does `work` as soon as it is its turn, whenever the channel is notified, and every `fallbackMs` in case a notice was lost; by `fibers` at once. */
export const onNotify = Effect.fnUntraced(function* <A, E, R>(
  name: string,
  channel: string,
  fallbackMs: number,
  work: Effect.Effect<A, E, R>,
  fibers = 1,
) {
  // Notices that come while the work is under way are one more run.
  const wake = yield* Queue.sliding<void>(1)
  const { listen } = yield* Listener
  yield* listen(channel, { notice: () => Queue.offerUnsafe(wake, undefined) })
  yield* Effect.forkScoped(Effect.repeat(Queue.offer(wake, undefined), Schedule.spaced(fallbackMs)))
  for (let n = 0; n < fibers; n++) yield* whenWoken(name, wake, work)
})
