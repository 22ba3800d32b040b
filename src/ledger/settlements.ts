/**
 * Imports rails' settlement files. It matches the rows with payments in the books by reference, and books the money at the bank, the
 * rail's fee and the amount that has left the rail. A row is booked once, so a file may be imported twice, and again after a crash.
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
import {
  aboutReference,
  lockSettlements,
  nth,
  type RailPayment,
  readTaken,
  type SettlementEntry,
} from "./references.ts"
import type { SettledRow } from "./settlementFile.ts"

/**
 * A payment that does not match, and why: `unknown_reference`, `other_rail`, `amount_differs` and `payout_differs` (from the amount
 * less the fee; for both the difference is in suspense), `booked_otherwise` (an earlier file has another fee or payout, which
 * stays booked), `dated_before_payment` (by more than a month: a mistyped year, for example), `duplicate` (an earlier row
 * has it), `not_paid_out`, `not_deducted` (it was sent back after the payout).
 */
export interface Unmatched {
  /** The source: the rail's file, or our books. */
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
  /** The amount paid out if that differs; else the rail's amount, or the one in our books. */
  readonly amount_kobo: number
  readonly account: string | null
  /** The row of the file. */
  readonly row: number | null
}

export interface Settlement {
  /** Rows of the file that match. Each other row is in `unmatched`, once. */
  readonly matched: number
  /** Sums over all booked rows, including those with a difference in suspense (kobo). */
  readonly fees: number
  readonly payouts: number
  /** The number of new entries. */
  readonly booked: number
  readonly unmatched: ReadonlyArray<Unmatched>
}

/** Unmatched payments listed of each side: a file of another merchant must not fill the memory. */
const MAX_UNMATCHED = 5_000

const today = () => formatDayOf(currentTime())
/** Today in Nigeria, as rails count days: it may be tomorrow in UTC. */
const todayInLagos = () => formatDayOf(currentTime() + HOUR_MS)

/** Returns the amount that the books expect in a row: the refund if the rail deducts it; else the full payment, or the rest of it. */
const expectedOf = ({ amountKobo }: SettledRow, { taken_kobo, returned_kobo }: RailPayment): number => {
  if (amountKobo < 0) return -returned_kobo
  return amountKobo === taken_kobo ? taken_kobo : taken_kobo - returned_kobo
}

/** Whether all amounts of a row are zero, although the rail still has money of the payment. */
const isEmptyRow = (row: SettledRow, taken: RailPayment): boolean =>
  row.amountKobo === 0 && row.feeKobo === 0 && row.paidOutKobo === 0 && expectedOf(row, taken) !== 0

/** How long before its day in the books a payment may be paid out: its result may have arrived late. */
const LATE_RESULT_MS = 31 * DAY_MS

/** Whether a payout is dated too long before its payment. On a test clock any day is possible. */
const isBeforePayment = ({ settledOn }: SettledRow, { test_clock_id, taken_on }: RailPayment): boolean =>
  settledOn !== null && test_clock_id === null && Date.parse(settledOn) < Date.parse(taken_on) - LATE_RESULT_MS

/** Whether a row made this entry in an earlier import. */
const isSame = (row: SettledRow, { feeKobo, paidOutKobo, payout, day }: SettlementEntry): boolean =>
  row.feeKobo === feeKobo &&
  row.paidOutKobo === paidOutKobo &&
  (row.payout === null || payout === null || row.payout === payout) &&
  (row.settledOn === null || row.settledOn === day)

/** Whether a row pays out exactly the missing amount of a reference, or deducts exactly the excess (decision Q9). */
const isMissing = ({ amountKobo, feeKobo, paidOutKobo }: SettledRow, taken: RailPayment): boolean =>
  taken.suspense_kobo !== 0 && amountKobo === taken.suspense_kobo && amountKobo - feeKobo === paidOutKobo

const missingKey = ({ reference }: SettledRow): string => `${reference}:missing`
const isOfMissing = (key: string, row: SettledRow): boolean => key.startsWith(missingKey(row))

