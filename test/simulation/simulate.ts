/** Runs simulation instances in sequence: each runs parallel schedules on its own database, checked at the end. */
import { randomBytes } from "node:crypto"
import { Effect, type Redacted } from "effect"
import { SqlClient } from "effect/sql"
import { onDatabase, poolLayer } from "../../src/db/database.ts"
import { TEMPLATE } from "../support/postgres.ts"
import { Account } from "./account.ts"
import { RailsOfAll } from "./rails.ts"
import { killsOf, type Schedule, scheduleOf } from "./schedule.ts"
import { countAll, judge } from "./verdict.ts"
import { inWords, World } from "./world.ts"

/** Schedules that share a database and its processes. */
const SCHEDULES_AN_INSTANCE = 100
/** The parallel ones of those: when one is halfway another starts. */
const AT_ONCE = 40
/** One process dies for this many schedules. */
const SCHEDULES_A_KILL = 4

type Counts = Record<string, number>

/** The counters of a run. */
export interface Summary {
  schedules: number
  charges: number
  refunds: number
  kills: number
  moves: number
  requestsRefused: number
  requestsLost: number
  callbacks: number
  forged: number
  readonly calls: Counts
  readonly faults: Counts
  readonly exceptions: Counts
  readonly steps: Counts
}

const emptySummary = (): Summary => ({
  schedules: 0,
  charges: 0,
  refunds: 0,
  kills: 0,
  moves: 0,
  requestsRefused: 0,
  requestsLost: 0,
  callbacks: 0,
  forged: 0,
  calls: {},
  faults: {},
  exceptions: {},
  steps: {},
})

const count = (counts: Counts, name: string, n = 1): void => {
  counts[name] = (counts[name] ?? 0) + n
}

/** Adds the counters of another part of a run. */
const addSummary = (to: Summary, from: Summary): void => {
  for (const [name, value] of Object.entries(from) as Array<[keyof Summary, number | Counts]>) {
    if (typeof value === "number") (to[name] as number) += value
    else for (const [kind, n] of Object.entries(value)) count(to[name] as Counts, kind, n)
  }
}

/** The failure of an instance. */
export interface Failure {
  /** The schedule. undefined: all of the instance's together. */
  readonly number: number | undefined
  readonly text: string
}

export interface Outcome {
  readonly summary: Summary
  readonly failures: ReadonlyArray<Failure>
}

const summaryOf = (accounts: ReadonlyArray<Account>, kills: number): Summary => {
  const summary = emptySummary()
  summary.kills = kills
  for (const { counts, railCalls, schedule } of accounts) {
    summary.schedules++
    summary.moves += counts.moves
    summary.requestsRefused += counts.refused
    summary.requestsLost += counts.lost
    summary.callbacks += counts.callbacks
    summary.forged += counts.forged
    for (const { kind, fault } of railCalls) {
      count(summary.calls, kind)
      if (fault !== "none") count(summary.faults, fault)
    }
    for (const { name } of schedule.steps) count(summary.steps, name)
  }
  return summary
}

const readLeft = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ line: string }>`
      SELECT row_to_json(c)::text AS line FROM rail_call c WHERE account_id = ${account}
      UNION ALL SELECT row_to_json(t)::text FROM rail_throttle t WHERE account_id = ${account}
      UNION ALL SELECT row_to_json(b)::text FROM rail_callback b WHERE account_id = ${account}`,
  )

const readJournal = (account: string) =>
  Effect.flatMap(
    SqlClient.SqlClient,
    (sql) => sql<{ line: string }>`
      SELECT format('%s %s v%s %s -> %s %s', to_char(at, 'MM-DD HH24:MI:SS'), actor_id, version, from_state, to_state, event::text) AS line
      FROM lifecycle_journal WHERE account_id = ${account} ORDER BY actor_id, version`,
  )

