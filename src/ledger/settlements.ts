/**
 * Settlements of rails: what a rail's file says that it paid out is matched with the payments in the books by reference, and
 * booked: the money at the bank, the rail's fee, and what it no longer holds. One entry for a reference, once for ever, so that
 * a file may be read twice, and on after a crash.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { LOCKS } from "../db/locks.ts"
import { records } from "../db/records.ts"
import type { Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { forWholeTables } from "../db/wholeTables.ts"
import type { RailName } from "../rail/Rail.ts"
import { DAY_MS, dayOf, formatDayOf, HOUR_MS } from "../time.ts"
import { currentTime } from "../wallClock.ts"
import type { LedgerAccount } from "./chart.ts"
import { entriesOf, type NewEntry, postEntries } from "./ledger.ts"
import type { SettledRow } from "./settlementFile.ts"

/**
 * A payment that does not match, and why: `unknown_reference`, `other_rail`, `amount_differs` and `payout_differs` (from the amount
 * less the fee; both: the difference is in suspense), `booked_otherwise` (an earlier file paid it out with another fee or payout,
 * and that stands), `dated_before_payment` (by more than a month: a year that is mistyped, say), `duplicate` (the file has it before), `not_paid_out`, `not_deducted` (it went back after it was paid out).
 */
export interface Unmatched {
  /** Where it is found: in the rail's file, or in our books. */
  readonly side: "file" | "books"
  readonly reference: string
  readonly reason:
    | "unknown_reference"
    | "other_rail"
    | "amount_differs"
    | "payout_differs"
    | "booked_otherwise"
    | "dated_before_payment"
    | "duplicate"
    | "not_paid_out"
    | "not_deducted"
  /** What the rail paid out where that is what differs; else its amount, or the one in our books. */
  readonly amount_kobo: number
  readonly account: string | null
  /** The row of the file. */
  readonly row: number | null
}

export interface Settlement {
  readonly matched: number
  /** Of what matched, kobo. */
  readonly fees: number
  readonly payouts: number
  /** Entries that were not there yet. */
  readonly booked: number
  readonly unmatched: ReadonlyArray<Unmatched>
}

/** Listed of each side; a file that is of somebody else's account altogether fills no memory. */
const MAX_UNMATCHED = 5_000

/** What the books have of a reference. */
interface Taken extends Tenant {
  readonly reference: string
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly plan_id: string | null
  readonly bill_no: number | null
  readonly test_clock_id: string | null
  readonly rail: string
  /** The first day of which the books have it. */
  readonly taken_on: string
  /** What the rail took, and what of that it sent back. */
  readonly taken_kobo: number
  readonly returned_kobo: number
  /** The lines of what is settled of it already, each with the key of its entry. */
  readonly settled: ReadonlyArray<{ readonly key: string; readonly account: LedgerAccount; readonly kobo: number }>
}

/** What an entry says of a payout. */
type Booked = Pick<SettledRow, "amountKobo" | "feeKobo" | "paidOutKobo">

/** What is booked under a key; undefined: nothing. */
const bookedOf = ({ settled }: Taken, key: string): Booked | undefined => {
  const lines = settled.filter((line) => line.key === `settled:${key}`)
  if (lines.length === 0) return undefined
  const of = (account: LedgerAccount) => lines.find((line) => line.account === account)?.kobo ?? 0
  return { amountKobo: 0 - of("clearing"), feeKobo: of("rail_fees"), paidOutKobo: of("bank") }
}

const readTaken = Effect.fnUntraced(function* (references: ReadonlySet<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = [...references].map((reference) => ({ reference }))
  const taken = yield* sql<Taken>`
    SELECT e.account_id, e.livemode, e.charge_id AS reference, max(e.customer_id) AS customer_id, max(e.subscription_id) AS subscription_id, max(e.plan_id) AS plan_id,
      max(e.bill_no) AS bill_no, max(e.test_clock_id) AS test_clock_id,
      min(l.detail) FILTER (WHERE l.ledger_account = 'clearing' AND e.event <> 'settled') AS rail,
      (min(e.occurred_on) FILTER (WHERE e.event <> 'settled'))::text AS taken_on,
      coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing' AND l.amount_kobo > 0 AND e.event <> 'settled'), 0)::bigint AS taken_kobo,
      coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing' AND e.event = 'refunded'), 0)::bigint AS returned_kobo,
      coalesce(jsonb_agg(jsonb_build_object('key', e.idempotency_key, 'account', l.ledger_account, 'kobo', l.amount_kobo)) FILTER (WHERE e.event = 'settled'), '[]') AS settled
    FROM ${records(rows, { reference: "text" })} r
    JOIN ledger_entry e ON e.charge_id = r.reference
    JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    GROUP BY e.account_id, e.livemode, e.charge_id
    HAVING bool_or(l.ledger_account = 'clearing' AND l.amount_kobo > 0 AND e.event <> 'settled')`
  return new Map(taken.map((one) => [one.reference, one]))
})

