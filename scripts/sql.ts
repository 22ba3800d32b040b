/**
 * Opens psql as finance_reader on the installation's database, or prints the command if psql is not installed. Arguments are passed on to
 * psql: `npm run sql -- -c "SELECT * FROM finance.invariants"`.
 */
import { spawnSync } from "node:child_process"
import { Effect, Redacted } from "effect"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { migrate } from "../src/postgres/migrate.ts"

const COMMAND = `PGOPTIONS='-c role=finance_reader' psql "$(npm run --silent cli -- db url | sed 's/^url: //')"`
/** A longer query would delay the service. */
const LIMIT = "60s"

/** Parses an address like the service does: the last parameter of a name overrides the part before the parameters. */
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
  // A terminal's interrupt reaches all processes: psql cancels its query and continues.
  process.on("SIGINT", () => {})
  const { status, error } = spawnSync("psql", process.argv.slice(2), { stdio: "inherit", env })
  return error === undefined ? status : null
}

const program = Effect.gen(function* () {
  const url = yield* databaseUrl(yield* readConfig(process.env, { development: false }))
  // The migrations create the role.
  yield* Effect.provide(migrate, poolLayer(url, 1))
  const status = open(new URL(Redacted.value(url)))
  if (status === null) process.stderr.write(`psql is not installed here. On a machine with psql:\n\n  ${COMMAND}\n`)
  return status ?? 1
}).pipe(Effect.scoped)

process.exit(await Effect.runPromise(program))
