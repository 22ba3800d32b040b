/**
 * Settlements of rails: what a rail's file says that it paid out is matched with the payments in the books by reference, and
 * booked: the money at the bank, the rail's fee, and what the rail no longer holds. A row is booked once, so that a file may be read
 * twice, and again after a crash.
 */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { DAY_MS, formatDayOf, HOUR_MS } from "../base/time.ts"
import { currentTime } from "../base/wallClock.ts"
import type { Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { withFullScans } from "../postgres/fullScan.ts"
import type { RailName } from "../rails/rail/Rail.ts"
import { entriesOf, type NewEntry, postEntries } from "./ledger.ts"
import { aboutReference, type Booked, lockSettlements, nth, readTaken, type Taken } from "./references.ts"
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
  /** Rows of the file that match; each other row is in `unmatched`, once. */
  readonly matched: number
  /** Of all rows that are booked, also where their difference is in suspense: kobo. */
  readonly fees: number
  readonly payouts: number
  /** Entries that were not there yet. */
  readonly booked: number
  readonly unmatched: ReadonlyArray<Unmatched>
}

/** Listed of each side; a file that is of somebody else's account altogether fills no memory. */
const MAX_UNMATCHED = 5_000

const today = () => formatDayOf(currentTime())
/** As rails count days: in Nigeria, where it may be tomorrow already. */
const todayThere = () => formatDayOf(currentTime() + HOUR_MS)

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

/** Whether a row is the one that made an entry when it was read before. */
const isSame = (row: SettledRow, { feeKobo, paidOutKobo, payout, day }: Booked): boolean =>
  row.feeKobo === feeKobo &&
  row.paidOutKobo === paidOutKobo &&
  (row.payout === null || payout === null || row.payout === payout) &&
  (row.settledOn === null || row.settledOn === day)

/** Whether a row pays out exactly what is missing of a reference, or takes back what was paid out too much (decision Q9). */
const isMissing = ({ amountKobo, feeKobo, paidOutKobo }: SettledRow, taken: Taken): boolean =>
  taken.suspense_kobo !== 0 && amountKobo === taken.suspense_kobo && amountKobo - feeKobo === paidOutKobo

const missingKey = ({ reference }: SettledRow): string => `${reference}:missing`
const isOfMissing = (key: string, row: SettledRow): boolean => key.startsWith(missingKey(row))

/** What a row says of the books: which of the entries about its reference it made, or is to make. */
interface Reading {
  readonly key: string
  /** What the books expect of it. */
  readonly expectedKobo: number
}

/** A payment is paid out once, what the rail deducts for what it sent back is deducted once, and what was missing comes once. */
const readingOf = (row: SettledRow, taken: Taken): Reading => {
  const own = {
    key: row.amountKobo < 0 ? `${row.reference}:returned` : row.reference,
    expectedKobo: expectedOf(row, taken),
  }
  const same = taken.booked.find((one) => isSame(row, one))
  if (same !== undefined) return { key: same.key, expectedKobo: same.amountKobo }
  const isOwn = own.expectedKobo === row.amountKobo && !taken.booked.some(({ key }) => key === own.key)
  if (isOwn || !isMissing(row, taken)) return own
  const before = taken.booked.filter(({ key }) => isOfMissing(key, row)).length
  return { key: nth(missingKey(row), before), expectedKobo: 0 }
}

/** What a row is to book. */
const bookingOf = (rail: RailName, row: SettledRow, { key, expectedKobo }: Reading): Booked => ({
  key,
  day: row.settledOn ?? row.paidOn ?? today(),
  payout: row.payout ?? rail,
  amountKobo: expectedKobo,
  feeKobo: row.feeKobo,
  paidOutKobo: row.paidOutKobo,
  suspenseKobo: expectedKobo - row.feeKobo - row.paidOutKobo,
})

const entryOf = (rail: RailName, { key, day, payout, ...amounts }: Booked, taken: Taken): ReadonlyArray<NewEntry> =>
  entriesOf("settled", key, aboutReference(taken, day), { rail, payout: payout ?? rail, ...amounts })

