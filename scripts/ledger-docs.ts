/**
 * Writes what docs/ledger.md says by example: the chart of accounts, the posting rules with an example each, and the answer to
 * every query that stands in it, from the books of the demo's story. Between `<!-- name -->` and `<!-- /name -->` stand the
 * tables; after a block of SQL, the block with its answer.
 *
 *   npm run docs:ledger            (`-- --check`: says whether the document is as it would be written)
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
  process.stdout.write("docs/ledger.md is not as it would be written: npm run docs:ledger\n")
  process.exitCode = 1
})

NodeRuntime.runMain(Effect.scoped(write))
