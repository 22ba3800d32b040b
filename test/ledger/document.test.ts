/** Tests the demo's books: they match docs/ledger.md, and an independent program confirms their order. */
import { spawnSync } from "node:child_process"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import { Redacted } from "effect"
import { beforeAll, expect, it } from "vitest"
import { isRequired } from "../../scripts/debian.ts"
import { findHledger, HLEDGER_MISSING } from "../../scripts/hledger.ts"
import { ledgerDocument } from "../../scripts/ledgerDocument.ts"
import { useOwnInstance } from "../support/instance.ts"
import { runToEnd } from "../support/server.ts"
import { useWhole } from "../support/whole.ts"

const { database, server, keys, accountId } = useOwnInstance()
useWhole(database)

const PATH = join(import.meta.dirname, "../../docs/ledger.md")
let written = ""

beforeAll(async () => {
  const of = { origin: server().origin, key: keys().sk_test, account: accountId(), url: Redacted.value(database.url()) }
  written = await ledgerDocument(readFileSync(PATH, "utf8"), of)
})

it("match docs/ledger.md, which npm run docs:ledger writes", () => {
  expect(written).toBe(readFileSync(PATH, "utf8"))
})

/** If hledger is not installed and not required, this is skipped, as are browser tests without a browser. */
const hledger = findHledger()

it.runIf(hledger !== undefined || isRequired)("pass hledger's checks, and a planted error does not", async () => {
  if (hledger === undefined) throw new Error(HLEDGER_MISSING)
  const env = { DATABASE_URL: Redacted.value(database.url()) }
  const { output, code } = await runToEnd("src/cli.ts", ["ledger", "export", "--format", "hledger"], env)
  expect(code).toBe(0)
  const run = (journal: string, ...args: ReadonlyArray<string>) => {
    const { status, stdout, stderr } = spawnSync(hledger, ["-f", "-", ...args], { input: journal, encoding: "utf8" })
    return { status, stdout, stderr }
  }
  expect(run(output, "check", "--strict", "ordereddates")).toEqual({ status: 0, stdout: "", stderr: "" })
  // The same receivable as the cookbook's.
  expect(run(output, "balance", "--no-total", "--flat", "receivable").stdout).toContain("NGN 15000.00")
  const planted = output.replace(
    /NGN (\d+)\.(\d\d)\n/,
    (_, naira, kobo) => `NGN ${naira}.${kobo === "01" ? "02" : "01"}\n`,
  )
  expect(planted).not.toBe(output)
  const caught = run(planted, "check")
  expect(caught.status).not.toBe(0)
  expect(caught.stderr).toContain("could not balance this transaction")
})
