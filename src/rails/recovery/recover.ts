/**
 * After a restore: what rails took or declined since the backup is entered as the charges that it was, so that nothing is charged again
 * (decision F9). What belongs to one customer is entered in one transaction, in the order in which it was made; what the database knows
 * already stays as it is, so that a second run enters nothing more.
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
  /** Transactions of ours that rails list. */
  readonly asked: number
  readonly known: number
  readonly recovered: number
  readonly unplaced: ReadonlyArray<Unplaced>
  /** Why rails could not be asked for accounts. */
  readonly failures: ReadonlyArray<string>
}

export interface Wanted {
  readonly accountId: string | undefined
  /** ms since the epoch. */
  readonly since: number
  readonly dryRun: boolean
}

/** As many calls to a rail are under way for an account otherwise (decision P11): one for each customer. */
const CUSTOMERS_AT_ONCE = 5

/** A rail that is asked for an account. */
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

/** What the rail says of a transaction when it is asked about it, which counts; not what it lists. */
const askAbout = Effect.fnUntraced(function* ({ rail, credentials }: Asked, reference: string) {
  const heard = yield* untilAnswered(`it does not answer about ${reference}`, rail.ask(reference, credentials))
  return heard.kind === "transaction" ? heard : undefined
})

/** Has a rail asked about a customer's transactions, and enters them. */
const recoverCustomer = Effect.fnUntraced(function* (at: Asked, customer: string, its: ReadonlyArray<Open>) {
  const all: Array<Candidate> = []
  const unknown: Array<Unplaced> = []
  for (const open of its) {
    const heard = yield* askAbout(at, open.reference)
    if (heard !== undefined) all.push({ open, found: foundOf(open, heard, at.now) })
    else if (!open.isKnown)
      unknown.push(unplaced(at.of, open.listed, "the rail lists it, and does not know it when asked"))
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
    ([customer, its]) =>
      // What is entered stays: a second run goes on from there.
      Effect.catchTag(recoverCustomer(at, customer, its), "NotListed", ({ message }) => {
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
    // A rail that is out of reach is so for all of them.
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

/** Asks every rail that an account has credentials of, and enters what it has and the database does not. */
export const recover = Effect.fnUntraced(function* (wanted: Wanted) {
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
