/** A journal from before a change of the machines or of their tables replays after it (test/kept). */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { describe, expect, it } from "vitest"
import { migrate, migrateThrough } from "../src/db/migrate.ts"
import { replayables } from "../src/lifecycles.ts"
import { replayJournal } from "../src/runtime/replay.ts"
import { useDatabase } from "./support/database.ts"

/** Without any table. */
const database = useDatabase("template0")

type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>

/** Rows by table: from a sandbox that lived through most of what can happen. */
const kept = (name: string): Readonly<Record<string, Rows>> =>
  JSON.parse(readFileSync(join(import.meta.dirname, "kept", name), "utf8"))

describe("a journal that was kept", () => {
  it("from before the columns had plain names replays as it was, into the same rows", async () => {
    const tables = kept("journal-0012.json")
    const actors = new Set(tables.lifecycle_journal!.map(({ actor_id }) => actor_id))
    const found = await database.run((sql) =>
      Effect.gen(function* () {
        yield* migrateThrough("0012_nudges")
        yield* sql.withTransaction(
          Effect.gen(function* () {
            // As `pg_restore --disable-triggers` does: customers and their payment methods refer to each other.
            yield* sql`SET LOCAL session_replication_role = replica`.unprepared
            for (const [table, rows] of Object.entries(tables))
              yield* sql`INSERT INTO ${sql(table)} OVERRIDING SYSTEM VALUE SELECT * FROM jsonb_populate_recordset(NULL::${sql(table)}, ${JSON.stringify(rows)}::jsonb)`
          }),
        )
        yield* migrate
        return yield* replayJournal(replayables, [])
      }),
    )
    expect(actors.size).toBeGreaterThan(50)
    expect(found).toEqual({ replayed: actors.size, differing: [], unknown: [] })
  })
})
