/**
 * Stores the responses of second phases for replays. Responses of all accounts that arrive while others are being written are written next, in one
 * statement. If Postgres refuses it, each is written alone, so that none fails because of another.
 */
import { Cause, Context, Effect, Exit, Layer } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"
import { Batcher } from "../concurrency/Batcher.ts"
import type { Tenant } from "../db/tenant.ts"
import { isAway, sqlStateOf } from "../postgres/errors.ts"
import { type FinishedTry, IN_PROGRESS, type KeyedTry, type ResponseToStore, storeResponses } from "./idempotency.ts"

/** The most bytes of responses in one statement; a longer response is alone. */
const MAX_BYTES = 1024 * 1024

const sizeOf = ({ response: { body, expanded } }: FinishedTry): number =>
  Buffer.byteLength(body) + Buffer.byteLength(expanded?.body ?? "")

/** Whether Postgres refused the statement, which may be due to one of the responses. */
const isRefused = (cause: Cause.Cause<SqlError.SqlError>): boolean =>
  cause.reasons.some(
    (reason) => Cause.isFailReason(reason) && sqlStateOf(reason.error) !== undefined && !isAway(reason.error),
  )

type Stored = Exit.Exit<void, Problem | SqlError.SqlError>

const store = (
  all: ReadonlyArray<FinishedTry>,
): Effect.Effect<ReadonlyMap<string, Stored>, never, SqlClient.SqlClient> =>
  Effect.matchCauseEffect(storeResponses(all), {
    onSuccess: (tokens) =>
      Effect.succeed(
        new Map(
          all.map(({ mine: { token } }) => [token.id, tokens.has(token.id) ? Exit.void : Exit.fail(IN_PROGRESS)]),
        ),
      ),
    onFailure: (cause) =>
      all.length === 1 || !isRefused(cause)
        ? Effect.succeed(new Map(all.map(({ mine }) => [mine.token.id, Exit.failCause(cause)])))
        : Effect.map(
            Effect.forEach(all, (one) => store([one])),
            (each) => new Map(each.flatMap((one) => [...one])),
          ),
  })

export class StoredResponses extends Context.Service<
  StoredResponses,
  {
    /** Stores the response of a second phase. Fails with `idempotency_request_in_progress` if another try took the record over. */
    readonly store: (
      tenant: Tenant,
      mine: KeyedTry,
      response: ResponseToStore,
    ) => Effect.Effect<void, Problem | SqlError.SqlError>
  }
>()("billing/http/StoredResponses") {
  static readonly layer: Layer.Layer<StoredResponses, never, SqlClient.SqlClient> = Layer.effect(
    StoredResponses,
    Effect.gen(function* () {
      const batches = new Batcher(
        yield* Effect.context<SqlClient.SqlClient>(),
        ({ mine }: FinishedTry) => mine.token.id,
        store,
        { sizeOf, most: MAX_BYTES },
      )
      return StoredResponses.of({
        store: ({ account_id, livemode }, mine, response) =>
          Effect.flatMap(batches.ask({ account_id, livemode, mine, response }), (stored) => stored!),
      })
    }),
  )
}
