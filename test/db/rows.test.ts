/** Tests rows as parameters: they round-trip unchanged, singly and in batches. */
import { Effect } from "effect"
import fc from "fast-check"
import { expect, it } from "vitest"
import { type ColumnTypes, rowsAsTable } from "../../src/db/rows.ts"
import { useDatabase } from "../support/database.ts"

const database = useDatabase()

const COLUMNS = {
  word: "text",
  flag: "boolean",
  small: "smallint",
  whole: "integer",
  large: "bigint",
  at: "timestamptz",
  document: "jsonb",
  day: "date",
  words: "text[]",
} as const satisfies ColumnTypes

const or = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: null })
/** Postgres stores no NUL, and UTF-8 has no lone surrogates. */
const text = fc.string({ unit: "grapheme", maxLength: 20 }).map((word) => word.replaceAll("\0", ""))

const ROW = fc.record({
  word: or(text),
  flag: or(fc.boolean()),
  small: or(fc.integer({ min: -(2 ** 15), max: 2 ** 15 - 1 })),
  whole: or(fc.integer({ min: -(2 ** 31), max: 2 ** 31 - 1 })),
  large: or(fc.integer({ min: Number.MIN_SAFE_INTEGER, max: Number.MAX_SAFE_INTEGER })),
  at: or(fc.integer({ min: Date.UTC(1800, 0, 1), max: Date.UTC(9000, 0, 1) })),
  document: or(fc.record({ key: text, list: fc.array(fc.integer(), { maxLength: 3 }) })),
  day: or(
    fc
      .date({ min: new Date("1000-01-01"), max: new Date("9000-01-01"), noInvalidDate: true })
      .map((day) => day.toISOString().slice(0, 10)),
  ),
  words: or(fc.array(text, { maxLength: 3 })),
})

it("round-trip unchanged", async () => {
  const read = (rows: ReadonlyArray<object>) =>
    database.run(
      (sql) => sql`
        SELECT word, flag, small, whole, large, at, document, day::text AS day, words, pg_typeof(document)::text || pg_typeof(day) || pg_typeof(words) AS types
        FROM ${rowsAsTable(rows, COLUMNS)} r`,
    )
  await fc.assert(
    fc.asyncProperty(fc.array(ROW, { minLength: 1, maxLength: 3 }), async (rows) => {
      expect(await read(rows)).toEqual(rows.map((row) => ({ ...row, types: "jsonbdatetext[]" })))
    }),
    { numRuns: 100 },
  )
})

it("are found by their cells, singly and in batches", async () => {
  const found = (ids: ReadonlyArray<string>) =>
    database.run((sql) =>
      Effect.map(
        sql<{ id: string }>`
          SELECT t.id FROM ${rowsAsTable(
            ids.map((id) => ({ id, at: 1_000 })),
            { id: "text", at: "timestamptz" },
          )} r
          JOIN (VALUES ('a', to_timestamp(1)), ('b', to_timestamp(1))) t (id, at) ON (t.id, t.at) = (r.id, r.at) ORDER BY 1`,
        (rows) => rows.map(({ id }) => id),
      ),
    )
  expect(await found(["a"])).toEqual(["a"])
  expect(await found(["b", "a", "c"])).toEqual(["a", "b"])
})
