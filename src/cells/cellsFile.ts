/** The file that says what cells there are, for commands that look at all of them and for the proxy (docs/scaling.md). */
import { readFileSync } from "node:fs"
import { Effect, Redacted, Schema } from "effect"
import { isCell } from "../cell.ts"
import { CellsApart } from "./CellsApart.ts"

const Entry = Schema.Struct({
  cell: Schema.String.check(Schema.makeFilter(isCell)),
  database: Schema.String,
  servers: Schema.Array(Schema.String.check(Schema.isPattern(/^[\w.[\]:-]+:\d{1,5}$/))).check(Schema.isMinLength(1)),
})

const File = Schema.fromJsonString(Schema.Array(Entry).check(Schema.isMinLength(1)))

export interface CellEntry {
  readonly cell: string
  /** The address of its database. */
  readonly database: Redacted.Redacted<string>
  /** Where its processes listen, `HOST:PORT`. */
  readonly servers: ReadonlyArray<string>
}

const EXAMPLE = '[{"cell": "00", "database": "postgres://…", "servers": ["10.0.0.1:3000"]}, …]'

const isDatabase = (text: string): boolean => URL.canParse(text) && /^postgres(ql)?:$/.test(new URL(text).protocol)

/** Reads it; fails with one line that says what is wrong, and nothing of what is in it: there are passwords. */
export const readCellsFile = Effect.fnUntraced(function* (path: string) {
  const text = yield* Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: () => new CellsApart({ message: `--cells: ${path} cannot be read.` }),
  })
  const wrong = new CellsApart({ message: `--cells: ${path} must look like ${EXAMPLE}.` })
  const entries = yield* Effect.mapError(Schema.decodeEffect(File)(text), () => wrong)
  if (entries.some(({ database }) => !isDatabase(database))) return yield* wrong
  const names = entries.map(({ cell }) => cell)
  const twice = names.find((name, at) => names.indexOf(name) !== at)
  if (twice !== undefined) return yield* new CellsApart({ message: `--cells: ${path} has the cell ${twice} twice.` })
  return entries.map(
    ({ cell, database, servers }): CellEntry => ({
      cell,
      database: Redacted.make(database),
      servers,
    }),
  )
})
