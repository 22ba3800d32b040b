/**
 * `npm run simulate:rails -- --schedules 20000 [--seed N] [--from NUMBER]`: runs many schedules and prints a summary.
 * `--only NUMBER` runs one.
 */
import { parseArgs } from "node:util"
import { startPostgres } from "../support/postgres.ts"
import { type Outcome, type Part, type Summary, simulate } from "./simulate.ts"

const NAMES = ["schedules", "seed", "from", "only"] as const

const readPart = (): Part => {
  const { values } = parseArgs({
    args: process.argv.slice(2).filter((arg) => arg !== "--"),
    options: Object.fromEntries(NAMES.map((name) => [name, { type: "string" as const }])),
  })
  const numberOf = (name: (typeof NAMES)[number], otherwise: number): number => {
    const given = values[name]
    if (given !== undefined && !/^\d{1,10}$/.test(String(given))) throw new Error(`--${name} must be a whole number.`)
    return given === undefined ? otherwise : Number(given)
  }
  const only = numberOf("only", -1)
  const from = only === -1 ? numberOf("from", 0) : only
  return {
    seed: numberOf("seed", Date.now() % 2 ** 31),
    from,
    to: from + (only === -1 ? numberOf("schedules", 1_000) : 1),
  }
}

const table = (title: string, counts: Readonly<Record<string, number>>): string =>
  [
    `${title}:`,
    ...Object.entries(counts)
      .toSorted(([, a], [, b]) => b - a)
      .map(([name, n]) => `  ${String(n).padStart(8)}  ${name}`),
  ].join("\n")

const inWords = ({ calls, faults, exceptions, steps, ...counts }: Summary): string =>
  [
    table("All", { ...counts }),
    table("Calls", calls),
    table("Faults", faults),
    table("Exceptions", exceptions),
    table("Steps", steps),
  ].join("\n")

const part = readPart()
const began = performance.now()
const seconds = (): number => (performance.now() - began) / 1000
process.stdout.write(`seed ${part.seed}, schedules ${part.from} to ${part.to - 1}\n`)
const { url, end } = await startPostgres()
process.once("exit", end)
let done = 0
let longest = 0
let before = seconds()
let isEnough = false
// An interrupted run prints its summary too.
for (const signal of ["SIGINT", "SIGTERM"] as const)
  process.on(signal, () => {
    isEnough = true
  })
const goesOn = ({ summary }: Outcome): boolean => {
  done += summary.schedules
  longest = Math.max(longest, seconds() - before)
  before = seconds()
  process.stderr.write(`${done} schedules in ${Math.round(before)} s\n`)
  return !isEnough
}
const { summary, failures } = await simulate(url, part, goesOn)
for (const { text } of failures) process.stdout.write(`${text}\n\n`)
process.stdout.write(`${inWords(summary)}
seed ${part.seed}: ${done} schedules in ${seconds().toFixed(0)} s, ${(done / seconds()).toFixed(1)} a second, the longest instance ${longest.toFixed(0)} s; ${failures.length} failures\n`)
process.exit(failures.length === 0 ? 0 : 1)
