/**
 * Prints the slowest tests and files of a test run, as two tables for docs/tests.md:
 *
 *   npx vitest run --reporter=json --outputFile=report.json; node scripts/run.mjs scripts/slowest.ts report.json
 */
import { readFileSync } from "node:fs"
import { relative } from "node:path"

const TESTS = 20
const FILES = 10

interface Report {
  readonly numTotalTests: number
  readonly numPassedTests: number
  readonly testResults: ReadonlyArray<{
    readonly name: string
    readonly startTime: number
    readonly endTime: number
    readonly assertionResults: ReadonlyArray<{ readonly fullName: string; readonly duration?: number | null }>
  }>
}

const [path] = process.argv.slice(2)
if (path === undefined) {
  process.stderr.write("Usage: scripts/slowest.ts report.json\n")
  process.exit(2)
}

const { numTotalTests, numPassedTests, testResults } = JSON.parse(readFileSync(path, "utf8")) as Report
const root = `${import.meta.dirname}/..`
const files = testResults.map(({ name, startTime, endTime, assertionResults }) => ({
  file: relative(root, name).replace(/^.*?test\//, ""),
  ms: endTime - startTime,
  startTime,
  endTime,
  tests: assertionResults,
}))
const tests = files.flatMap(({ file, tests }) =>
  tests.map(({ fullName, duration }) => ({ file, name: fullName, ms: duration ?? 0 })),
)
const whole = Math.max(...files.map(({ endTime }) => endTime)) - Math.min(...files.map(({ startTime }) => startTime))

const seconds = (ms: number): string => (ms / 1000).toFixed(1)
const cell = (text: string): string => text.replaceAll("|", "\\|")
const slowest = <T extends { readonly ms: number }>(items: ReadonlyArray<T>, count: number) =>
  items.toSorted((a, b) => b.ms - a.ms).slice(0, count)

const lines = [
  `${numPassedTests} of ${numTotalTests} tests of ${files.length} files passed, in ${seconds(whole)} s.`,
  "",
  "| s | test | file |",
  "| ---: | --- | --- |",
  ...slowest(tests, TESTS).map(({ ms, name, file }) => `| ${seconds(ms)} | ${cell(name)} | ${file} |`),
  "",
  "| s | file | tests |",
  "| ---: | --- | ---: |",
  ...slowest(files, FILES).map(({ ms, file, tests }) => `| ${seconds(ms)} | ${file} | ${tests.length} |`),
]
process.stdout.write(`${lines.join("\n")}\n`)
