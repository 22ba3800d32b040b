/** One embedded Postgres for the whole run, with a migrated template that each test file copies. */

import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import type { TestProject } from "vitest/node"
import { onDatabase, poolLayer } from "../../src/db/Database.ts"
import { useEmbeddedServer } from "../../src/db/embedded.ts"
import { migrate } from "../../src/db/migrate.ts"
import { Wakeups } from "../../src/timers/Wakeups.ts"

declare module "vitest" {
  interface ProvidedContext {
    /** The server, on its `postgres` database. */
    postgres: string
  }
}

export const TEMPLATE = "template_billing"

export default async (project: TestProject) => {
  const dataDir = mkdtempSync(join(tmpdir(), "recurring-billing-test-"))
  const server = await useEmbeddedServer(dataDir)
  const admin = onDatabase(server.url, "postgres")
  const template = onDatabase(server.url, TEMPLATE)
  await Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(`CREATE DATABASE ${TEMPLATE}`).unprepared).pipe(
      Effect.provide(poolLayer(admin, 1)),
    ),
  )
  // The job tables too: making them takes longer than copying them.
  await Effect.runPromise(Effect.asVoid(migrate).pipe(Effect.provide(poolLayer(template, 1))))
  await Effect.runPromise(Effect.void.pipe(Effect.provide(Wakeups.layer(template)), Effect.scoped))
  project.provide("postgres", Redacted.value(admin))
  return () => {
    server.release()
    rmSync(dataDir, { recursive: true, force: true })
  }
}
