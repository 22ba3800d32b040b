/** Reads a whole database, as a reader of a stolen dump would. */
import { Effect } from "effect"
import type { TestDatabase } from "./database.ts"

/** Every row of every table, as `pg_dump` would have it. Bytes are in hexadecimal. */
export const dump = (database: TestDatabase) =>
  database.run((sql) =>
    Effect.gen(function* () {
      const tables = yield* sql<{ name: string }>`
        SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`
      const rows = yield* Effect.forEach(tables, ({ name }) =>
        sql.unsafe<{ row: string }>(`SELECT '${name} ' || t::text AS row FROM ${name} t`),
      )
      return rows.flat().map(({ row }) => row)
    }),
  )

/** The possible encodings of bytes or a text. */
export const spellings = (secret: string | Uint8Array): ReadonlyArray<string> => {
  const bytes = Buffer.from(secret as string)
  const written = [bytes.toString("hex"), bytes.toString("base64"), bytes.toString("base64url")]
  return typeof secret === "string" ? [...written, secret] : written
}