/** Adds up what batches of a file come to. */
export class Settling {
  readonly #rail: RailName
  matched = 0
  fees = 0
  payouts = 0
  booked = 0
  unmatched: Array<Unmatched> = []
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

  /** Takes the rows of a reference for matching that left in suspense what a row of the same file has ended. */
  #resolve(reference: string): void {
    const left = this.unmatched.filter(
      (one) => !(one.reference === reference && (one.reason === "amount_differs" || one.reason === "payout_differs")),
    )
    const resolved = this.unmatched.length - left.length
    this.unmatched = left
    this.unmatchedCount -= resolved
    this.matched += resolved
  }

  #note(row: SettledRow, taken: Taken): void {
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

  /** Why a row is not booked; undefined: it is, or has been. */
  #refusal(
    row: SettledRow,
    taken: Taken,
    { key }: Reading,
    booked: Booked | undefined,
  ): Unmatched["reason"] | undefined {
    if (taken.rail !== this.#rail) return "other_rail"
    if (this.#seen.has(key)) return "duplicate"
    if (booked !== undefined)
      return booked.feeKobo === row.feeKobo && booked.paidOutKobo === row.paidOutKobo ? undefined : "booked_otherwise"
    // Announced, or left out of the payout: it comes with a later file.
    if ((row.settledOn ?? "") > todayThere() || saysNothing(row, taken)) return "not_paid_out"
    return isBeforeIt(row, taken) ? "dated_before_payment" : undefined
  }

  /** How a row differs from the books; undefined: it matches, or its difference has been explained or paid out since. */
  #difference(row: SettledRow, taken: Taken, booked: Booked): Unmatched["reason"] | undefined {
    if (booked.suspenseKobo !== 0 && taken.suspense_kobo === 0) return undefined
    if (booked.amountKobo !== row.amountKobo && !isOfMissing(booked.key, row)) return "amount_differs"
    return row.amountKobo - row.feeKobo === row.paidOutKobo ? undefined : "payout_differs"
  }

  /** Compares a row with the books, and returns what they have of its reference with it, and the entry that it makes. */
  #read(row: SettledRow, taken: Taken): readonly [Taken, ReadonlyArray<NewEntry>] {
    const reading = readingOf(row, taken)
    const before = taken.booked.find(({ key }) => key === reading.key)
    const refusal = this.#refusal(row, taken, reading, before)
    if (refusal !== undefined) {
      this.#leave(refusal, row, taken.account_id)
      return [taken, []]
    }
    this.#seen.add(reading.key)
    this.#note(row, taken)
    // What the rail paid out is at the bank: what our books do not explain of it is in suspense.
    const booked = before ?? bookingOf(this.#rail, row, reading)
    const after =
      before === undefined
        ? { ...taken, booked: [...taken.booked, booked], suspense_kobo: taken.suspense_kobo + booked.suspenseKobo }
        : taken
    const difference = this.#difference(row, after, booked)
    if (difference === undefined) this.matched++
    else this.#leave(difference, row, taken.account_id)
    if (taken.suspense_kobo !== 0 && after.suspense_kobo === 0) this.#resolve(row.reference)
    return [after, before === undefined ? entryOf(this.#rail, booked, taken) : []]
  }

  /** Books a batch of rows, in the running transaction. */
  readonly settle = Effect.fnUntraced({ self: this }, function* (this: Settling, rows: ReadonlyArray<SettledRow>) {
    yield* lockSettlements
    const all = yield* readTaken(new Set(rows.map(({ reference }) => reference)))
    const entries: Array<NewEntry> = []
    for (const row of rows) {
      const taken = all.get(row.reference)
      if (taken === undefined) {
        this.#leave("unknown_reference", row, null)
        continue
      }
      const [after, made] = this.#read(row, taken)
      all.set(row.reference, after)
      entries.push(...made)
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
    yield* withFullScans
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
