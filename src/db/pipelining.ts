/**
 * A pool whose connections each have one user at a time and are pipelined all the same: statements that a user sends together
 * go out together and come back in order, in one round trip. (The package's own client pipelines the statements of connections
 * that are shared; on those that it reserves for a transaction each waits for the one before.)
 */
import { PgClient, type PgConnection, PgPool } from "@effect/sql-pg"
import { Effect, Exit, type Scope, Stream } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"

class PipeliningConnection implements Connection {
  readonly #connection: PgConnection.PgConnection

  constructor(connection: PgConnection.PgConnection) {
    this.#connection = connection
  }

  #rows(
    text: string,
    params: ReadonlyArray<unknown>,
    prepare: boolean,
    transform: Parameters<Connection["execute"]>[2],
  ) {
    const rows = Effect.map(this.#connection.query(text, params, prepare), (result) => result.rows)
    return transform === undefined ? rows : Effect.map(rows, transform)
  }

  readonly execute: Connection["execute"] = (text, params, transform) => this.#rows(text, params, true, transform)
  readonly executeUnprepared: Connection["executeUnprepared"] = (text, params, transform) =>
    this.#rows(text, params, false, transform)
  readonly executeRaw: Connection["executeRaw"] = (text, params) => this.#connection.query(text, params)
  readonly executeValues: Connection["executeValues"] = (text, params) => this.#connection.queryValues(text, params)
  readonly executeValuesUnprepared: Connection["executeValuesUnprepared"] = (text, params) =>
    this.#connection.queryValues(text, params, false)
  // A stream would reserve its connection, for which it would wait in a transaction for ever.
  readonly executeStream: Connection["executeStream"] = () =>
    Stream.die(new Error("Read page by page: statements are not streamed."))
}

/** Ends a transaction; fails where Postgres took it back because a statement in it had failed. */
export const commitOn = (connection: Connection): Effect.Effect<void, SqlError.SqlError> =>
  Effect.flatMap(connection.executeRaw("COMMIT", []), (result) =>
    (result as PgConnection.Result).command === "COMMIT"
      ? Effect.void
      : Effect.fail(
          new SqlError.SqlError({
            reason: new SqlError.UnknownError({
              cause: new Error("A statement of the transaction had failed."),
              operation: "commit",
            }),
          }),
        ),
  )

export interface PipeliningPool {
  /** A connection that nobody else has until the scope closes. */
  readonly take: Effect.Effect<Connection, SqlError.SqlError, Scope.Scope>
  readonly client: SqlClient.SqlClient
}

export const makePipeliningPool = Effect.fnUntraced(function* (config: PgPool.Config) {
  const pool = yield* PgPool.make({ ...config, multiplex: true, multiplexConcurrency: 1 })
  const take = Effect.map(pool.get, (connection) => new PipeliningConnection(connection))
  const client = yield* SqlClient.make({
    driver: "pg",
    acquirer: take,
    borrower: (use) => pool.use((connection) => use(new PipeliningConnection(connection))),
    prepareTransactionControls: true,
    commit: commitOn,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [],
  }).pipe(Effect.provide(Reactivity.layer))
  return { take, client } satisfies PipeliningPool
})

/** How effects are run whose statements go out in one go; the first that fails ends it. */
export const IN_ONE_GO = { concurrency: "unbounded" } as const

/** What Postgres says to statements after one that failed, in the same transaction. */
const isAftermath = (error: unknown): boolean =>
  SqlError.isSqlError(error) && (error.reason.cause as { readonly code?: unknown } | undefined)?.code === "25P02"

/**
 * Sends statements that do not need each other's answers in one go, in their order; of several that fail, fails as the first
 * did. All are answered when this ends.
 */
export const inOneGo = <E, R>(statements: ReadonlyArray<Effect.Effect<unknown, E, R>>): Effect.Effect<void, E, R> =>
  Effect.flatMap(
    Effect.forEach(statements, (statement) => Effect.exit(statement), IN_ONE_GO),
    (exits) => {
      const failed = exits.filter(Exit.isFailure)
      const first = failed.find(
        ({ cause }) => !cause.reasons.some((reason) => reason._tag === "Fail" && isAftermath(reason.error)),
      )
      return first ?? failed[0] ?? Effect.void
    },
  )
