/**
 * Renewals per second, end to end: many subscriptions fall due at once among many standing by. Against the same writes
 * by hand: row at a time on 16 connections, and set-based on 2.
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
 * `--references 0` leaves the references out: to compare the engine with itself at other sizes. `--past` are paid charges of former
 * years, with three journal rows and two events each.
 */
const { due, standing, past, rounds, references } = sizes({
  due: 50_000,
  standing: 200_000,
  past: 0,
  rounds: 1,
  references: 1,
})

/** Those of the past are older. */
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

const ours: Array<number> = []
const rows: Array<number> = []
const sets: Array<number> = []
for (let round = 0; round < rounds; round++) {
  let sweeping = 0
  await timed(instance, `engine_${round}`, async (url) => {
    sweeping = await renewAll(url)
  })
  ours.push(sweeping)
  if (references === 0) continue
  rows.push(await timed(instance, `rows_${round}`, (url) => rowAtATime(url, 16)))
  sets.push(await timed(instance, `sets_${round}`, (url) => setBased(url, 2)))
}
const own = median(ours)
console.log(`engine                        ${seconds(own)}  ${rate(due, own)} renewals/s`)
if (references > 0) {
  const against = (name: string, values: ReadonlyArray<number>) =>
    console.log(
      `${name.padEnd(29)} ${seconds(median(values))}  ${rate(due, median(values))} renewals/s  engine is ${(median(values) / own).toFixed(2)} times as fast`,
    )
  against("row at a time, 16 connections", rows)
  against("set-based, 2 connections", sets)
}
instance.stop()
process.exit(0)
