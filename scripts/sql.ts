/**
 * Opens psql as finance_reader on the installation's database, or prints the command where there is no psql here. Arguments go
 * on to it: `npm run sql -- -c "SELECT * FROM finance.invariants"`.
 */
import { spawnSync } from "node:child_process"
import { Effect, Redacted } from "effect"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { migrate } from "../src/postgres/migrate.ts"

const COMMAND = `PGOPTIONS='-c role=finance_reader' psql "$(npm run --silent cli -- db url | sed 's/^url: //')"`
/** Nobody's query holds up the service for longer. */
const LIMIT = "60s"

/** Where an address leads, as the service reads it: the last parameter of a name replaces what stands before the parameters. */
const placeOf = ({ hostname, port, username, password, pathname, searchParams }: URL) => {
  const of = (name: string, written: string): string => searchParams.getAll(name).at(-1) ?? decodeURIComponent(written)
  const sslmode = of("sslmode", "")
  return {
    PGHOST: of("host", hostname.replace(/^\[(.*)\]$/, "$1")),
    PGPORT: of("port", port || "5432"),
    PGUSER: of("user", username),
    PGPASSWORD: of("password", password),
    PGDATABASE: of("dbname", pathname.slice(1)),
    ...(sslmode === "" ? {} : { PGSSLMODE: sslmode }),
  }
}

const open = (url: URL): number | null => {
  const env = {
    ...process.env,
    ...placeOf(url),
    PGOPTIONS: `-c role=finance_reader -c default_transaction_read_only=on -c statement_timeout=${LIMIT} -c search_path=finance -c timezone=UTC`,
  }
  // A terminal's interrupt comes to all: psql cancels what it asks, and goes on.
  process.on("SIGINT", () => {})
  const { status, error } = spawnSync("psql", process.argv.slice(2), { stdio: "inherit", env })
  return error === undefined ? status : null
}

const program = Effect.gen(function* () {
  const url = yield* databaseUrl(yield* readConfig(process.env, { development: false }))
  // The role comes with the migrations.
  yield* Effect.provide(migrate, poolLayer(url, 1))
  const status = open(new URL(Redacted.value(url)))
  if (status === null) process.stderr.write(`There is no psql here. Where there is one:\n\n  ${COMMAND}\n`)
  return status ?? 1
}).pipe(Effect.scoped)

process.exit(await Effect.runPromise(program))
