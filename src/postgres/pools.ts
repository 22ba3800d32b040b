/**
 * Pools whose connections have one user at a time and are still pipelined: statements that a user sends together go out together and
 * return in order, in one round trip. (The package's own client pipelines only connections that are shared; on a connection reserved for
 * a transaction each statement waits for the one before.)
 */
import { PgClient, PgPool } from "@effect/sql-pg"
import { Effect, type Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlError } from "effect/sql"
import type { Connection } from "effect/sql/SqlConnection"
import { PipeliningConnection } from "./connection.ts"

export interface PipeliningPool {
  /** A connection for one user, until the scope closes. */
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
 * Creates a client for single statements on this many connections. Each statement uses the connection with the fewest users, so that one
 * that waits for a lock delays no other while another connection is free. (The package's pool gives all of them the same connection until
 * that has 32; a pool with one user per connection can leave waiting users without a new connection after an outage: effect 4.1.0.)
 */
export const makeStatements = Effect.fnUntraced(function* (config: PgPool.Config, connections: number) {
  const one = PgPool.make({ ...config, maxConnections: 1, multiplex: true })
  const slots = (yield* Effect.all(Array.from({ length: connections }, () => one))).map((pool) => ({ pool, users: 0 }))
  const take = Effect.sync(() => {
    // The first of those with the fewest users: its caches are the warmest.
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
