/** A billing story against a private instance: six months in a few seconds, as a timeline, then the books. */
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { createAccount } from "../src/account/Accounts.ts"
import { readConfig } from "../src/config.ts"
import { databaseUrl, poolLayer } from "../src/db/Database.ts"
import { migrate } from "../src/db/migrate.ts"
import { checkLedger } from "../src/ledger/Ledger.ts"
import { replayJournal } from "../src/lifecycle/replay.ts"
import { replayables } from "../src/lifecycles.ts"
import { formatKobo } from "../src/money.ts"
import { startServer } from "./server.ts"

const LOOK_AGAIN_MS = 20

interface Happening {
  readonly created_at: string
  readonly type: string
  readonly data: {
    readonly object: {
      readonly id: string
      readonly customer?: string
      readonly status: string
      readonly amount?: number
      readonly attempt_number?: number
      readonly failure_code?: string | null
      readonly next_retry_at?: string | null
      readonly cancellation_reason?: string | null
    }
  }
}

interface Balance {
  readonly name: string
  readonly debit_kobo: number
  readonly credit_kobo: number
}

const say = (line = ""): void => void process.stdout.write(`${line}\n`)
const day = (instant: string): string => instant.slice(0, 10)

const caller =
  (origin: string, key: string) =>
  async <T>(method: string, path: string, body?: object): Promise<T> => {
    const response = await fetch(`${origin}/sandbox/v1${path}`, {
      method,
      headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = (await response.json()) as { success: boolean; data: T; error?: { message: string } }
    if (!answer.success) throw new Error(`${method} ${path}: ${answer.error?.message}`)
    return answer.data
  }

/** What an event means, in words. */
const describe = ({ type, data: { object } }: Happening): string => {
  const amount = formatKobo(object.amount ?? 0)
  switch (type) {
    case "charge.succeeded":
      return `pays ${amount}${object.attempt_number === 1 ? "" : ` at attempt ${object.attempt_number}`}`
    case "charge.failed":
      return `cannot pay ${amount}: ${object.failure_code?.replaceAll("_", " ")} (attempt ${object.attempt_number})`
    case "charge.retry_scheduled":
      return `will be tried again on ${day(object.next_retry_at ?? "")}`
    case "subscription.cancelled":
      return `is cancelled (${object.cancellation_reason})`
    default:
      return `${type.replace("subscription.", "").replaceAll("_", " ")} → ${object.status}`
  }
}

const PEOPLE = [
  { name: "Ada", plan: "gym", method: "pm_test_success", trial_days: 0, what: "a card that always works" },
  {
    name: "Bola",
    plan: "gym",
    method: "pm_test_succeeds_on_attempt_3",
    trial_days: 14,
    what: "a fortnight's trial, then a card that works at the third attempt",
  },
  {
    name: "Chidi",
    plan: "gym",
    method: "pm_test_success_then_insufficient_funds",
    trial_days: 0,
    what: "a card that works once",
  },
  {
    name: "Dayo",
    plan: "diesel",
    method: "pm_test_verve",
    trial_days: 0,
    what: "a generator: a standing fee, and ₦1,200.00 for each litre",
  },
] as const

/** The clock's stops: before each of them Dayo burns some litres. */
const MONTHS = ["02-27", "03-30", "04-29", "05-30", "06-29", "07-30"].map((day) => `2026-${day}T08:00:00Z`)
const LITRES = [40, 55, 38, 61, 47, 50]

const advance = async (call: ReturnType<typeof caller>, clock: string, frozen_time: string): Promise<void> => {
  await call("POST", `/test/clocks/${clock}/advance`, { frozen_time })
  for (;;) {
    const { status } = await call<{ status: string }>("GET", `/test/clocks/${clock}`)
    if (status !== "advancing") return
    await new Promise((resolve) => setTimeout(resolve, LOOK_AGAIN_MS))
  }
}

const story = async (call: ReturnType<typeof caller>): Promise<void> => {
  const made = (path: string, body: object) => call<{ id: string }>("POST", path, body)
  const clock = await made("/test/clocks", { frozen_time: "2026-01-31T08:00:00Z", name: "Demo" })
  const monthly = { currency: "NGN", billing_cycle: "monthly" }
  const plans = {
    gym: await made("/plans", { name: "Gym", amount: 1_500_000, ...monthly }),
    diesel: await made("/plans", { name: "Diesel", amount: 500_000, overage_per_unit: 120_000, ...monthly }),
  }
  const names = new Map<string, string>()
  let generator = ""
  say(`Two monthly plans, four customers, and a clock at 31 January 2026:`)
  for (const { name, plan, method, trial_days, what } of PEOPLE) {
    const customer = await made("/customers", { name, test_clock: clock.id })
    const trial = trial_days === 0 ? {} : { trial_days }
    const { id } = await made("/subscriptions", {
      customer: customer.id,
      plan: plans[plan].id,
      payment_method: method,
      ...trial,
    })
    if (plan === "diesel") generator = id
    names.set(customer.id, name)
    say(`  ${name.padEnd(6)} ${what}`)
  }
  const before = performance.now()
  for (const [month, stop] of MONTHS.entries()) {
    await advance(call, clock.id, stop)
    await call("POST", `/subscriptions/${generator}/unit-records`, { quantity: LITRES[month], description: "litres" })
  }
  await advance(call, clock.id, "2026-07-31T08:00:00Z")
  say(`\nSix months later (${Math.round(performance.now() - before)} ms):\n`)
  const events = await call<ReadonlyArray<Happening>>("GET", "/events?limit=100")
  for (const event of [...events].reverse()) {
    const name = names.get(event.data.object.customer ?? "")
    if (name !== undefined) say(`  ${day(event.created_at)}  ${name.padEnd(6)} ${describe(event)}`)
  }
}

const trialBalance = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const rows =
    yield* sql<Balance>`SELECT name, debit_kobo, credit_kobo FROM finance.trial_balance ORDER BY ledger_account`
  yield* Effect.sync(() => {
    const line = (name: string, debit: string, credit: string) =>
      say(`  ${name.padEnd(46)}${debit.padStart(16)}${credit.padStart(16)}`)
    say("\nTrial balance:\n")
    line("", "debit", "credit")
    for (const { name, debit_kobo, credit_kobo } of rows) line(name, formatKobo(debit_kobo), formatKobo(credit_kobo))
    const sum = (of: (row: Balance) => number) => formatKobo(rows.reduce((total, row) => total + of(row), 0))
    line(
      "",
      sum((row) => row.debit_kobo),
      sum((row) => row.credit_kobo),
    )
  })
})

const dataDir = mkdtempSync(join(tmpdir(), "recurring-billing-demo-"))
const { DATABASE_URL: _, ...env } = process.env

await Effect.runPromise(
  Effect.gen(function* () {
    const url = yield* databaseUrl(readConfig({ ...env, DATA_DIR: dataDir }, { development: true }))
    const pool = poolLayer(url, 2)
    yield* Effect.provide(migrate, pool)
    const { keys } = yield* Effect.provide(createAccount({ businessName: "Fit Lagos" }), pool)
    const server = yield* Effect.promise(() => startServer({ DATA_DIR: dataDir }))
    yield* Effect.promise(() => story(caller(server.origin, keys.sk_test)))
    yield* Effect.provide(trialBalance, pool)
    const books = yield* Effect.provide(checkLedger, pool)
    const journal = yield* Effect.provide(replayJournal(replayables, []), pool)
    say(`\nLedger check: ${books.ok ? "ok" : books.problems.join(", ")}, ${books.entries} entries.`)
    say(`Journal replay: ${journal.replayed} lifecycles replayed, ${journal.differing.length} differ.`)
    yield* Effect.promise(server.stop)
  }).pipe(Effect.scoped),
)
rmSync(dataDir, { recursive: true, force: true })
process.exit(0)
