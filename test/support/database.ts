/** A database of a test file's own, copied from the migrated template and dropped afterwards. */

import { randomBytes } from "node:crypto"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { afterAll, beforeAll, inject } from "vitest"
import { onDatabase, poolLayer } from "../../src/db/Database.ts"
import { TEMPLATE } from "./postgres.ts"

export type Sql = SqlClient.SqlClient

const statement = (text: string): Promise<unknown> =>
  Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text).unprepared).pipe(
      Effect.provide(poolLayer(Redacted.make(inject("postgres")), 1)),
    ),
  )

export interface TestDatabase {
  readonly url: () => Redacted.Redacted<string>
  /** Runs a program on a small pool. */
  readonly run: <A, E>(program: (sql: Sql) => Effect.Effect<A, E, SqlClient.SqlClient>) => Promise<A>
}

/** Call at the top of a test file. */
export const useDatabase = (): TestDatabase => {
  const name = `test_${randomBytes(6).toString("hex")}`
  const url = () => onDatabase(Redacted.make(inject("postgres")), name)
  beforeAll(() => statement(`CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`))
  afterAll(() => statement(`DROP DATABASE ${name} WITH (FORCE)`))
  return {
    url,
    run: (program) =>
      Effect.runPromise(Effect.flatMap(SqlClient.SqlClient, program).pipe(Effect.provide(poolLayer(url(), 2)))),
  }
}
