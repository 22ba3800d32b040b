/**
 * Writes the generated parts of docs/ledger.md: the chart of accounts, the posting rules with examples, and the result of every query in it, from
 * the books of the demo's story. The tables are between `<!-- name -->` and `<!-- /name -->`; the result of a query follows its block of SQL.
 *
 *   npm run docs:ledger            (`-- --check`: reports whether the document is up to date)
 */
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Redacted } from "effect"
import { ledgerDocument } from "./ledgerDocument.ts"
import { ownInstance } from "./ownInstance.ts"

const PATH = join(import.meta.dirname, "../docs/ledger.md")

const write = Effect.gen(function* () {
  const { url, origin, key, account } = yield* ownInstance("ledger-docs")
  const before = readFileSync(PATH, "utf8")
  const document = yield* Effect.promise(() =>
    ledgerDocument(before, { origin, key, account, url: Redacted.value(url) }),
  )
  if (!process.argv.includes("--check")) return writeFileSync(PATH, document)
  if (document === before) return
  process.stdout.write("docs/ledger.md is out of date: npm run docs:ledger\n")
  process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(write))
