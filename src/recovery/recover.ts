/**
 * After a restore: what rails took or declined since the backup is entered as the charges that it was, so that nothing is charged again
 * (decision F9). What belongs to one customer is entered in one transaction, in the order in which it was made; what the database knows
 * already is left to itself, so that a second run enters nothing more.
 */
import { Cause, Data, Effect, Result } from "effect"
import { SqlClient } from "effect/sql"
import type { ChargeRow } from "../charge/charge.ts"
import { charges } from "../charge/charge.ts"
import { meaningOf } from "../collecting/heard.ts"
import type { Described } from "../collecting/railMetadata.ts"
import { applyInOrder } from "../collecting/settle.ts"
import type { RailAccount } from "../credential/credential.ts"
import { RailCredentials, railAccountKey } from "../credential/RailCredentials.ts"
import { customers } from "../customer/customer.ts"
import { retryingDeadlocks } from "../db/deadlock.ts"
import { refOf, staysHere } from "../db/tenant.ts"
import { isId, madeAt } from "../ids.ts"
import type { Credentials, HeardTransaction, Rail } from "../rail/Rail.ts"
import { Rails } from "../rail/Rails.ts"
import { dropCalls } from "../rail_call/queue.ts"
import { DAY_MS, sameForAll } from "../time.ts"
import type { Found, Reason } from "./found.ts"
import { type Listed, listOurs, untilAnswered } from "./listing.ts"
import { type Placed, place } from "./placing.ts"

/** A transaction that is not entered, and why. */
export interface Unplaced {
  readonly reference: string
  readonly rail: string
  readonly account: string
  readonly customer: string | null
  readonly subscription: string | null
  /** What was asked for (kobo), and how the rail says it stands; null: not known. */
  readonly amount: number | null
  readonly status: HeardTransaction["status"] | null
  readonly reason: Reason
}

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

/** As many as are under way for an account otherwise (decision P11). */
const QUESTIONS_AT_ONCE = 5
const MAX_LOOKED_UP = 1_000

/** A transaction that the database does not know, or knows as pending. */
interface Open extends RailAccount {
  readonly reference: string
  readonly listed: Listed & { readonly described: Described }
  readonly isKnown: boolean
}

const unplaced = (
  { account_id, rail }: RailAccount,
  { reference, described }: Listed,
  reason: Reason,
  heard?: HeardTransaction,
): Unplaced => ({
  reference,
  rail,
  account: account_id,
  customer: described?.customer ?? null,
  subscription: described?.subscription ?? null,
  amount: described?.amountKobo ?? null,
  status: heard?.status ?? null,
  reason,
})

const findKnown = Effect.fnUntraced(function* (of: RailAccount, references: ReadonlyArray<string>) {
  const known = new Map<string, ChargeRow>()
  for (let from = 0; from < references.length; from += MAX_LOOKED_UP) {
    const some = references.slice(from, from + MAX_LOOKED_UP)
    const rows = yield* charges.find({ account_id: of.account_id, livemode: true }, some)
    for (const [id, row] of rows) if (row.rail === of.rail) known.set(id, row)
  }
  return known
})

/** Why a transaction cannot be a charge of this account, by what was sent with it; undefined: it can. */
const objectionTo = ({ account_id }: RailAccount, { reference, described }: Listed): Reason | undefined => {
  if (described === undefined) return "it carries no metadata by which it could be entered"
  if (described.account !== account_id) return `its metadata names the account ${described.account}`
  if (described.environment !== "live") return `its metadata names the environment ${described.environment}`
  if (!isId("charge", reference) && !isId("verification", reference)) return "its reference is no charge's ID"
  return undefined
}

/** What the rail says of a transaction when it is asked about it, which counts; not what it lists. */
const askAbout = Effect.fnUntraced(function* (rail: Rail, credentials: Credentials, reference: string) {
  const heard = yield* untilAnswered(`it does not answer about ${reference}`, rail.ask(reference, credentials))
  return heard.kind === "transaction" ? heard : undefined
})

const foundOf = ({ account_id, rail, reference, listed }: Open, heard: HeardTransaction, now: number): Found => {
  const made = Math.min(madeAt(reference), now)
  const settled = listed.at !== null && listed.at >= made && listed.at <= now ? listed.at : made
  return {
    account_id,
    livemode: true,
    id: reference,
    rail,
    described: listed.described,
    heard,
    madeAt: made,
    settledAt: settled,
  }
}

/** What a rail says of a charge, in order: of one that was sent back since that it was paid, before that it is not any more. */
const wordsOf = ({ heard }: Found): ReadonlyArray<HeardTransaction> => {
  if (heard.reversed !== true) return [heard]
  const { reversed: _, ...paid } = { ...heard, status: "succeeded" as const, code: null }
  return [paid, heard]
}

/** Settles a charge that is entered; returns what follows for others. */
const settleFound = Effect.fnUntraced(function* ({ charge, settledAt: at }: Placed, found: Found) {
  const nowOf = sameForAll(at)
  if (charge.hosted && charge.page === null)
    yield* applyInOrder([{ charge, answer: { type: "rail.page" }, at: charge.created_at }], nowOf)
  const words = charge.purpose === "verification" ? wordsOf(found).slice(0, 1) : wordsOf(found)
  const following = []
  for (const heard of words) {
    const meaning = meaningOf(charge, "ask", heard, at)
    if (meaning !== undefined) following.push((yield* applyInOrder([{ ...meaning, charge, at }], nowOf)).following)
  }
  return following
})

interface Entered {
  readonly recovered: number
  readonly unplaced: ReadonlyArray<Unplaced>
}

/** A transaction with what its rail says of it. */
interface Candidate {
  readonly open: Open
  readonly found: Found
}