/** The entry about its reference that a row has made, or will make. */
interface Target {
  readonly key: string
  /** The amount that the books expect. */
  readonly expectedKobo: number
}

/** Returns the entry of a row. A payment is paid out once, a refund deducted once, and a missing amount paid once. */
const targetOf = (row: SettledRow, taken: RailPayment): Target => {
  const own = {
    key: row.amountKobo < 0 ? `${row.reference}:returned` : row.reference,
    expectedKobo: expectedOf(row, taken),
  }
  const same = taken.booked.find((one) => isSame(row, one))
  if (same !== undefined) return { key: same.key, expectedKobo: same.amountKobo }
  const isOwn = own.expectedKobo === row.amountKobo && !taken.booked.some(({ key }) => key === own.key)
  if (isOwn || !isMissing(row, taken)) return own
  const count = taken.booked.filter(({ key }) => isOfMissing(key, row)).length
  return { key: nth(missingKey(row), count), expectedKobo: 0 }
}

/** Returns the amounts that a row books. */
const bookingOf = (rail: RailName, row: SettledRow, { key, expectedKobo }: Target): SettlementEntry => ({
  key,
  day: row.settledOn ?? row.paidOn ?? today(),
  payout: row.payout ?? rail,
  amountKobo: expectedKobo,
  feeKobo: row.feeKobo,
  paidOutKobo: row.paidOutKobo,
  suspenseKobo: expectedKobo - row.feeKobo - row.paidOutKobo,
})

const entryOf = (
  rail: RailName,
  { key, day, payout, ...amounts }: SettlementEntry,
  taken: RailPayment,
): ReadonlyArray<NewEntry> =>
  entriesOf("settled", key, aboutReference(taken, day), { rail, payout: payout ?? rail, ...amounts })

const keep = <Value>(values: Map<string, Value>, name: string, value: Value | undefined): void => {
  if (value !== undefined) values.set(name, value)
}

/** Settling is the import of one file: it books batches of rows and adds up their totals. */
export class SettlementImport {
  readonly #rail: RailName
  matched = 0
  fees = 0
  payouts = 0
  booked = 0
  unmatched: Array<Unmatched> = []
  /** The number of unmatched payments. The first are in `unmatched`. */
  unmatchedCount = 0
  /** The accounts in the file, and the last day that it covers. */
  readonly #accounts = new Map<string, Tenant>()
  #lastDay = ""

  /** Whether it only finds out what it would book. */
  readonly #isTrial: boolean
  /** What a trial would have booked before, by reference. */
  readonly #tried = new Map<string, RailPayment>()

  constructor(rail: RailName, { isTrial = false } = {}) {
    this.#rail = rail
    this.#isTrial = isTrial
  }

  /** Keys of the entries that rows of this file have used. */
  readonly #seen = new Set<string>()

