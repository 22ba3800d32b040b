/**
 * Recovers charges after a restore, so that nothing is charged again (decision F9). It enters the charges that rails took or declined since
 * the backup: those of one customer in one transaction, in the order of creation. Charges in the database stay unchanged, so a second run
 * enters nothing more.
 */
import { Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { staysHere } from "../../db/tenant.ts"
import type { RailAccount } from "../credential/credential.ts"
import { RailCredentials, railAccountKey } from "../credential/RailCredentials.ts"
import type { Credentials, Rail } from "../rail/Rail.ts"
import { Rails } from "../rail/Rails.ts"
import { foundOf, type Open, sortOut, type Unplaced, unplaced } from "./candidates.ts"
import { type Candidate, type Entered, enter } from "./entering.ts"
import { listOurs, untilAnswered } from "./listing.ts"

export interface Recovery {
  /** How many of our transactions the rails list. */
  readonly asked: number
  readonly known: number
  readonly recovered: number
  readonly unplaced: ReadonlyArray<Unplaced>
  /** Why rails could not be asked, by account. */
  readonly failures: ReadonlyArray<string>
}

export interface RecoveryOptions {
  readonly accountId: string | undefined
  /** ms since the epoch. */
  readonly since: number
  readonly dryRun: boolean
}

/** The usual limit of calls in flight to a rail for an account (decision P11): here one call for each customer. */
const CUSTOMERS_AT_ONCE = 5

/** An account whose rail is asked. */
interface Asked {
  readonly of: RailAccount
  readonly rail: Rail
  readonly credentials: Credentials
  /** ms since the epoch. */
  readonly now: number
  readonly dryRun: boolean
}

const failureOf = ({ account_id, rail }: RailAccount, message: string): string =>
  `${rail} could not be asked for ${account_id}: ${message}`

/** Asks the rail about a transaction. This answer counts, not the list. */
const askAbout = Effect.fnUntraced(function* ({ rail, credentials }: Asked, reference: string) {
  const answer = yield* untilAnswered(`it does not answer about ${reference}`, rail.ask(reference, credentials))
  return answer.kind === "transaction" ? answer : undefined
})

/** Asks a rail about a customer's transactions, and enters them. */
const recoverCustomer = Effect.fnUntraced(function* (at: Asked, customer: string, transactions: ReadonlyArray<Open>) {
  const all: Array<Candidate> = []
  const unknown: Array<Unplaced> = []
  for (const open of transactions) {
    const transaction = yield* askAbout(at, open.reference)
    if (transaction !== undefined) all.push({ open, found: foundOf(open, transaction, at.now) })
    else if (!open.isKnown)
      unknown.push(unplaced(at.of, open.listed, "the rail lists it, but does not know its reference"))
  }
  const { recovered, unplaced: refused } = yield* enter(at.of, customer, all, at.dryRun)
  return { recovered, unplaced: [...unknown, ...refused] } satisfies Entered
})

const recoverAccount = Effect.fnUntraced(function* (at: Asked, since: number) {
  const ours = yield* listOurs(at.rail, at.credentials, since, at.now + DAY_MS)
  const { known, refused, groups } = yield* sortOut(at.of, ours)
  const failures: Array<string> = []
  const entered = yield* Effect.forEach(
    groups,
    ([customer, transactions]) =>
      // Entered charges stay: a second run continues from there.
      Effect.catchTag(recoverCustomer(at, customer, transactions), "NotListed", ({ message }) => {
        failures.push(failureOf(at.of, message))
        return Effect.succeed({ recovered: 0, unplaced: [] } satisfies Entered)
      }),
    { concurrency: CUSTOMERS_AT_ONCE },
  )
  return {
    asked: ours.size,
    known,
    recovered: entered.reduce((sum, { recovered }) => sum + recovered, 0),
    unplaced: [...refused, ...entered.flatMap((one) => one.unplaced)],
    // If a rail is unreachable, it is so for all customers: one message is enough.
    failures: failures.slice(0, 1),
  } satisfies Recovery
})

const failed = (of: RailAccount, message: string): Recovery => ({
  asked: 0,
  known: 0,
  recovered: 0,
  unplaced: [],
  failures: [failureOf(of, message)],
})

const readRailAccounts = Effect.fnUntraced(function* (accountId: string | undefined) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<RailAccount>`
    SELECT account_id, rail FROM rail_credential c
    WHERE replaced_at IS NULL AND livemode AND ${staysHere(sql, "c")} AND ${accountId === undefined ? sql`true` : sql`account_id = ${accountId}`}
    ORDER BY account_id, rail`
})

/** Asks every rail of which an account has credentials, and enters its transactions that are not in the database. */
export const recover = Effect.fnUntraced(function* (wanted: RecoveryOptions) {
  const accounts = yield* readRailAccounts(wanted.accountId)
  const credentials = yield* (yield* RailCredentials).find(accounts)
  const rails = yield* Rails
  const all: Array<Recovery> = []
  for (const of of accounts) {
    const opened = credentials.get(railAccountKey(of))
    if (opened === undefined || Result.isFailure(opened)) {
      all.push(failed(of, "its credentials cannot be opened"))
      continue
    }
    const at = { of, rail: rails.of(of.rail), credentials: opened.success, now: currentTime(), dryRun: wanted.dryRun }
    const recovering = recoverAccount(at, wanted.since)
    all.push(yield* Effect.catchTag(recovering, "NotListed", ({ message }) => Effect.succeed(failed(of, message))))
  }
  const sum = (of: (one: Recovery) => number) => all.reduce((total, one) => total + of(one), 0)
  return {
    asked: sum(({ asked }) => asked),
    known: sum(({ known }) => known),
    recovered: sum(({ recovered }) => recovered),
    unplaced: all.flatMap((one) => one.unplaced),
    failures: all.flatMap(({ failures }) => failures),
  } satisfies Recovery
})
