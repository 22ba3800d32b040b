/** Everything that has to hold, in the order of how fast it tells: format and lint, imports, types, then the tests. */
import { spawnSync } from "node:child_process"
import { join } from "node:path"

const ROOT = join(import.meta.dirname, "..")
const module = (path: string): string => join(ROOT, "node_modules", path)

const STEPS: ReadonlyArray<readonly [string, ReadonlyArray<string>]> = [
  ["Format and lint", [module("@biomejs/biome/bin/biome"), "check", "--error-on-warnings", "."]],
  ["Import directions", [join(ROOT, "scripts/imports.ts")]],
  ["Types", [module("typescript/bin/tsc"), "--noEmit"]],
  ["Tests", [module("vitest/vitest.mjs"), "run", ...process.argv.slice(2)]],
]

for (const [name, args] of STEPS) {
  process.stdout.write(`\n${name}\n`)
  const { status } = spawnSync(process.execPath, ["--disable-warning=ExperimentalWarning", ...args], {
    cwd: ROOT,
    stdio: "inherit",
  })
  if (status !== 0) {
    process.stderr.write(`\n${name}: failed.\n`)
    process.exit(status ?? 1)
  }
}
