/**
 * Measures renewals per second through an external rail that takes 200 ms for each answer, compared with the limit of 20 concurrent calls
 * (decision P11); and how a rail that takes 30 s, with many renewals waiting for it, slows other renewals down.
 *
 *   npm run bench:rails -- --renewals 2000 --due 20000 --waiting 20000
 */
import { Effect, Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { poolLayer } from "../../src/db/database.ts"
import type { RailName } from "../../src/rails/rail/Rail.ts"
import { type Server, startServer } from "../server.ts"
import { median, sizes, startInstance } from "./instance.ts"
import { seedDue } from "./rails-seed.ts"

/** `renewals` through a rail, `due` by the simulator, `waiting` for the slow rail. */
const { renewals, due, waiting, accounts, rounds } = sizes({
  renewals: 2_000,
  due: 20_000,
  waiting: 20_000,
  accounts: 8,
  rounds: 3,
})

const DELAY_MS = 200
/** The time limit of a call: it is given up just then. */
const HANG_MS = 30_000
const CONCURRENT_CALLS = 20
const BOUND = CONCURRENT_CALLS / (DELAY_MS / 1000)
const LOOK_EVERY_MS = 100

const instance = await startInstance()
const standIn = await startServer(
  { DELAY_MS: String(DELAY_MS), HANG_MS: String(HANG_MS) },
  "scripts/bench/rails-standin.ts",
)

const run = <A, E>(url: Redacted.Redacted<string>, program: Effect.Effect<A, E, SqlClient.SqlClient>): Promise<A> =>
  Effect.runPromise(Effect.provide(program, poolLayer(url, 2)))

const serve = (url: Redacted.Redacted<string>): Promise<Server> =>
  startServer({ DATABASE_URL: Redacted.value(url), PAYSTACK_URL: standIn.origin, FLUTTERWAVE_URL: standIn.origin })

/** Accounts with due subscriptions, and the number of these. */
interface Group {
  readonly ids: ReadonlyArray<string>
  readonly due: number
}

const seedGroup = (url: Redacted.Redacted<string>, rail: RailName, of: number, total: number, key?: string) =>
  run(
    url,
    Effect.gen(function* () {
      const each = Math.floor(total / of)
      const ids: Array<string> = []
      for (let n = 0; n < of; n++) ids.push(yield* seedDue(rail, each, key ?? `secret_${n}`))
      return { ids, due: each * of } satisfies Group
    }),
  )

const seeded = await instance.database("seeded")
const paystack = await seedGroup(seeded, "paystack", accounts, renewals)
const flutterwave = await seedGroup(seeded, "flutterwave", accounts, renewals)
const simulator = await seedGroup(seeded, "simulator", accounts, due)
const hanging = await seedGroup(seeded, "paystack", 1, waiting, "secret_hang")
await run(
  seeded,
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    // Each run makes its own renewals due.
    yield* sql`UPDATE timer SET due_at = due_at + interval '1 year'`
    yield* sql`ANALYZE`.unprepared
  }),
)

const makeDue = (url: Redacted.Redacted<string>, { ids }: Group) =>
  run(
    url,
    Effect.flatMap(
      SqlClient.SqlClient,
      (sql) => sql`
        UPDATE timer SET due_at = due_at - interval '1 year' WHERE account_id = ANY(${ids}::text[]) AND name = 'periodEnd'`,
    ),
  )

const eventually = async (condition: () => Promise<boolean>): Promise<void> => {
  while (!(await condition())) await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
}

const waitingIn = (url: Redacted.Redacted<string>) =>
  run(
    url,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ n: number }>`SELECT count(*) AS n FROM rail_call`
      return row!.n
    }),
  )

/** Reads how many of a group have renewed, and in what time. */
const renewed = (url: Redacted.Redacted<string>, { ids }: Group) =>
  run(
    url,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const [row] = yield* sql<{ n: number; ms: number }>`
        SELECT count(*) AS n, coalesce(extract(epoch FROM max(recorded_at) - min(recorded_at)) * 1000, 0)::float8 AS ms
        FROM event WHERE type = 'subscription.renewed' AND account_id = ANY(${ids}::text[])`
      return row!
    }),
  )

/** Creates a database to copy, in which the renewals of the slow rail are committed and waiting. */
const withWaiting = async (name: string): Promise<void> => {
  const url = await instance.database(name, "seeded")
  await makeDue(url, hanging)
  const server = await serve(url)
  await eventually(async () => (await waitingIn(url)) === hanging.due)
  await server.stop()
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`VACUUM ANALYZE`.unprepared),
  )
}

/** Measures renewals a second of a group in a copy of a database. `alone`: no call waits for a rail. */
const rateOf = async (name: string, template: string, group: Group, alone: boolean): Promise<number> => {
  const url = await instance.database(name, template)
  if (alone)
    await run(
      url,
      Effect.flatMap(SqlClient.SqlClient, (sql) => sql`DELETE FROM rail_call`),
    )
  await makeDue(url, group)
  await run(
    url,
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql`CHECKPOINT`.unprepared),
  )
  const server = await serve(url)
  await eventually(async () => (await renewed(url, group)).n === group.due)
  const { ms } = await renewed(url, group)
  if (!alone && (await waitingIn(url)) < hanging.due / 2) throw new Error("The slow rail was not slow.")
  await server.kill()
  await instance.drop(name)
  return (group.due / ms) * 1000
}

const measured = async (name: string, group: Group, times: number) => {
  const [alone, beside]: [Array<number>, Array<number>] = [[], []]
  for (let round = 0; round < times; round++) {
    alone.push(await rateOf(`${name}_alone_${round}`, "waiting", group, true))
    beside.push(await rateOf(`${name}_beside_${round}`, "waiting", group, false))
  }
  return { alone: median(alone), beside: median(beside) }
}

console.log(
  `${accounts} accounts each; ${waiting} renewals of one account wait for a Paystack that takes ${HANG_MS / 1000} s`,
)
const throughPaystack = await rateOf("paystack", "seeded", paystack, true)
await withWaiting("waiting")
const bySimulator = await measured("simulator", simulator, rounds)
const throughFlutterwave = await measured("flutterwave", flutterwave, 1)

console.log(
  `Paystack at ${DELAY_MS} ms      ${throughPaystack.toFixed(1).padStart(8)} renewals/s   ${(throughPaystack / BOUND).toFixed(2)} of the ${BOUND} that ${CONCURRENT_CALLS} calls allow, ${(throughPaystack / bySimulator.alone).toFixed(3)} of the simulator's`,
)
const line = (what: string, { alone, beside }: { readonly alone: number; readonly beside: number }) =>
  console.log(
    `${what.padEnd(24)} alone ${alone.toFixed(1).padStart(8)}/s   beside ${beside.toFixed(1).padStart(8)}/s   ratio ${(beside / alone).toFixed(2)}`,
  )
line("the simulator", bySimulator)
line(`Flutterwave at ${DELAY_MS} ms`, throughFlutterwave)
await standIn.kill()
instance.stop()
process.exit(0)
