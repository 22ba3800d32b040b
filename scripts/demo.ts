/**
 * The demo plays a billing story on a private instance: six months in a few seconds, as a timeline, then the books.
 *   npm run demo                   (`-- --keep`: in the installation of `npm start`, which keeps the merchant and its books)
 */
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { replayables } from "../src/app/lifecycles.ts"
import { formatKobo } from "../src/base/money.ts"
import { checkLedger } from "../src/ledger/ledger.ts"
import { replayJournal } from "../src/runtime/replay.ts"
import { installedInstance, ownInstance } from "./ownInstance.ts"
import { payOut } from "./payOut.ts"
import { type Call, caller, namesOf, playStory, type StoryObjects } from "./story.ts"

const POLL_BUYER_MS = 500

interface StoryEvent {
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
      readonly channel?: string
      readonly template?: string
      readonly next_retry_at?: string | null
      readonly cancellation_reason?: string | null
      readonly resumes_at?: string | null
      readonly amountPaid?: number
      readonly pendingFee?: number
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

/** Describes an event in words. */
const describe = ({ type, data: { object } }: StoryEvent): string => {
  const amount = formatKobo(object.amount ?? 0)
  switch (type) {
    case "charge.succeeded":
      return `pays ${amount}${object.attempt_number === 1 ? "" : ` at attempt ${object.attempt_number}`}`
    case "charge.failed":
      return `cannot pay ${amount}: ${object.failure_code?.replaceAll("_", " ")} (attempt ${object.attempt_number})`
    case "charge.retry_scheduled":
      return `will be tried again on ${day(object.next_retry_at ?? "")}`
    case "nudge.sent":
      return `is reminded by ${object.channel}: ${object.template?.replaceAll("_", " ")}`
    case "subscription.paused":
      return object.resumes_at == null ? "is paused" : `is paused until ${day(object.resumes_at)}`
    case "subscription.cancelled":
      return `is cancelled (${object.cancellation_reason})`
    case "savings_plan.overdue":
      return `has missed an instalment: ${formatKobo((object.pendingFee ?? 0) * 100)} of fees`
    case "savings_plan.payment_received":
      return `has saved ${formatKobo((object.amountPaid ?? 0) * 100)}`
    default:
      return `${type.replace(/^(subscription|savings_plan)\./, "").replaceAll("_", " ")} → ${object.status}`
  }
}

interface Checkout {
  readonly id: string
  readonly url: string
  readonly status: string
  readonly customer: { readonly name: string } | null
}

/** Waits until Enter is pressed or `isDone` returns true; does not wait without a terminal. */
const untilEnter = async (isDone: () => Promise<boolean>): Promise<void> => {
  if (!process.stdin.isTTY) return
  let entered = false
  const onEnter = () => {
    entered = true
  }
  process.stdin.once("data", onEnter)
  while (!entered && !(await isDone())) await new Promise((resolve) => setTimeout(resolve, POLL_BUYER_MS))
  process.stdin.off("data", onEnter).pause()
}

/** A new buyer subscribes on a hosted page: by hand if a person is at the terminal, otherwise automatically. */
const checkout = async (call: Call, plan: string): Promise<void> => {
  const shop = "https://shop.example"
  const body = { mode: "subscription", plan, success_url: `${shop}/welcome`, cancel_url: `${shop}/plans` }
  const session = await call<Checkout>("POST", "/checkout-sessions", body)
  const now = () => call<Checkout>("GET", `/checkout-sessions/${session.id}?expand[]=customer`)
  say("\nA checkout page for the gym, for all who have the link:\n")
  say(`  ${session.url}`)
  if (process.stdin.isTTY)
    say("\n  Open it and pay with 4242 4242 4242 4242, or press Enter to have it paid automatically.")
  await untilEnter(async () => (await now()).status !== "open")
  if ((await now()).status === "open") {
    const submit = async (payment_method: string) => {
      const response = await fetch(`${session.url}/complete`, {
        method: "POST",
        headers: { accept: "application/json", "content-type": "application/json" },
        body: JSON.stringify({ name: "Gbemi", phone: "0803 123 4599", payment_method }),
      })
      const { data, error } = (await response.json()) as {
        data?: { redirect_url: string }
        error?: { message: string }
      }
      say(
        `\n  ${payment_method.padEnd(26)} ${data === undefined ? error!.message : `continues to ${data.redirect_url}`}`,
      )
    }
    await submit("pm_test_insufficient_funds")
    await submit("pm_test_success")
  }
  const { status, customer } = await now()
  say(`\n  The session is ${status}, and the merchant has a new customer: ${customer?.name}.`)
}

/** Reads all events, oldest first. */
const readEvents = async (origin: string, key: string): Promise<ReadonlyArray<StoryEvent>> => {
  const found: Array<StoryEvent> = []
  for (let cursor: string | null = ""; cursor !== null; ) {
    const after: string = cursor === "" ? "" : `&starting_after=${cursor}`
    const page = await fetch(`${origin}/sandbox/v1/events?limit=100${after}`, {
      headers: { authorization: `Bearer ${key}` },
    })
    const { data, meta } = (await page.json()) as { data: Array<StoryEvent>; meta: { next_cursor: string | null } }
    found.push(...data)
    cursor = meta.next_cursor
  }
  return found.reverse()
}

/** Plays the story and prints its events. */
const story = async (origin: string, key: string): Promise<StoryObjects> => {
  const before = performance.now()
  const played = await playStory(caller(origin, key), say)
  const savers = new Map(Object.entries(played.savings).map(([name, id]) => [id, name]))
  say(`\nSix months later (${Math.round(performance.now() - before)} ms):\n`)
  for (const event of await readEvents(origin, key)) {
    const { customer, id } = event.data.object
    const name = played.customers.get(customer ?? "") ?? savers.get(id)
    // Skips arrivals of reminders, one second after they were sent.
    if (name !== undefined && event.type !== "nudge.delivered")
      say(`  ${day(event.created_at)}  ${name.padEnd(6)} ${describe(event)}`)
  }
  return played
}

const trialBalance = Effect.fnUntraced(function* (account: string) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<Balance>`
    SELECT name, debit_kobo, credit_kobo FROM finance.trial_balance WHERE account_id = ${account} ORDER BY ledger_account`
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

/** Prints how to run the queries of docs/ledger.md. */
const printQueryHelp = (account: string, key: string, played: StoryObjects): void => {
  say(`\nThe merchant stays in this installation, with its books: ${account}. Its sandbox key: ${key}`)
  say("In the dashboard, the demo account's owner switches to “Fit Lagos” at the end of the menu.")
  say("\nTo try the queries of docs/ledger.md:\n")
  say("  npm run sql")
  say(`  SET billing.account = '${account}';`)
  say("\nThe names in it stand for these IDs:\n")
  for (const [id, name] of namesOf(played)) say(`  ${name.padEnd(12)} ${id}`)
}

const demo = Effect.gen(function* () {
  const isKept = process.argv.includes("--keep")
  const { pool, origin, account, key } = yield* isKept ? installedInstance() : ownInstance("demo")
  const played = yield* Effect.promise(() => story(origin, key))
  // The kept story is the one of docs/ledger.md: with payouts, and without the page's buyer.
  if (isKept) yield* Effect.provide(payOut(account), pool)
  else yield* Effect.promise(() => checkout(caller(origin, key), played.plans.gym))
  yield* Effect.provide(trialBalance(account), pool)
  const books = yield* Effect.provide(checkLedger(account), pool)
  const journal = yield* Effect.provide(replayJournal(replayables, []), pool)
  say(`\nLedger check: ${books.ok ? "ok" : books.problems.join(", ")}, ${books.entries} entries.`)
  say(`Journal replay: ${journal.replayed} lifecycles replayed, ${journal.differing.length} differ.`)
  if (isKept) printQueryHelp(account, key, played)
})

NodeRuntime.runMain(Effect.scoped(demo))
