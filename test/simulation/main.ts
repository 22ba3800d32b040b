/** `npm run simulate:rails -- --schedules 20000 [--seed N] [--only NUMBER]`: many schedules, and what there was in them. */
import { parseArgs } from "node:util"
import { startPostgres } from "../support/postgres.ts"
import { simulate } from "./simulate.ts"

const { values } = parseArgs({
  args: process.argv.slice(2).filter((arg) => arg !== "--"),
  options: {
    schedules: { type: "string" },
    seed: { type: "string" },
    from: { type: "string" },
    only: { type: "string" },
  },
})
const seed = Number(values.seed ?? Date.now() % 2 ** 31)
const only = values.only === undefined ? undefined : Number(values.only)
const from = only ?? Number(values.from ?? 0)
const to = only === undefined ? from + Number(values.schedules ?? 1000) : only + 1

const { url, end } = await startPostgres()
process.once("exit", end)
const began = performance.now()
let done = 0
const { summary, failures } = await simulate(url, { seed, from, to }, (outcome) => {
  done += outcome.summary.schedules
  process.stderr.write(`${done} schedules, ${Math.round((performance.now() - began) / 1000)} s\n`)
})
for (const { text } of failures) process.stdout.write(`${text}\n\n`)
console.log(JSON.stringify(summary, null, 1))
const s = (performance.now() - began) / 1000
console.log(
  `seed ${seed}: ${s.toFixed(1)} s, ${(summary.schedules / s).toFixed(1)} schedules/s, ${failures.length} failures`,
)
process.exit(failures.length === 0 ? 0 : 1)
