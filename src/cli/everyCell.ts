/** `--cells FILE`: a command does what it does in every cell of the file, and shows all of it together. */
import { Context, Effect, Layer, Stream } from "effect"
import { Flag } from "effect/cli"
import type { SqlClient } from "effect/sql"
import { findAccount } from "../account/accounts.ts"
import { Cell } from "../cell.ts"
import { type CellEntry, readCellsFile } from "../cells/cellsFile.ts"
import { readIdentity } from "../cells/identity.ts"
import { poolLayer } from "../db/database.ts"
import { oneLine, Refused } from "./failures.ts"
import { Installation } from "./Installation.ts"
import { text } from "./parameters.ts"

export const cellsOption = text("cells", "FILE").pipe(Flag.withDefault(undefined))

/** Enough for what one command does at a time. */
const MAX_CONNECTIONS = 2

/** What a command works on, in a cell. */
type Surroundings = SqlClient.SqlClient | Installation

const openCell = Effect.fnUntraced(function* ({ cell, database }: CellEntry) {
  const refuse = (error: unknown) =>
    new Refused({ message: `--cells: the database of ${cell} cannot be used: ${oneLine((error as Error).message)}` })
  const pool = yield* Effect.mapError(Layer.build(poolLayer(database, MAX_CONNECTIONS)), refuse)
  const identity = yield* Effect.mapError(Effect.provideContext(readIdentity, pool), refuse)
  if (identity !== undefined && identity.id !== cell)
    return yield* new Refused({ message: `--cells: the database of ${cell} is the cell ${identity.id}.` })
  const { config } = yield* Installation
  return pool.pipe(
    Context.add(Cell, cell),
    Context.add(Installation, { config: { ...config, cell, databaseUrl: database }, url: database }),
  )
})

/** What each cell is worked on with, as long as the scope is open; of no file: this one alone. */
const open = Effect.fnUntraced(function* (path: string | undefined) {
  if (path === undefined) return [yield* Effect.context<Surroundings>()]
  const { config } = yield* Installation
  const cells: ReadonlyArray<Context.Context<Surroundings>> = yield* Effect.forEach(
    yield* readCellsFile(path, config.production),
    openCell,
  )
  return cells
})

/** Runs a program in each cell, one after the other; returns what each came to. */
export const inEveryCell = <A, E, R>(path: string | undefined, program: Effect.Effect<A, E, R>) =>
  Effect.scoped(
    Effect.flatMap(open(path), (cells) => Effect.forEach(cells, (cell) => Effect.provideContext(program, cell))),
  )

/** What is read in each cell, one after the other. */
export const fromEveryCell = <A, E, R>(path: string | undefined, stream: Stream.Stream<A, E, R>) =>
  Stream.unwrap(
    Effect.map(open(path), (cells) =>
      Stream.flatMap(Stream.fromIterable(cells), (cell) => Stream.provideContext(stream, cell)),
    ),
  )

/** An account in whichever cell it lives. */
export const findInEveryCell = (path: string | undefined, account: string) =>
  Effect.map(inEveryCell(path, findAccount(account)), (rows) => rows.find((row) => row !== undefined))
