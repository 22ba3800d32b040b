/**
 * `--cells FILE`: a command does what it does in every cell of the file, and shows all of it together. It opens their databases and no
 * other: where it runs there need be no installation.
 */
import { Context, Effect, Layer, Stream } from "effect"
import { Flag } from "effect/cli"
import type { SqlClient } from "effect/sql"
import { Cell } from "../base/cell.ts"
import { type CellEntry, readCellsFile } from "../cells/cellsFile.ts"
import { readIdentity } from "../cells/identity.ts"
import type { Config } from "../config/Config.ts"
import { readConfig } from "../config/readConfig.ts"
import { poolLayer } from "../db/database.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { sqlStateOf } from "../postgres/errors.ts"
import { type ClocksDisagree, requireAgreement } from "../process/DatabaseClock.ts"
import { existingKeys } from "../security/secret/encryptionKeys.ts"
import { Refused, unusableDatabase } from "./failures.ts"
import { connected, Installation, migrated, writable } from "./Installation.ts"
import { merged } from "./merging.ts"
import { text } from "./parameters.ts"

export const cellsOption = text("cells", "FILE").pipe(Flag.withDefault(undefined))

/** Enough for what one command does at a time. */
const MAX_CONNECTIONS = 2

const UNDEFINED_TABLE = "42P01"

/** What a command works on, in a cell. */
type Surroundings = SqlClient.SqlClient | Installation

/** The cells that a command works on: those of a file, or this one alone. */
class Cells extends Context.Service<Cells, ReadonlyArray<Context.Context<Surroundings>>>()("billing/cli/Cells") {}

/** What a database says that it is; undefined, too, where it is so old that it cannot. */
const readIdentityOfAny = readIdentity.pipe(
  Effect.catchIf(
    (error) => sqlStateOf(error) === UNDEFINED_TABLE,
    () => Effect.undefined,
  ),
)

/** Finds which cell a database is; fails where a command may not work on it. */
type Identify = Effect.Effect<
  Effect.Success<typeof readIdentity>,
  Effect.Error<typeof readIdentity> | ClocksDisagree,
  SqlClient.SqlClient
>

const openCell = Effect.fnUntraced(function* ({ cell, database }: CellEntry, config: Config, identify: Identify) {
  const refuse = unusableDatabase(`--cells: the database of ${cell}`)
  const pool = yield* Effect.mapError(Layer.build(poolLayer(database, MAX_CONNECTIONS)), refuse)
  const identity = yield* Effect.mapError(Effect.provideContext(identify, pool), refuse)
  if (identity !== undefined && identity.id !== cell)
    return yield* new Refused({ message: `--cells: the database of ${cell} is the cell ${identity.id}.` })
  const own = { ...config, cell, databaseUrl: database }
  return pool.pipe(
    Context.add(Cell, cell),
    Context.add(Installation, { config: own, url: database, keys: existingKeys(own) }),
  )
})

/** What is worked on with `--cells path`; without, this cell alone, opened by `own`. */
const cellsOf = (path: string | undefined, own: typeof connected | typeof writable, identify: Identify) =>
  Layer.effect(
    Cells,
    Effect.gen(function* () {
      if (path === undefined) return [yield* Layer.build(own)]
      const config = yield* readConfig(process.env, { development: false, elsewhere: true })
      const entries = yield* readCellsFile(path, config.production)
      const cells: ReadonlyArray<Context.Context<Surroundings>> = yield* Effect.forEach(entries, (entry) =>
        openCell(entry, config, identify),
      )
      return cells
    }),
  )

/** For commands that work on tables. */
export const migratedCells = (path: string | undefined) => cellsOf(path, migrated, readIdentity)

/** For commands that write to them: this machine's clock agrees with that of each. */
export const writableCells = (path: string | undefined) =>
  cellsOf(path, writable, Effect.tap(readIdentity, requireAgreement))

/** For commands that take databases as they are, whether they have any tables or not. */
export const cellsAsTheyAre = (path: string | undefined) => cellsOf(path, connected, readIdentityOfAny)

/** Runs a program in each cell, one after the other; returns what each came to. */
export const inEveryCell = <A, E, R>(program: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Cells, (cells) => Effect.forEach(cells, (cell) => Effect.provideContext(program, cell)))

/** What is read in each cell, one after the other. */
export const fromEveryCell = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Stream.unwrap(
    Effect.map(Cells, (cells) =>
      Stream.flatMap(Stream.fromIterable(cells), (cell) => Stream.provideContext(stream, cell)),
    ),
  )

/** What is read in each cell, in batches whose items are in the order of `keyOf`: all together in that order. */
export const inOrderFromEveryCell = <A, E, R>(
  stream: Stream.Stream<ReadonlyArray<A>, E, R>,
  keyOf: (item: A) => string,
) =>
  Stream.unwrap(
    Effect.map(Cells, (cells) =>
      merged(
        cells.map((cell) => Stream.provideContext(stream, cell)),
        keyOf,
      ),
    ),
  )

/** An account in whichever cell it lives. */
export const findInEveryCell = (account: string, find = findAccount) =>
  Effect.map(inEveryCell(find(account)), (rows) => rows.find((row) => row !== undefined))
