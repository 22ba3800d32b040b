/** What was written before a change of the machines or of their tables is right after it (test/kept). */
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { describe, expect, it } from "vitest"
import { replayables } from "../src/app/lifecycles.ts"
import { dayOf } from "../src/base/time.ts"
import type { Ref } from "../src/db/tenant.ts"
import { checkLedger } from "../src/ledger/ledger.ts"
import { recogniseOnClock, recogniseThrough } from "../src/ledger/recognition.ts"
import { migrate, migrateThrough } from "../src/postgres/migrate.ts"
import { replayJournal } from "../src/runtime/replay.ts"
import { useDatabase } from "./support/database.ts"

type Rows = ReadonlyArray<Readonly<Record<string, unknown>>>

/** Rows by table: from a sandbox that lived through most of what can happen. */
const kept = (name: string): Readonly<Record<string, Rows>> =>
  JSON.parse(readFileSync(join(import.meta.dirname, "kept", name), "utf8"))

/** Writes rows into the tables as they were, and brings these up to date. */
const migrateRows = Effect.fnUntraced(function* (migration: string, tables: Readonly<Record<string, Rows>>) {
  const sql = yield* SqlClient.SqlClient
  yield* migrateThrough(migration)
  yield* sql.withTransaction(
    Effect.gen(function* () {
      // As `pg_restore --disable-triggers` does: customers and their payment methods refer to each other.
      yield* sql`SET LOCAL session_replication_role = replica`.unprepared
      for (const [table, rows] of Object.entries(tables)) {
        const [columns] = yield* sql<{ names: string }>`
          SELECT string_agg(quote_ident(attname), ', ') AS names FROM pg_attribute
          WHERE attrelid = ${table}::regclass AND attnum > 0 AND NOT attisdropped AND attgenerated = ''`
        const names = sql.literal(columns!.names)
        yield* sql`
          INSERT INTO ${sql(table)} (${names}) OVERRIDING SYSTEM VALUE
          SELECT ${names} FROM jsonb_populate_recordset(NULL::${sql(table)}, ${JSON.stringify(rows)}::jsonb) ON CONFLICT DO NOTHING`
      }
    }),
  )
  yield* migrate
})

describe("a journal that was kept", () => {
  /** Without any table. */
  const database = useDatabase("template0")

  it("from before the columns had plain names replays as it was, into the same rows", async () => {
    const tables = kept("journal-0012.json")
    const actors = new Set(tables.lifecycle_journal!.map(({ actor_id }) => actor_id))
    const found = await database.run(() =>
      Effect.andThen(migrateRows("0012_nudges", tables), replayJournal(replayables, [])),
    )
    expect(actors.size).toBeGreaterThan(50)
    expect(found).toEqual({ replayed: actors.size, differing: [], unknown: [] })
  })

  it("replays those that are named, and says which one its row does not follow", async () => {
    const [one, two] = await database.run((sql) => sql<{ id: string }>`SELECT id FROM subscription ORDER BY id LIMIT 2`)
    const named = [one!.id, two!.id, "sub_nowhere", one!.id]
    const replay = () => database.run(() => replayJournal(replayables, named))
    expect(await replay()).toEqual({ replayed: 2, differing: [], unknown: ["sub_nowhere"] })
    await database.run((sql) => sql`UPDATE subscription SET quantity = quantity + 1 WHERE id = ${two!.id}`)
    const { replayed, differing } = await replay()
    expect([replayed, differing]).toEqual([
      2,
      [{ actor: two!.id, reason: expect.stringMatching(/^its row has .*, the replay /) }],
    ])
  })
})

describe("books that were kept", () => {
  const database = useDatabase("template0")

  it("from before revenue was recognised keep every rule, and what was deferred is recognised over its periods", async () => {
    const tables = kept("books-0020.json")
    const found = await database.run((sql) =>
      Effect.gen(function* () {
        yield* migrateRows("0020_live_rails", tables)
        const [deferred] = yield* sql<{ kobo: number }>`
          SELECT -sum(amount_kobo)::bigint AS kobo FROM ledger_line WHERE ledger_account = 'deferred_revenue'`
        const [scheduled] = yield* sql<{ kobo: number }>`SELECT sum(amount_kobo)::bigint AS kobo FROM revenue_schedule`
        const before = yield* checkLedger()
        const clock = tables.test_clock![0] as unknown as Ref
        yield* sql.withTransaction(
          Effect.repeat(recogniseOnClock(clock, Date.UTC(2026, 11, 1)), { while: (more) => more }),
        )
        yield* recogniseThrough(dayOf(Date.now()) + 400)
        const left = yield* sql<{ kobo: number }>`
          SELECT -sum(amount_kobo)::bigint AS kobo FROM ledger_line WHERE ledger_account = 'deferred_revenue'`
        const gone =
          yield* sql`SELECT 1 FROM ledger_entry e WHERE NOT EXISTS (SELECT 1 FROM customer c WHERE c.id = e.customer_id) AND e.customer_id IS NOT NULL`
        return {
          deferred: deferred!.kobo,
          scheduled: scheduled!.kobo,
          before,
          left: left[0]!.kobo,
          gone,
          after: yield* checkLedger(),
        }
      }),
    )
    expect(found.deferred).toBeGreaterThan(0)
    expect(found.scheduled).toBe(found.deferred)
    expect(found.before).toMatchObject({ ok: true, problems: [] })
    expect(found.after).toMatchObject({ ok: true, problems: [] })
    // But for two deliveries that are paid for and still to come, and the credit of one who has paused.
    expect(found.left).toBe(2_500_000 + 822_581)
    expect(found.gone).toEqual([])
  })
})