const today = () => formatDayOf(currentTime())
/** As rails count days: in Nigeria, where it may be tomorrow already. */
const todayThere = () => formatDayOf(currentTime() + HOUR_MS)

/** A payment is paid out once, and what the rail deducts for what it sent back is deducted once. */
const keyOf = ({ reference, amountKobo }: SettledRow): string => (amountKobo < 0 ? `${reference}:returned` : reference)

/** What the books expect of a row: what was sent back, where the rail deducts it; else all that was taken, or what is left of it. */
const expectedOf = ({ amountKobo }: SettledRow, { taken_kobo, returned_kobo }: Taken): number => {
  if (amountKobo < 0) return -returned_kobo
  return amountKobo === taken_kobo ? taken_kobo : taken_kobo - returned_kobo
}

/** Nothing paid out and nothing kept, though the rail has something of it. */
const saysNothing = (row: SettledRow, taken: Taken): boolean =>
  row.amountKobo === 0 && row.feeKobo === 0 && row.paidOutKobo === 0 && expectedOf(row, taken) !== 0

/** How long before the books had a payment the rail may have paid it out: it may have been heard of late. */
const HEARD_LATE_MS = 31 * DAY_MS

/** Whether a payout is dated as no payout of this payment can be. On a test clock any day may be. */
const isBeforeIt = ({ settledOn }: SettledRow, { test_clock_id, taken_on }: Taken): boolean =>
  settledOn !== null && test_clock_id === null && Date.parse(settledOn) < Date.parse(taken_on) - HEARD_LATE_MS

const entryOf = (rail: RailName, row: SettledRow, taken: Taken): ReadonlyArray<NewEntry> => {
  const day = row.settledOn ?? row.paidOn ?? today()
  const about = {
    account_id: taken.account_id,
    livemode: taken.livemode,
    customerId: taken.customer_id,
    subscriptionId: taken.subscription_id,
    chargeId: taken.reference,
    planId: taken.plan_id,
    billNo: taken.bill_no,
    testClockId: taken.test_clock_id,
    day: dayOf(Date.parse(`${day}T00:00:00Z`)),
  }
  const settled = {
    rail,
    payout: row.payout ?? rail,
    amountKobo: expectedOf(row, taken),
    feeKobo: row.feeKobo,
    paidOutKobo: row.paidOutKobo,
  }
  return entriesOf("settled", keyOf(row), about, settled)
}

/** Adds up what batches of a file come to. */
export class Settling {
  readonly #rail: RailName
  matched = 0
  fees = 0
  payouts = 0
  booked = 0
  readonly unmatched: Array<Unmatched> = []
  /** How many do not match; the first of them are in `unmatched`. */
  unmatchedCount = 0
  /** The accounts that are in the file, and the last day that it is about. */
  readonly #accounts = new Map<string, Tenant>()
  #lastDay = ""

  constructor(rail: RailName) {
    this.#rail = rail
  }

  /** What the file has said already. */
  readonly #seen = new Set<string>()

