import { describe, expect, it } from "vitest"
import { useDatabase } from "./support/database.ts"

const database = useDatabase()

/** Tables that belong to no account. */
const SHARED = ["account", "administrator_key", "ledger_account", "schema_migration", "service_secret"]

interface Found {
  readonly name: string
}

const names = (rows: ReadonlyArray<Found>) => rows.map(({ name }) => name)

describe("the data model", () => {
  it("begins every tenant table's primary key with account_id and livemode", async () => {
    const rows = await database.run(
      (sql) => sql<Found & { columns: ReadonlyArray<string> }>`
        SELECT c.relname AS name, array_agg(a.attname::text ORDER BY k.n) AS columns
        FROM pg_class c JOIN pg_index i ON i.indrelid = c.oid AND i.indisprimary
        CROSS JOIN LATERAL unnest(i.indkey) WITH ORDINALITY AS k (attnum, n)
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = k.attnum
        WHERE c.relnamespace = 'public'::regnamespace AND c.relkind = 'r' GROUP BY c.relname`,
    )
    const tenant = rows.filter(({ name }) => !SHARED.includes(name))
    expect(tenant.length).toBeGreaterThan(10)
    for (const { name, columns } of tenant) expect(columns.slice(0, 2), name).toEqual(["account_id", "livemode"])
  })

  it("carries account_id in every foreign key between tenant tables", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT conname AS name FROM pg_constraint f
        WHERE contype = 'f' AND connamespace = 'public'::regnamespace
          AND confrelid::regclass::text NOT IN ('account', 'ledger_account')
          AND NOT EXISTS (SELECT 1 FROM pg_attribute a WHERE a.attrelid = f.conrelid AND a.attname = 'account_id' AND a.attnum = f.conkey[1])`,
    )
    expect(names(rows)).toEqual([])
  })

  it("has the account and the environment in every unique key of a tenant table", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT i.indexrelid::regclass::text AS name FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid
        WHERE i.indisunique AND c.relnamespace = 'public'::regnamespace
          AND NOT c.relname = ANY(${SHARED}::text[]) AND i.indexrelid::regclass::text <> 'api_key_hash_unique'
          AND (SELECT count(*) FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attname IN ('account_id', 'livemode') AND a.attnum = ANY(i.indkey)) < 2`,
    )
    expect(names(rows)).toEqual([])
  })

  it("says what every table is", async () => {
    const rows = await database.run(
      (sql) => sql<Found>`
        SELECT relname AS name FROM pg_class
        WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_migration' AND obj_description(oid, 'pg_class') IS NULL`,
    )
    expect(names(rows)).toEqual([])
  })
})
