/** Runs all checks, fastest first: format and lint, imports, types, then the tests. */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { CHROMIUM_MISSING, findChromium } from "./chromium.ts"
import { isRequired } from "./debian.ts"
import { FAKETIME_MISSING, findFaketime } from "./faketime.ts"
import { findHaproxy, HAPROXY_MISSING } from "./haproxy.ts"
import { findHledger, HLEDGER_MISSING } from "./hledger.ts"

const ROOT = join(import.meta.dirname, "..")
const module = (path: string): string => join(ROOT, "node_modules", path)
const vitest = (...args: ReadonlyArray<string>) => [module("vitest/vitest.mjs"), "run", ...args]

const named = process.argv.slice(2)

const STEPS: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["Format and lint", [module("@biomejs/biome/bin/biome"), "check", "--error-on-warnings", "."]],
  ["Import directions", [join(ROOT, "scripts/imports.ts")]],
  ["Types", [module("typescript/bin/tsc"), "--noEmit"]],
]

const TESTS = ["Tests", vitest(...named)] as const
const SIMULATION = ["Simulation", vitest("--config", join(ROOT, "vitest.simulation.config.ts"))] as const
const BROWSER_TESTS = ["Tests in a browser", vitest("--config", join(ROOT, "vitest.browser.config.ts"))] as const

const run = ([name, args]: (typeof STEPS)[number]): void => {
  process.stdout.write(`\n${name}\n`)
  const { status } = spawnSync(process.execPath, ["--disable-warning=ExperimentalWarning", ...args], {
    cwd: ROOT,
    stdio: "inherit",
  })
  if (status === 0) return
  process.stderr.write(`\n${name}: failed.\n`)
  process.exit(status ?? 1)
}

/** Whether to run tests that need a program: it exists, or they must run anyway. Reports skipped tests before others run. */
const runs = (tests: string, program: string | undefined, required: boolean, missing: string): boolean => {
  if (program !== undefined || required) return true
  process.stdout.write(`\n${tests}: left out. ${missing}\n`)
  return false
}

for (const step of STEPS) run(step)
// With named tests, only those run.
if (named.length > 0) run(TESTS)
else {
  runs("Requests through a proxy", findHaproxy(), isRequired, HAPROXY_MISSING)
  runs("Checks of exported books", findHledger(), isRequired, HLEDGER_MISSING)
  runs("Processes with a wrong clock", findFaketime(), isRequired, FAKETIME_MISSING)
  run(TESTS)
  const browserRequired = isRequired || process.env.BROWSER_TESTS === "required"
  const inBrowser = runs(BROWSER_TESTS[0], findChromium(), browserRequired, CHROMIUM_MISSING)
  // The last output should be the summary of a run.
  run(SIMULATION)
  if (inBrowser) run(BROWSER_TESTS)
}
