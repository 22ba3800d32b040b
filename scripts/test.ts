/** Everything that has to hold, in the order of how fast it tells: format and lint, imports, types, then the tests. */
import { spawnSync } from "node:child_process"
import { join } from "node:path"
import { CHROMIUM_MISSING, findChromium } from "./chromium.ts"

const ROOT = join(import.meta.dirname, "..")
const module = (path: string): string => join(ROOT, "node_modules", path)
const vitest = (...args: ReadonlyArray<string>) => [module("vitest/vitest.mjs"), "run", ...args]

const named = process.argv.slice(2)

const STEPS: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["Format and lint", [module("@biomejs/biome/bin/biome"), "check", "--error-on-warnings", "."]],
  ["Import directions", [join(ROOT, "scripts/imports.ts")]],
  ["Types", [module("typescript/bin/tsc"), "--noEmit"]],
  ["Tests", vitest(...named)],
]

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

/** Whether the tests in a browser must run: where nobody looks at what was left out. */
const browserRequired = (): boolean => process.env.BROWSER_TESTS === "required" || (process.env.CI ?? "") !== ""

for (const step of STEPS) run(step)
// Who names tests means those.
if (named.length === 0) {
  run(SIMULATION)
  if (findChromium() !== undefined || browserRequired()) run(BROWSER_TESTS)
  else process.stdout.write(`\n${BROWSER_TESTS[0]}: left out. ${CHROMIUM_MISSING}\n`)
}