const none = (of: RailAccount, all: ReadonlyArray<Candidate>, reason: Reason): Entered => ({
  recovered: 0,
  unplaced: all.flatMap(({ open, found }) => (open.isKnown ? [] : [unplaced(of, open.listed, reason, found.heard)])),
})

/** Has what was entered taken back: it is a dry run. */
class Undone extends Data.TaggedError("Undone")<{ readonly result: Entered }> {}

const enterAll = Effect.fnUntraced(function* (of: RailAccount, customer: string, all: ReadonlyArray<Candidate>) {
  const tenant = { account_id: of.account_id, livemode: true }
  const refused: Array<Unplaced> = []
  const [row] = yield* customers.lock([{ ...tenant, id: customer }], "NO KEY UPDATE")
  if (row === undefined) {
    const reason = `customer ${customer} is not in the database: it was made after the backup`
    return none(of, all, reason)
  }
  const known = yield* charges.find(
    tenant,
    all.map(({ found }) => found.id),
  )
  const following = []
  let recovered = 0
  for (const { open, found } of all) {
    const there = known.get(found.id)
    if (there !== undefined) {
      // It is asked about by itself; what was tried after it does not follow before it is settled.
      const isUnderWay = there.status !== "pending" || (yield* dropCalls([refOf(there)])).length > 0
      if (!isUnderWay) following.push(...(yield* settleFound({ charge: there, settledAt: found.settledAt }, found)))
      continue
    }
    const placed = yield* place(found)
    if (typeof placed === "string") refused.push(unplaced(of, open.listed, placed, found.heard))
    else {
      following.push(...(yield* settleFound(placed, found)))
      recovered++
    }
  }
  yield* Effect.all(following, { discard: true })
  return { recovered, unplaced: refused } satisfies Entered
})

/** Enters what belongs to one customer, all of it or nothing. */
const enter = Effect.fnUntraced(function* (
  of: RailAccount,
  customer: string,
  all: ReadonlyArray<Candidate>,
  dryRun: boolean,
) {
  const sql = yield* SqlClient.SqlClient
  const entering = enterAll(of, customer, all)
  const work = dryRun ? Effect.flatMap(entering, (result) => Effect.fail(new Undone({ result }))) : entering
  return yield* retryingDeadlocks(sql.withTransaction(work)).pipe(
    Effect.catchTag("Undone", ({ result }) => Effect.succeed(result)),
    Effect.catchCause((cause) => {
      if (Cause.hasInterruptsOnly(cause)) return Effect.failCause(cause)
      const reason = "it cannot be entered: the log says why"
      return Effect.as(
        Effect.logError("transactions of a rail cannot be entered", { customer }, cause),
        none(of, all, reason),
      )
    }),
  )
})

/** What of an account's transactions there is to enter, by customer, each in the order in which it was made. */
const sortOut = Effect.fnUntraced(function* (of: RailAccount, ours: ReadonlyMap<string, Listed>) {
  const known = yield* findKnown(of, [...ours.keys()])
  const refused: Array<Unplaced> = []
  const open: Array<Open> = []
  for (const listed of ours.values()) {
    const row = known.get(listed.reference)
    const objection = row === undefined ? objectionTo(of, listed) : undefined
    if (objection !== undefined) refused.push(unplaced(of, listed, objection))
    else if ((row === undefined || row.status === "pending") && listed.described !== undefined)
      open.push({
        ...of,
        reference: listed.reference,
        listed: { ...listed, described: listed.described },
        isKnown: row !== undefined,
      })
  }
  open.sort((a, b) => madeAt(a.reference) - madeAt(b.reference) || (a.reference < b.reference ? -1 : 1))
  const byCustomer = [...Map.groupBy(open, ({ listed }) => listed.described.customer)]
  const isNew = ({ isKnown }: Open) => !isKnown
  return { known: known.size, refused, groups: byCustomer.filter(([, its]) => its.some(isNew)) }
})

const recoverAccount = Effect.fnUntraced(function* (
  of: RailAccount,
  credentials: Credentials,
  { since, dryRun }: Wanted,
) {
  const rail = (yield* Rails).of(of.rail)
  const now = Date.now()
  const ours = yield* listOurs(rail, credentials, since, now + DAY_MS)
  const { known, refused, groups } = yield* sortOut(of, ours)
  let recovered = 0
  for (const [customer, its] of groups) {
    const heard = yield* Effect.forEach(its, ({ reference }) => askAbout(rail, credentials, reference), {
      concurrency: QUESTIONS_AT_ONCE,
    })
    const all = its.flatMap((open, index) => {
      const said = heard[index]
      if (said !== undefined) return [{ open, found: foundOf(open, said, now) }]
      if (!open.isKnown)
        refused.push(unplaced(of, open.listed, "the rail lists it, and does not know it when it is asked"))
      return []
    })
    const entered = yield* enter(of, customer, all, dryRun)
    recovered += entered.recovered
    refused.push(...entered.unplaced)
  }
  return { asked: ours.size, known, recovered, unplaced: refused, failures: [] } satisfies Recovery
})

const failed = (of: RailAccount, message: string): Recovery => ({
  asked: 0,
  known: 0,
  recovered: 0,
  unplaced: [],
  failures: [`${of.rail} could not be asked for ${of.account_id}: ${message}`],
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
  const all: Array<Recovery> = []
  for (const of of accounts) {
    const opened = credentials.get(railAccountKey(of))
    if (opened === undefined || Result.isFailure(opened)) {
      all.push(failed(of, "its credentials cannot be opened"))
      continue
    }
    const recovering = recoverAccount(of, opened.success, wanted)
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