/** The complete history of an account. */
const storyOf = async (world: World, account: Account, problems: ReadonlyArray<string>): Promise<string> => {
  const { schedule, story, railCalls, merchants } = account
  const journal = await world.operate(readJournal(account.id))
  const left = await world.operate(readLeft(account.id))
  const atRails = Object.entries(merchants).flatMap(([rail, { books }]) =>
    [...books.transactions.values()].map(
      ({ reference, status, askedKobo, taken, currency, asks }) =>
        `${rail} ${reference} ${status}, asked for ${askedKobo}, took ${taken.join("+") || "nothing"} ${currency}, asked about ${asks} times`,
    ),
  )
  return [
    ...problems,
    `schedule ${schedule.number} of account ${account.id}:`,
    ...story,
    "calls:",
    ...railCalls.map(
      ({ rail, kind, reference, fault, generation, report }) =>
        `#${generation} ${rail} ${kind} ${reference} ${fault}${report === undefined ? "" : ` reported ${JSON.stringify(report)}`}`,
    ),
    `certainly read: ${account.marks.map(({ generation, callCount }) => `${callCount} in #${generation}`).join(", ")}`,
    "at the rails:",
    ...atRails,
    "left over:",
    ...left.map(({ line }) => line),
    "journal:",
    ...journal.map(({ line }) => line),
  ].join("\n")
}

/** Runs schedules in parallel. They end when all have ended, or when one cannot. */
const runInstance = async (
  url: Redacted.Redacted<string>,
  rails: RailsOfAll,
  seed: number,
  schedules: ReadonlyArray<Schedule>,
): Promise<Outcome> => {
  const most = Math.ceil(schedules.length / SCHEDULES_A_KILL)
  const world = new World(url, rails, killsOf(seed, schedules[0]!.number, most))
  const accounts = schedules.map((schedule) => new Account(world, schedule))
  const failures: Array<Failure> = []
  const lives = accounts.map((account) => async () => {
    try {
      await account.live()
    } catch (error) {
      failures.push({ number: account.schedule.number, text: await storyOf(world, account, [inWords(error)]) })
    }
  })
  try {
    await world.run(lives, AT_ONCE)
    const problems = await judge(world, accounts)
    for (const [id, lines] of problems) {
      const account = accounts.find((one) => one.id === id)
      failures.push({
        number: account?.schedule.number,
        text: account === undefined ? lines.join("\n") : await storyOf(world, account, lines),
      })
    }
    const summary = summaryOf(accounts, world.kills)
    const { exceptions, ...counted } = await world.operate(countAll)
    addSummary(summary, { ...emptySummary(), ...counted, exceptions })
    return { summary, failures }
  } catch (error) {
    return {
      summary: summaryOf(accounts, world.kills),
      failures: [...failures, { number: undefined, text: inWords(error) }],
    }
  } finally {
    await world.end()
    rails.clear()
  }
}

const statement = (server: Redacted.Redacted<string>, text: string) =>
  Effect.runPromise(
    Effect.flatMap(SqlClient.SqlClient, (sql) => sql.unsafe(text).unprepared).pipe(
      Effect.provide(poolLayer(server, 1)),
    ),
  )

/** The schedules to run: from one number up to another, exclusive. */
export interface Part {
  readonly seed: number
  readonly from: number
  readonly to: number
}

/** Runs schedules, instance by instance, until one fails. `goesOn` gets each instance, and returns true to continue. */
export const simulate = async (
  server: Redacted.Redacted<string>,
  { seed, from, to }: Part,
  goesOn: (outcome: Outcome) => boolean = () => true,
): Promise<Outcome> => {
  const rails = await RailsOfAll.start()
  const summary = emptySummary()
  try {
    for (let first = from; first < to; first += SCHEDULES_AN_INSTANCE) {
      const numbers = Array.from({ length: Math.min(SCHEDULES_AN_INSTANCE, to - first) }, (_, index) => first + index)
      const name = `simulation_${randomBytes(6).toString("hex")}`
      await statement(server, `CREATE DATABASE ${name} TEMPLATE ${TEMPLATE}`)
      const schedules = numbers.map((number) => scheduleOf(seed, number))
      const outcome = await runInstance(onDatabase(server, name), rails, seed, schedules)
      await statement(server, `DROP DATABASE ${name} WITH (FORCE)`)
      addSummary(summary, outcome.summary)
      if (!goesOn(outcome) || outcome.failures.length > 0) return { summary, failures: outcome.failures }
    }
    return { summary, failures: [] }
  } finally {
    await rails.close()
  }
}
