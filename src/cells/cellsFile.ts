/** Reads the file that lists all cells. The proxy and the commands over all cells use it (docs/scaling.md). */
import { readFileSync } from "node:fs"
import { Effect, Redacted, Schema } from "effect"
import { isCell } from "../base/cell.ts"
import { isDatabaseUrl, requireTls } from "../config/database.ts"
import { portFits } from "../config/settings.ts"
import { CellProblem } from "./CellProblem.ts"

const Entry = Schema.Struct({
  cell: Schema.String.check(Schema.makeFilter(isCell)),
  database: Schema.String,
  servers: Schema.Array(
    Schema.String.check(Schema.isPattern(/^[\w.[\]:-]+:\d{1,5}$/), Schema.makeFilter(portFits)),
  ).check(Schema.isMinLength(1)),
})

const File = Schema.fromJsonString(Schema.Array(Entry).check(Schema.isMinLength(1)))

export interface CellEntry {
  readonly cell: string
  /** The URL of its database. */
  readonly database: Redacted.Redacted<string>
  /** The addresses of its processes, `HOST:PORT`. */
  readonly servers: ReadonlyArray<string>
}

const EXAMPLE = '[{"cell": "00", "database": "postgres://…", "servers": ["10.0.0.1:3000"]}, …]'

/**
 * Reads and validates the file. An error is one line that quotes nothing of the content, which has passwords. `production` applies the
 * same rules to its database URLs as to DATABASE_URL.
 */
export const readCellsFile = Effect.fnUntraced(function* (path: string, production: boolean) {
  const text = yield* Effect.try({
    try: () => readFileSync(path, "utf8"),
    catch: () => new CellProblem({ message: `--cells: ${path} cannot be read.` }),
  })
  const malformed = new CellProblem({ message: `--cells: ${path} must look like ${EXAMPLE}.` })
  const entries = yield* Effect.mapError(Schema.decodeEffect(File)(text), () => malformed)
  if (entries.some(({ database }) => !isDatabaseUrl(database))) return yield* malformed
  const names = entries.map(({ cell }) => cell)
  const duplicate = names.find((name, at) => names.indexOf(name) !== at)
  if (duplicate !== undefined)
    return yield* new CellProblem({ message: `--cells: ${path} has the cell ${duplicate} twice.` })
  for (const { cell, database } of entries)
    yield* requireTls(`--cells: in ${path} the database of ${cell}`, database, production)
  return entries.map(
    ({ cell, database, servers }): CellEntry => ({
      cell,
      database: Redacted.make(database),
      servers,
    }),
  )
})
