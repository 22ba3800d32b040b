/** Runs one Postgres for the whole run, with a migrated template that each test file copies. */
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { TestProject } from "vitest/node"
import { bundle } from "../../scripts/bundle.ts"
import { startTemporaryPostgres } from "../../scripts/postgres.ts"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { migrate } from "../../src/postgres/migrate.ts"
import { Wakeups } from "../../src/runtime/Wakeups.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The server, on its `postgres` database. */
    postgres: string
  }
}

export const TEMPLATE = "template_billing"

/**
 * For this server only. Its data need not survive a crash of the machine: tests kill our own processes. Tables are
 * analysed every second: a plan for an empty table is kept until then, and tests fill tables quickly.
 */
const SETTINGS = {
  fsync: "off",
  synchronous_commit: "off",
  full_page_writes: "off",
  autovacuum_naptime: "1s",
  // Four workers, each with some servers at a time.
  max_connections: "400",
}

/** A migrated template with the job tables too: creating them is slower than copying them. */
const prepare = async (url: Redacted.Redacted<string>): Promise<Redacted.Redacted<string>> => {
  const admin = onDatabase(url, "postgres")
  const template = onDatabase(url, TEMPLATE)
  await Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(`CREATE DATABASE ${TEMPLATE}`).unprepared).pipe(
      Effect.provide(poolLayer(admin, 1)),
    ),
  )
  await Effect.runPromise(Effect.asVoid(migrate).pipe(Effect.provide(poolLayer(template, 1))))
  await Effect.runPromise(Effect.void.pipe(Effect.provide(Wakeups.layer(template)), Effect.scoped))
  return admin
}

/** The entry points that tests start as processes. */
const PROCESSES = ["src/main.ts", "src/cli.ts", "test/support/commandLineHost.ts", "test/support/mover.ts"]

/** The server, on its `postgres` database, and the function that stops it. */
export const startPostgres = async () => {
  const { url, end } = await startTemporaryPostgres("test", SETTINGS)
  try {
    return { url: await prepare(url), end }
  } catch (error) {
    end()
    throw error
  }
}

export default async (project: TestProject) => {
  const { folder, remove } = await bundle(PROCESSES)
  // For the workers and their child processes.
  process.env.SERVICE_BUNDLE = folder
  process.env.NODE_COMPILE_CACHE = join(folder, "compiled")
  const { url, end } = await startPostgres()
  project.provide("postgres", Redacted.value(url))
  return () => {
    end()
    return remove()
  }
}
