/** A private instance for a benchmark, with its own Postgres, removed afterwards. */
import { parseArgs } from "node:util"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { migrate } from "../../src/postgres/migrate.ts"
import { startTemporaryPostgres } from "../postgres.ts"

export interface Instance {
  /** Creates a database with this name; a copy of `template` if given. */
  readonly database: (name: string, template?: string) => Promise<Redacted.Redacted<string>>
  readonly drop: (name: string) => Promise<void>
  readonly stop: () => void
}

const run = <A, E>(url: Redacted.Redacted<string>, program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))

export const startInstance = async (): Promise<Instance> => {
  const { url: serverUrl, end } = await startTemporaryPostgres("bench")
  const admin = onDatabase(serverUrl, "postgres")
  const statement = (text: string) =>
    run(
      admin,
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text).unprepared),
    )
  process.once("exit", end)
  // A process that is ended by a signal emits no `exit`.
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => process.exit(1))
  return {
    database: async (name, template) => {
      await statement(`CREATE DATABASE ${name}${template === undefined ? "" : ` TEMPLATE ${template}`}`)
      const url = onDatabase(serverUrl, name)
      if (template === undefined) await run(url, migrate)
      return url
    },
    drop: async (name) => void (await statement(`DROP DATABASE ${name} WITH (FORCE)`)),
    stop: end,
  }
}

/** Reads whole numbers from the command line, such as `--due 50000`, and words if a benchmark takes any: `--only locks`. */
export const sizes = <const D extends Readonly<Record<string, number>>, const W extends string = never>(
  defaults: D,
  words: ReadonlyArray<W> = [],
): { readonly [K in keyof D]: number } & { readonly [K in W]?: string } => {
  const names = [...Object.keys(defaults), ...words]
  const options = Object.fromEntries(names.map((name) => [name, { type: "string" as const }]))
  const { values } = parseArgs({ args: process.argv.slice(2).filter((arg) => arg !== "--"), options })
  const numbers = Object.entries(defaults).map(([name, value]) => {
    const given = values[name]
    if (given !== undefined && !/^\d{1,9}$/.test(String(given))) throw new Error(`--${name} must be a whole number.`)
    return [name, given === undefined ? value : Number(given)]
  })
  return { ...values, ...Object.fromEntries(numbers) }
}

export const seconds = (ms: number): string => `${(ms / 1000).toFixed(2)} s`
export const rate = (count: number, ms: number): number => Math.round((count / ms) * 1000)
export const median = (values: ReadonlyArray<number>): number =>
  [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!
