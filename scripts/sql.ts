/**
 * Opens psql as finance_reader on the installation's database, or prints the command where there is no psql here. Arguments go
 * on to it: `npm run sql -- -c "SELECT * FROM finance.invariants"`.
 */
import { spawnSync } from "node:child_process"
import { Effect, Redacted } from "effect"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { migrate } from "../src/db/migrate.ts"

const COMMAND = `PGOPTIONS='-c role=finance_reader' psql "$(npm run --silent cli -- db url)"`
/** Nobody's query holds up the service for longer. */
const LIMIT = "60s"

const open = (url: URL): number | null => {
  const env = {
    ...process.env,
    PGHOST: url.hostname,
    PGPORT: url.port || "5432",
    PGUSER: decodeURIComponent(url.username),
    PGPASSWORD: decodeURIComponent(url.password),
    PGDATABASE: url.pathname.slice(1),
    ...(url.searchParams.has("sslmode") ? { PGSSLMODE: url.searchParams.get("sslmode")! } : {}),
    PGOPTIONS: `-c role=finance_reader -c default_transaction_read_only=on -c statement_timeout=${LIMIT} -c search_path=finance -c timezone=UTC`,
  }
  const { status, error } = spawnSync("psql", process.argv.slice(2), { stdio: "inherit", env })
  return error === undefined ? status : null
}

const program = Effect.gen(function* () {
  const url = yield* databaseUrl(yield* readConfig(process.env, { development: false }))
  // The role comes with the migrations.
  yield* Effect.provide(migrate, poolLayer(url, 1))
  const status = open(new URL(Redacted.value(url)))
  if (status === null) process.stdout.write(`There is no psql here. Where there is one:\n\n  ${COMMAND}\n`)
  return status ?? 0
}).pipe(Effect.scoped)

process.exit(await Effect.runPromise(program))
