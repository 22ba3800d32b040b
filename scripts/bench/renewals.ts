/**
 * Measures renewals per second, end to end: many subscriptions fall due together, among many that are not due. Compares with the same writes
 * in plain SQL: row at a time on 16 connections, and set-based on 2.
 *
 *   npm run bench:renewals -- --due 50000 --standing 200000
 */
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import { renewAll } from "./engine.ts"
import { type Instance, median, rate, seconds, sizes, startInstance } from "./instance.ts"
import { rowAtATime, setBased } from "./renewals-reference.ts"
import { seed, seedPast } from "./renewals-seed.ts"

/**
 * `--references 0` skips the references, to compare the engine with itself at other sizes. `--past` is the number of old paid charges, with
 * three journal rows and two events each.
 */
const { due, standing, past, rounds, references } = sizes({
  due: 50_000,
  standing: 200_000,
  past: 0,
  rounds: 3,
  references: 1,
})

/** Counts the new renewals; the seeded ones are older. */
const renewed = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{
    n: number
  }>`SELECT count(*) AS n FROM event WHERE type = 'subscription.renewed' AND recorded_at > now() - interval '1 hour'`
  return row!.n
})

/** Runs `work` on a copy of the seeded database; returns milliseconds. */
const timed = async (
  instance: Instance,
  name: string,
  work: (url: Redacted.Redacted<string>) => Promise<unknown>,
): Promise<number> => {
  const url = await instance.database(name, "seeded")
  await Effect.runPromise(
    Effect.provide(
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CHECKPOINT`.unprepared),
      poolLayer(url, 1),
    ),
  )
  const before = performance.now()
  await work(url)
  const ms = performance.now() - before
  const count = await Effect.runPromise(Effect.provide(renewed, poolLayer(url, 1)))
  if (count !== due) throw new Error(`${name}: ${count} of ${due} renewals`)
  await instance.drop(name)
  return ms
}

const instance = await startInstance()
const seeded = await instance.database("seeded")
await Effect.runPromise(
  Effect.provide(Effect.andThen(seed(due, standing), seedPast(past, due + standing)), poolLayer(seeded, 1)),
)
console.log(`${due} due among ${standing} standing by, ${past} charges of the past`)

/** Milliseconds of the engine, and of the set-based reference right after it: a machine's speed changes over time. */
const pairs: Array<{ readonly own: number; readonly sets: number }> = []
for (let round = 0; round < rounds; round++) {
  let engineMs = 0
  await timed(instance, `engine_${round}`, async (url) => {
    engineMs = await renewAll(url)
  })
  const sets = references === 0 ? 0 : await timed(instance, `sets_${round}`, (url) => setBased(url, 2))
  pairs.push({ own: engineMs, sets })
}
const line = (name: string, ms: number, times = "") =>
  console.log(`${name.padEnd(29)} ${seconds(ms)}  ${rate(due, ms)} renewals/s  ${times}`)
const own = median(pairs.map(({ own }) => own))
const timesOf = (ratio: number): string => `engine is ${ratio.toFixed(2)} times as fast`
line("engine", own)
if (references > 0) {
  const ratio = median(pairs.map(({ own, sets }) => sets / own))
  line("set-based, 2 connections", median(pairs.map(({ sets }) => sets)), timesOf(ratio))
  const rows = await timed(instance, "rows", (url) => rowAtATime(url, 16))
  line("row at a time, 16 connections", rows, timesOf(rows / own))
}
instance.stop()
process.exit(0)
