/** Deletions notifies callers when any process has deleted an object. */
import { Context, Deferred, Effect, Layer, Schedule, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { isRef, type Ref } from "../../db/tenant.ts"
import { Listener } from "../Listener.ts"
import { accountOf, DELETED_CHANNEL, payloadOf } from "./deletion.ts"

/** A longer deletion continues without its caller. */
const WAIT_LIMIT_MS = 3_000
/** In case a notification was lost. */
const LOOK_EVERY_MS = 500

export class Deletions extends Context.Service<
  Deletions,
  {
    /** Waits until the object is deleted, a few seconds at most, without a transaction or connection. */
    readonly wait: (ref: Ref) => Effect.Effect<void>
    /** Calls `notify` with the account of each deleted object, while the scope is open. */
    readonly watch: (notify: (account: string) => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/process/deletion/Deletions") {
  static readonly layer: Layer.Layer<Deletions, never, SqlClient.SqlClient | Listener> = Layer.effect(
    Deletions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const waiting = new Map<string, Set<Deferred.Deferred<void>>>()
      const watching = new Set<(account: string) => void>()
      const { listen } = yield* Listener
      yield* listen(DELETED_CHANNEL, {
        notice: (payload) => {
          for (const deleted of waiting.get(payload) ?? []) Deferred.doneUnsafe(deleted, Effect.void)
          for (const notify of watching) notify(accountOf(payload))
        },
      })
      const awaitNotice = (ref: Ref) => {
        const payload = payloadOf(ref)
        return Effect.acquireUseRelease(
          Effect.sync(() => {
            const deleted = Deferred.makeUnsafe<void>()
            waiting.set(payload, (waiting.get(payload) ?? new Set()).add(deleted))
            return deleted
          }),
          Deferred.await,
          (deleted) =>
            Effect.sync(() => {
              const others = waiting.get(payload)
              others?.delete(deleted)
              if (others?.size === 0) waiting.delete(payload)
            }),
        )
      }
      const look = (ref: Ref) =>
        sql`SELECT 1 FROM deletion WHERE ${isRef(sql, ref)}`.pipe(
          Effect.orElseSucceed(() => ["not known"]),
          Effect.repeat({ until: (found) => found.length === 0, schedule: Schedule.spaced(LOOK_EVERY_MS) }),
        )
      return Deletions.of({
        // Listens before it looks: the object may be deleted in between.
        wait: (ref) => Effect.asVoid(Effect.timeoutOption(Effect.race(awaitNotice(ref), look(ref)), WAIT_LIMIT_MS)),
        watch: (notify) =>
          Effect.asVoid(
            Effect.acquireRelease(
              Effect.sync(() => watching.add(notify)),
              () => Effect.sync(() => watching.delete(notify)),
            ),
          ),
      })
    }),
  )
}
