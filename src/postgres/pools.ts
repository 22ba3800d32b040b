/**
 * Pools whose connections each have one user at a time and are pipelined all the same: statements that a user sends together
 * go out together and come back in order, in one round trip. (The package's own client pipelines the statements of connections
 * that are shared; on those that it reserves for a transaction each waits for the one before.)
 */
import { PgClient, PgPool } from "@effect/sql-pg"
import { Effect, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { PipeliningConnection } from "./connection.ts"

export interface PipeliningPool {
  /** A connection that nobody else has until the scope closes. */
  readonly take: Effect.Effect<Connection, SqlError.SqlError, Scope.Scope>
  readonly client: SqlClient.SqlClient
}

type Acquirers = Pick<Parameters<typeof SqlClient.make>[0], "acquirer" | "borrower">

const clientOf = (acquirers: Acquirers) =>
  SqlClient.make({
    ...acquirers,
    driver: "pg",
    prepareTransactionControls: true,
    releaseSavepoint: (name) => `RELEASE SAVEPOINT ${name}`,
    compiler: PgClient.makeCompiler(),
    spanAttributes: [],
  }).pipe(Effect.provide(Reactivity.layer))

export const makePipeliningPool = Effect.fnUntraced(function* (config: PgPool.Config) {
  const pool = yield* PgPool.make({ ...config, multiplex: true, multiplexConcurrency: 1 })
  const take = Effect.map(pool.get, (connection) => new PipeliningConnection(connection))
  const client = yield* clientOf({
    acquirer: take,
    borrower: (use) => pool.use((connection) => use(new PipeliningConnection(connection))),
  })
  return { take, client } satisfies PipeliningPool
})

/**
 * A client for single statements, on so many connections: each statement goes to the one that has the fewest, so that who waits for a lock
 * keeps nobody waiting as long as there is another. (A pool of the package's gives all of them the same connection until that has 32; one
 * whose connections have a user each can be left with users that wait and nobody who connects, once its database was away: effect 4.1.0.)
 */
export const makeStatements = Effect.fnUntraced(function* (config: PgPool.Config, connections: number) {
  const one = PgPool.make({ ...config, maxConnections: 1, multiplex: true })
  const slots = (yield* Effect.all(Array.from({ length: connections }, () => one))).map((pool) => ({ pool, users: 0 }))
  const take = Effect.sync(() => {
    // Of those with as few the first, which is the warmest.
    const slot = slots.reduce((least, other) => (other.users < least.users ? other : least))
    slot.users++
    return slot
  })
  const leave = (slot: (typeof slots)[number]) => Effect.sync(() => void slot.users--)
  return yield* clientOf({
    acquirer: Effect.flatMap(Effect.acquireRelease(take, leave), ({ pool }) =>
      Effect.map(pool.get, (connection) => new PipeliningConnection(connection)),
    ),
    borrower: (use) =>
      Effect.acquireUseRelease(
        take,
        ({ pool }) => pool.use((connection) => use(new PipeliningConnection(connection))),
        leave,
      ),
  })
})