  #addUnmatched(
    reason: Unmatched["reason"],
    { reference, row, amountKobo, paidOutKobo }: SettledRow,
    account: string | null,
  ) {
    this.unmatchedCount++
    if (this.unmatched.length >= MAX_UNMATCHED) return
    const amount_kobo = reason === "payout_differs" || reason === "booked_otherwise" ? paidOutKobo : amountKobo
    this.unmatched.push({ side: "file", reference, reason, amount_kobo, account, row })
  }

  /** Counts rows of a reference as matching, after a later row of the file has ended their suspense. */
  #resolve(reference: string): void {
    const rest = this.unmatched.filter(
      (one) => !(one.reference === reference && (one.reason === "amount_differs" || one.reason === "payout_differs")),
    )
    const resolved = this.unmatched.length - rest.length
    this.unmatched = rest
    this.unmatchedCount -= resolved
    this.matched += resolved
  }

  #count(row: SettledRow, taken: RailPayment): void {
    this.fees += row.feeKobo
    this.payouts += row.paidOutKobo
    this.#accounts.set(`${taken.account_id} ${taken.livemode}`, {
      account_id: taken.account_id,
      livemode: taken.livemode,
    })
    // If the file has no day of payment: payments of the payout day itself are in a later payout.
    const day = row.paidOn ?? formatDayOf(Date.parse(`${row.settledOn ?? today()}T00:00:00Z`) - 1)
    if (day > this.#lastDay) this.#lastDay = day
  }

  /** Returns why a row is not booked; undefined: it is booked now, or was before. */
  #refusal(
    row: SettledRow,
    taken: RailPayment,
    { key }: Target,
    booked: SettlementEntry | undefined,
  ): Unmatched["reason"] | undefined {
    if (taken.rail !== this.#rail) return "other_rail"
    if (this.#seen.has(key)) return "duplicate"
    if (booked !== undefined)
      return booked.feeKobo === row.feeKobo && booked.paidOutKobo === row.paidOutKobo ? undefined : "booked_otherwise"
    // Announced for a later day, or not part of this payout: a later file has it.
    if ((row.settledOn ?? "") > todayInLagos() || isEmptyRow(row, taken)) return "not_paid_out"
    return isBeforePayment(row, taken) ? "dated_before_payment" : undefined
  }

  /** Returns how a row differs from the books; undefined: it matches, or its difference was explained or paid out later. */
  #difference(row: SettledRow, taken: RailPayment, booked: SettlementEntry): Unmatched["reason"] | undefined {
    if (booked.suspenseKobo !== 0 && taken.suspense_kobo === 0) return undefined
    if (booked.amountKobo !== row.amountKobo && !isOfMissing(booked.key, row)) return "amount_differs"
    return row.amountKobo - row.feeKobo === row.paidOutKobo ? undefined : "payout_differs"
  }

  /** Compares a row with the books. Returns the payment after the row, and the row's new entries. */
  #match(row: SettledRow, taken: RailPayment): readonly [RailPayment, ReadonlyArray<NewEntry>] {
    const target = targetOf(row, taken)
    const existing = taken.booked.find(({ key }) => key === target.key)
    const refusal = this.#refusal(row, taken, target, existing)
    if (refusal !== undefined) {
      this.#addUnmatched(refusal, row, taken.account_id)
      return [taken, []]
    }
    this.#seen.add(target.key)
    this.#count(row, taken)
    // The paid-out amount is at the bank. The part that our books do not explain goes to suspense.
    const booked = existing ?? bookingOf(this.#rail, row, target)
    const after =
      existing === undefined
        ? { ...taken, booked: [...taken.booked, booked], suspense_kobo: taken.suspense_kobo + booked.suspenseKobo }
        : taken
    const difference = this.#difference(row, after, booked)
    if (difference === undefined) this.matched++
    else this.#addUnmatched(difference, row, taken.account_id)
    if (taken.suspense_kobo !== 0 && after.suspense_kobo === 0) this.#resolve(row.reference)
    return [after, existing === undefined ? entryOf(this.#rail, booked, taken) : []]
  }

  /** Books a batch of rows, in the running transaction. It finds payments of those accounts only that the transaction may see. */
  readonly settle = Effect.fnUntraced(
    { self: this },
    function* (this: SettlementImport, rows: ReadonlyArray<SettledRow>) {
      if (!this.#isTrial) yield* lockSettlements
      const all = new Map([...(yield* readTaken(new Set(rows.map(({ reference }) => reference)))), ...this.#tried])
      const entries: Array<NewEntry> = []
      for (const row of rows) {
        const taken = all.get(row.reference)
        if (taken === undefined) {
          this.#addUnmatched("unknown_reference", row, null)
          continue
        }
        const [after, made] = this.#match(row, taken)
        all.set(row.reference, after)
        entries.push(...made)
      }
      if (this.#isTrial) for (const { reference } of rows) keep(this.#tried, reference, all.get(reference))
      else postEntries(yield* unitOfWork, entries)
      this.booked += entries.length
    },
  )

  /**
   * Adds the payments of these accounts that the rail has not paid out by the last day of the file, and those that it paid out beyond what it
   * has. In the running transaction.
   */
  readonly finish = Effect.fnUntraced({ self: this }, function* (this: SettlementImport) {
    const sql = yield* SqlClient.SqlClient
    // Reads all payments that the rail has ever taken for an account.
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
