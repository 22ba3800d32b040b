/** Hearing that something is deleted, by whichever process that is. */
import { Context, Deferred, Effect, Layer, Schedule, type Scope } from "effect"
import { SqlClient } from "effect/sql"
import { isRef, type Ref } from "../../db/tenant.ts"
import { Listener } from "../Listener.ts"
import { accountOf, DELETED_CHANNEL, payloadOf } from "./deletion.ts"

/** What takes longer goes on without anybody waiting. */
const WAIT_LIMIT_MS = 3_000
/** In case a notice was lost. */
const LOOK_EVERY_MS = 500

export class Deletions extends Context.Service<
  Deletions,
  {
    /** Waits until it is deleted, a few seconds at most, in no transaction and without a connection. */
    readonly wait: (ref: Ref) => Effect.Effect<void>
    /** Calls `heard` with the account of whatever is deleted, for as long as the scope is open. */
    readonly watch: (heard: (account: string) => void) => Effect.Effect<void, never, Scope.Scope>
  }
>()("billing/deletion/Deletions") {
  static readonly layer: Layer.Layer<Deletions, never, SqlClient.SqlClient | Listener> = Layer.effect(
    Deletions,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const waiting = new Map<string, Set<Deferred.Deferred<void>>>()
      const watching = new Set<(account: string) => void>()
      const { listen } = yield* Listener
      yield* listen(DELETED_CHANNEL, {
        notice: (payload) => {
          for (const heard of waiting.get(payload) ?? []) Deferred.doneUnsafe(heard, Effect.void)
          for (const heard of watching) heard(accountOf(payload))
        },
      })
      const hear = (ref: Ref) => {
        const payload = payloadOf(ref)
        return Effect.acquireUseRelease(
          Effect.sync(() => {
            const heard = Deferred.makeUnsafe<void>()
            waiting.set(payload, (waiting.get(payload) ?? new Set()).add(heard))
            return heard
          }),
          Deferred.await,
          (heard) =>
            Effect.sync(() => {
              const others = waiting.get(payload)
              others?.delete(heard)
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
        // Heard before it is looked for: it may be gone in between.
        wait: (ref) => Effect.asVoid(Effect.timeoutOption(Effect.race(hear(ref), look(ref)), WAIT_LIMIT_MS)),
        watch: (heard) =>
          Effect.asVoid(
            Effect.acquireRelease(
              Effect.sync(() => watching.add(heard)),
              () => Effect.sync(() => watching.delete(heard)),
            ),
          ),
      })
    }),
  )
}
