/**
 * Writes what docs/ledger.md says by example: the chart of accounts, the posting rules with an example each, and the answer to
 * every query that stands in it, from the books of the demo's story. Between `<!-- name -->` and `<!-- /name -->` stand the
 * tables; after a block of SQL, the block with its answer.
 *
 *   npm run docs:ledger            (`-- --check`: says whether the document is as it would be written)
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import { Effect, Redacted } from "effect"
import { createAccount } from "../src/account/accounts.ts"
import { readConfig } from "../src/config/readConfig.ts"
import { databaseUrl, poolLayer } from "../src/db/database.ts"
import { migrate } from "../src/db/migrate.ts"
import { temporaryDataDir } from "./dataDir.ts"
import { ledgerDocument } from "./ledgerDocument.ts"
import { startServer } from "./server.ts"

const PATH = join(import.meta.dirname, "../docs/ledger.md")
const dataDir = temporaryDataDir("ledger-docs")
const { DATABASE_URL: _, ...env } = process.env

const document = await Effect.runPromise(
  Effect.gen(function* () {
    const url = yield* databaseUrl(yield* readConfig({ ...env, DATA_DIR: dataDir.path }, { development: true }))
    const pool = poolLayer(url, 2)
    yield* Effect.provide(migrate, pool)
    const { account, keys } = yield* Effect.provide(createAccount({ businessName: "Fit Lagos" }), pool)
    const server = yield* Effect.promise(() => startServer({ DATA_DIR: dataDir.path }))
    const of = { origin: server.origin, key: keys.sk_test, account: account.id, url: Redacted.value(url) }
    const written = yield* Effect.promise(() => ledgerDocument(readFileSync(PATH, "utf8"), of))
    yield* Effect.promise(server.stop)
    return written
  }).pipe(Effect.scoped),
)
dataDir.remove()

const isSame = document === readFileSync(PATH, "utf8")
if (!process.argv.includes("--check")) writeFileSync(PATH, document)
else if (!isSame) process.stdout.write("docs/ledger.md is not as it would be written: npm run docs:ledger\n")
process.exit(isSame || !process.argv.includes("--check") ? 0 : 1)
