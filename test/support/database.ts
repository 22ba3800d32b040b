/** Creates databases for tests, copied from the migrated template. */

import { randomBytes } from "node:crypto"
import { Effect, ManagedRuntime, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { afterAll, beforeAll, inject } from "vitest"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { type UnitOfWork, unitOfWork } from "../../src/db/UnitOfWork.ts"
import { TEMPLATE } from "./postgres.ts"

export type Sql = SqlClient.SqlClient

/** Enough for a transaction that uses one while others read. */
const CONNECTIONS = 4

const statement = (text: string): Promise<unknown> =>
  Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text).unprepared).pipe(
      Effect.provide(poolLayer(Redacted.make(inject("postgres")), 1)),
    ),
  )

export interface TestDatabase {
  readonly url: () => Redacted.Redacted<string>
  /** Runs a program on a small pool that is reused: a connection is slower than most statements. */
  readonly run: <A, E>(program: (sql: Sql) => Effect.Effect<A, E, SqlClient.SqlClient>) => Promise<A>
  /** Writes in one transaction. */
  readonly write: <A>(writes: (unit: UnitOfWork) => A) => Promise<A>
}

export interface OwnDatabase extends TestDatabase {
  readonly create: () => Promise<unknown>
  /** Copies this database to another one. It must have no other connections. */
  readonly copy: () => Promise<OwnDatabase>
  readonly drop: () => Promise<unknown>
}

export const createDatabase = (template = TEMPLATE): OwnDatabase => {
  const name = `test_${randomBytes(6).toString("hex")}`
  const url = () => onDatabase(Redacted.make(inject("postgres")), name)
  let pool: ManagedRuntime.ManagedRuntime<SqlClient.SqlClient, unknown> | undefined
  const disconnect = async () => {
    await pool?.dispose()
    pool = undefined
  }
  const run: TestDatabase["run"] = (program) => {
    pool ??= ManagedRuntime.make(poolLayer(url(), CONNECTIONS))
    return pool.runPromise(Effect.flatMap(SqlClient.SqlClient, program))
  }
  return {
    url,
    copy: async () => {
      await disconnect()
      const copied = createDatabase(name)
      await copied.create()
      return copied
    },
    run,
    write: (writes) => run((sql) => sql.withTransaction(Effect.map(unitOfWork, writes))),
    create: () => statement(`CREATE DATABASE ${name} TEMPLATE ${template}`),
    drop: async () => {
      await disconnect()
      await statement(`DROP DATABASE ${name} WITH (FORCE)`)
    },
  }
}

/** Call at the top of a test file, or of a `describe`: creates a database, dropped afterwards. */
export const useDatabase = (template?: string): TestDatabase => {
  const database = createDatabase(template)
  beforeAll(database.create)
  afterAll(database.drop)
  return database
}
