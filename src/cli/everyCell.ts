/**
 * `--cells FILE`: a command runs in every cell of the file, and shows all results together. It opens only the databases of these cells: the
 * machine that it runs on needs no installation.
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

/** Enough for one command. */
const MAX_CONNECTIONS = 2

const UNDEFINED_TABLE = "42P01"

/** The services of a command in a cell. */
type Surroundings = SqlClient.SqlClient | Installation

/** The cells that a command works on: those of a file, or this one alone. */
class Cells extends Context.Service<Cells, ReadonlyArray<Context.Context<Surroundings>>>()("billing/cli/Cells") {}

/** Reads the identity of a database; undefined if it has none, or is too old to have one. */
const readIdentityOfAny = readIdentity.pipe(
  Effect.catchIf(
    (error) => sqlStateOf(error) === UNDEFINED_TABLE,
    () => Effect.undefined,
  ),
)

/** Reads the cell of a database; fails if a command may not work on it. */
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
  const cellConfig = { ...config, cell, databaseUrl: database }
  return pool.pipe(
    Context.add(Cell, cell),
    Context.add(Installation, { config: cellConfig, url: database, keys: existingKeys(cellConfig) }),
  )
})

/** The cells of `--cells path`; without the option, this cell alone, opened by `own`. */
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

/** The cells, for commands that work on tables. */
export const migratedCells = (path: string | undefined) => cellsOf(path, migrated, readIdentity)

/** The cells, for commands that write to tables: this machine's clock must agree with each database's. */
export const writableCells = (path: string | undefined) =>
  cellsOf(path, writable, Effect.tap(readIdentity, requireAgreement))

/** The cells, for commands that use databases without changes, with or without tables. */
export const cellsAsTheyAre = (path: string | undefined) => cellsOf(path, connected, readIdentityOfAny)

/** Runs a program in each cell, one after the other; returns all results. */
export const inEveryCell = <A, E, R>(program: Effect.Effect<A, E, R>) =>
  Effect.flatMap(Cells, (cells) => Effect.forEach(cells, (cell) => Effect.provideContext(program, cell)))

/** Reads a stream in each cell, one after the other. */
export const fromEveryCell = <A, E, R>(stream: Stream.Stream<A, E, R>) =>
  Stream.unwrap(
    Effect.map(Cells, (cells) =>
      Stream.flatMap(Stream.fromIterable(cells), (cell) => Stream.provideContext(stream, cell)),
    ),
  )

/** Reads a stream of batches in each cell, whose items are in the order of `keyOf`, and merges them in that order. */
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

/** Finds an account in the cell where it lives. */
export const findInEveryCell = (account: string, find = findAccount) =>
  Effect.map(inEveryCell(find(account)), (rows) => rows.find((row) => row !== undefined))