  #leave(reason: Unmatched["reason"], { reference, row, amountKobo, paidOutKobo }: SettledRow, account: string | null) {
    this.unmatchedCount++
    if (this.unmatched.length >= MAX_UNMATCHED) return
    const amount_kobo = reason === "payout_differs" || reason === "booked_otherwise" ? paidOutKobo : amountKobo
    this.unmatched.push({ side: "file", reference, reason, amount_kobo, account, row })
  }

  #note(row: SettledRow, taken: Taken): void {
    this.matched++
    this.fees += row.feeKobo
    this.payouts += row.paidOutKobo
    this.#accounts.set(`${taken.account_id} ${taken.livemode}`, {
      account_id: taken.account_id,
      livemode: taken.livemode,
    })
    // Without the day of the payment: what was paid on the day of the payout itself comes with a later one.
    const day = row.paidOn ?? formatDayOf(Date.parse(`${row.settledOn ?? today()}T00:00:00Z`) - 1)
    if (day > this.#lastDay) this.#lastDay = day
  }

  /** Compares a row with the books, and returns the entry that it makes. */
  #match(row: SettledRow, taken: Taken, booked: Booked | undefined): ReadonlyArray<NewEntry> {
    const { amountKobo, feeKobo, paidOutKobo } = row
    if (booked !== undefined && (booked.feeKobo !== feeKobo || booked.paidOutKobo !== paidOutKobo)) {
      this.#leave("booked_otherwise", row, taken.account_id)
      return []
    }
    this.#note(row, taken)
    // What the rail paid out is at the bank: what our books do not explain of it is in suspense.
    if ((booked?.amountKobo ?? expectedOf(row, taken)) !== amountKobo)
      this.#leave("amount_differs", row, taken.account_id)
    if (amountKobo - feeKobo !== paidOutKobo) this.#leave("payout_differs", row, taken.account_id)
    return booked === undefined ? entryOf(this.#rail, row, taken) : []
  }

  /** Books a batch of rows, in the running transaction. */
  readonly settle = Effect.fnUntraced({ self: this }, function* (this: Settling, rows: ReadonlyArray<SettledRow>) {
    const sql = yield* SqlClient.SqlClient
    // Two may read the same file: the one that comes second finds what the first has booked.
    yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.settlements}, 0)`
    const all = yield* readTaken(new Set(rows.map(({ reference }) => reference)))
    const entries: Array<NewEntry> = []
    const [day, seen] = [todayThere(), this.#seen]
    for (const row of rows) {
      const taken = all.get(row.reference)
      const key = keyOf(row)
      const booked = taken === undefined ? undefined : bookedOf(taken, key)
      if (taken === undefined) this.#leave("unknown_reference", row, null)
      else if (taken.rail !== this.#rail) this.#leave("other_rail", row, taken.account_id)
      else if (seen.has(key)) this.#leave("duplicate", row, taken.account_id)
      // Announced, or left out of the payout: it comes with a later file.
      else if (booked === undefined && ((row.settledOn ?? "") > day || saysNothing(row, taken)))
        this.#leave("not_paid_out", row, taken.account_id)
      else if (booked === undefined && isBeforeIt(row, taken))
        this.#leave("dated_before_payment", row, taken.account_id)
      else {
        seen.add(key)
        entries.push(...this.#match(row, taken, booked))
      }
    }
    postEntries(yield* unitOfWork, entries)
    this.booked += entries.length
  })

  /**
   * What the rail took of these accounts by the last day of the file and has not paid out, and what it has paid out beyond what it has. In
   * the running transaction.
   */
  readonly finish = Effect.fnUntraced({ self: this }, function* (this: Settling) {
    const sql = yield* SqlClient.SqlClient
    // All that a rail has ever taken of an account.
    yield* forWholeTables
    for (const { account_id, livemode } of this.#accounts.values()) {
      const room = Math.max(0, 2 * MAX_UNMATCHED - this.unmatched.length)
      const open = yield* sql<{ readonly reference: string; readonly kobo: number; readonly found: number }>`
        SELECT reference, CASE WHEN held < 0 THEN held ELSE due END AS kobo, count(*) OVER () AS found
        FROM (
          SELECT e.charge_id AS reference, sum(l.amount_kobo)::bigint AS held,
            coalesce(sum(l.amount_kobo) FILTER (WHERE l.effective_on <= ${this.#lastDay}::date OR e.event IN ('settled', 'refunded')), 0)::bigint AS due
          FROM ledger_line l JOIN ledger_entry e ON (e.account_id, e.livemode, e.id) = (l.account_id, l.livemode, l.entry_id)
          WHERE l.ledger_account = 'clearing' AND l.account_id = ${account_id} AND l.livemode = ${livemode} AND l.detail = ${this.#rail}
          GROUP BY e.charge_id
        ) of_charge
        WHERE held < 0 OR (held > 0 AND due > 0)
        ORDER BY reference LIMIT ${Math.max(1, room)}`
      this.unmatchedCount += open[0]?.found ?? 0
      for (const { reference, kobo } of open.slice(0, room))
        this.unmatched.push({
          side: "books",
          reference,
          reason: kobo > 0 ? "not_paid_out" : "not_deducted",
          amount_kobo: kobo,
          account: account_id,
          row: null,
        })
    }
    const { matched, fees, payouts, booked, unmatched } = this
    return { matched, fees, payouts, booked, unmatched } satisfies Settlement
  })
}
