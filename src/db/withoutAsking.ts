/** Decisions that are made without the database. */
import { Effect, Stream } from "effect"
import { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { unknownError } from "./takenBack.ts"

/** What a decision fails with that was to be made without the database. */
const ASKS = "ask the database"

const refuse = (): Effect.Effect<never, SqlError.SqlError> =>
  Effect.fail(unknownError(ASKS, new Error("This is decided without the database.")))

const NOBODY: Connection = {
  execute: refuse,
  executeRaw: refuse,
  executeUnprepared: refuse,
  executeValues: refuse,
  executeValuesUnprepared: refuse,
  executeStream: () => Stream.fromEffect(refuse()),
}

/** Decides by what is known already; undefined where that takes a look at the database. */
export const withoutAsking = <A, E, R>(
  decision: Effect.Effect<A, E, R>,
): Effect.Effect<A | undefined, E, R | SqlClient.SqlClient> =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    Effect.catchIf(
      Effect.provideService(decision, sql.transactionService, [NOBODY, 0]),
      (error) => SqlError.isSqlError(error) && error.reason._tag === "UnknownError" && error.reason.operation === ASKS,
      () => Effect.succeed(undefined),
    ),
  )
