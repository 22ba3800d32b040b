/** The connection to Postgres: an existing server, or the embedded one of DATA_DIR. */
import { PgClient } from "@effect/sql-pg"
import { Effect, Layer, Redacted } from "effect"
import { Reactivity } from "effect/reactivity"
import { SqlClient, type SqlError } from "effect/sql"
import { type Config, ConfigProblem } from "../config/Config.ts"
import { useEmbeddedServer } from "../postgres/embedded.ts"
import { sqlStateOf } from "../postgres/errors.ts"
import { poolConfig } from "../postgres/poolConfig.ts"
import { makePipeliningPool, makeStatements } from "../postgres/pools.ts"
import { transactionsOn } from "../postgres/transaction.ts"
import { UnitOfWork } from "./UnitOfWork.ts"

/** Connections for single statements. */
const STATEMENT_CONNECTIONS = 8

/** Sessions are read-only except in transactions that say otherwise: a statement after a failed BEGIN cannot write. */
const READ_ONLY = { default_transaction_read_only: "on" } as const

/** Adds transactions with a unit of work to a client, on separate connections. */
const withUnitsOfWork = <Client extends SqlClient.SqlClient>(sql: Client, config: ReturnType<typeof poolConfig>) =>
  Effect.gen(function* () {
    const startupParameters = { ...config.startupParameters, ...READ_ONLY }
    const { take } = yield* makePipeliningPool({ ...config, startupParameters })
    const inTransaction = transactionsOn(sql, take, {
      begin: "BEGIN READ WRITE",
      pending: (client) => new UnitOfWork(client),
    })
    return Object.assign(sql, {
      withTransaction: <A, E, R>(work: Effect.Effect<A, E, R>) => inTransaction(work),
    })
  })

/**
 * A pool on `url` with these session `settings`, as SqlClient: this many connections for transactions, and as many for single statements,
 * which are pipelined.
 */
export const poolLayer = (
  url: Redacted.Redacted<string>,
  maxConnections: number,
  settings: Readonly<Record<string, string>> = {},
): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> => {
  const config = poolConfig(url, maxConnections, settings)
  const client = Effect.provide(PgClient.make({ ...config, multiplex: true }), Reactivity.layer)
  return Layer.effect(
    SqlClient.SqlClient,
    Effect.flatMap(client, (sql) => withUnitsOfWork(sql, config)),
  )
}

/**
 * For transactions that find rows by key: a statement's plan is made once, for all values. Planning took a third of Postgres's time.
 */
export const PLANNED_ONCE = { plan_cache_mode: "force_generic_plan" } as const

/** How many of the service's own transactions can run at the same time. */
const MAX_TRANSACTIONS = 10

/** The service's own connections: for single statements, and for transactions whose statements are planned once. `reserve` opens a new one. */
export const serviceLayer = (url: Redacted.Redacted<string>): Layer.Layer<SqlClient.SqlClient, SqlError.SqlError> =>
  Layer.effect(
    SqlClient.SqlClient,
    Effect.gen(function* () {
      const sql = yield* makeStatements(poolConfig(url, 1, {}), STATEMENT_CONNECTIONS)
      const alone = Effect.provide(PgClient.makeClient(poolConfig(url, 1, {})), Reactivity.layer)
      const reserve = Effect.flatMap(alone, (client) => client.reserve)
      const client = Object.assign(sql, { reserve })
      return yield* withUnitsOfWork(client, poolConfig(url, MAX_TRANSACTIONS, PLANNED_ONCE))
    }),
  )

/** `url` with another database of the same server. */
export const onDatabase = (url: Redacted.Redacted<string>, database: string): Redacted.Redacted<string> => {
  const other = new URL(Redacted.value(url))
  other.pathname = `/${database}`
  return Redacted.make(other.href)
}

/** SQLSTATEs of a database that another process has created meanwhile, or is creating. */
const MADE_MEANWHILE = ["42P04", "23505"]

/** Creates the database that `url` names if the server lacks it. */
const createDatabase = (url: Redacted.Redacted<string>) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const name = new URL(Redacted.value(url)).pathname.slice(1)
    const found = yield* sql`SELECT 1 FROM pg_database WHERE datname = ${name}`
    if (found.length > 0) return
    yield* Effect.catchIf(
      sql`CREATE DATABASE ${sql(name)}`.unprepared,
      (error) => MADE_MEANWHILE.includes(sqlStateOf(error) ?? ""),
      () => Effect.void,
    )
  }).pipe(Effect.provide(poolLayer(onDatabase(url, "postgres"), 1)))

/** The address of the database to use; the embedded server runs while the scope is open. */
export const databaseUrl = (config: Config) =>
  config.databaseUrl !== undefined
    ? Effect.succeed(config.databaseUrl)
    : Effect.acquireRelease(
        Effect.tryPromise({ try: () => useEmbeddedServer(config.dataDir), catch: (error) => error }).pipe(
          Effect.catch((error) => (error instanceof ConfigProblem ? Effect.fail(error) : Effect.die(error))),
          // A process that ends by `process.exit` runs no finalizers.
          Effect.tap((server) => Effect.sync(() => process.once("exit", server.release))),
        ),
        (server) => Effect.sync(server.release),
      ).pipe(
        Effect.map((server) => server.url),
        Effect.tap(createDatabase),
      )
