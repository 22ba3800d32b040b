/** Reads from the books the payments of rails' references: the amounts taken, settled and in suspense. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { dayOf } from "../base/time.ts"
import { rowsAsTable } from "../db/rows.ts"
import type { Tenant } from "../db/tenant.ts"
import { LOCKS } from "../postgres/advisoryLocks.ts"
import type { LedgerAccount } from "./chart.ts"
import type { About } from "./ledger.ts"

/** A line of an entry that settles a reference. */
interface SettledLine {
  /** The idempotency key of its entry. */
  readonly key: string
  /** The day of its entry, `YYYY-MM-DD`. */
  readonly day: string
  readonly account: LedgerAccount
  readonly detail: string | null
  readonly kobo: number
}

interface TakenRow extends Tenant {
  readonly reference: string
  readonly customer_id: string | null
  readonly subscription_id: string | null
  readonly plan_id: string | null
  readonly bill_no: number | null
  readonly test_clock_id: string | null
  readonly rail: string
  /** The first day of the payment in the books. */
  readonly taken_on: string
  /** The amount that the rail took, and the part that it sent back. */
  readonly taken_kobo: number
  readonly returned_kobo: number
  /** How many entries explained its suspense. */
  readonly explained: number
  readonly settled: ReadonlyArray<SettledLine>
}

/** The amounts that a row of a rail's file booked. */
export interface SettlementEntry {
  /** The idempotency key of its entry, without the name of the rule. */
  readonly key: string
  readonly day: string
  /** Null: nothing was paid out. */
  readonly payout: string | null
  readonly amountKobo: number
  readonly feeKobo: number
  readonly paidOutKobo: number
  readonly suspenseKobo: number
}

/** A payment of a rail in the books, by its reference. */
export interface RailPayment extends Omit<TakenRow, "settled"> {
  readonly booked: ReadonlyArray<SettlementEntry>
  /** The amount in suspense: above zero if the rail paid out too little. */
  readonly suspense_kobo: number
}

const SETTLED = "settled:"

const bookedOf = (key: string, lines: ReadonlyArray<SettledLine>): SettlementEntry => {
  const line = (account: LedgerAccount) => lines.find((one) => one.account === account)
  const kobo = (account: LedgerAccount) => line(account)?.kobo ?? 0
  return {
    key: key.slice(SETTLED.length),
    day: lines[0]!.day,
    payout: line("bank")?.detail ?? null,
    amountKobo: 0 - kobo("clearing"),
    feeKobo: kobo("rail_fees"),
    paidOutKobo: kobo("bank"),
    suspenseKobo: kobo("suspense"),
  }
}

/** Locks out other settlements until the running transaction ends. If two processes import a file, the second finds the entries of the first. */
export const lockSettlements = Effect.flatMap(
  SqlClient.SqlClient,
  (sql) => sql`SELECT pg_advisory_xact_lock(${LOCKS.settlements}, 0)`,
)

/** Reads the payments of references, by reference. References without a payment are left out. */
export const readTaken = Effect.fnUntraced(function* (references: ReadonlySet<string>) {
  const sql = yield* SqlClient.SqlClient
  const rows = [...references].map((reference) => ({ reference }))
  const taken = yield* sql<TakenRow & { readonly suspense_kobo: number }>`
    SELECT e.account_id, e.livemode, e.charge_id AS reference, max(e.customer_id) AS customer_id, max(e.subscription_id) AS subscription_id, max(e.plan_id) AS plan_id,
      max(e.bill_no) AS bill_no, max(e.test_clock_id) AS test_clock_id,
      min(l.detail) FILTER (WHERE l.ledger_account = 'clearing' AND e.event <> 'settled') AS rail,
      (min(e.occurred_on) FILTER (WHERE e.event <> 'settled'))::text AS taken_on,
      coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing' AND l.amount_kobo > 0 AND e.event <> 'settled'), 0)::bigint AS taken_kobo,
      coalesce(-sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'clearing' AND e.event = 'refunded'), 0)::bigint AS returned_kobo,
      coalesce(sum(l.amount_kobo) FILTER (WHERE l.ledger_account = 'suspense'), 0)::bigint AS suspense_kobo,
      count(DISTINCT e.id) FILTER (WHERE e.event = 'explained')::integer AS explained,
      coalesce(jsonb_agg(jsonb_build_object('key', e.idempotency_key, 'day', e.occurred_on, 'account', l.ledger_account, 'detail', l.detail, 'kobo', l.amount_kobo)
        ORDER BY e.posted_at, e.id) FILTER (WHERE e.event = 'settled'), '[]') AS settled
    FROM ${rowsAsTable(rows, { reference: "text" })} r
    JOIN ledger_entry e ON e.charge_id = r.reference
    JOIN ledger_line l ON (l.account_id, l.livemode, l.entry_id) = (e.account_id, e.livemode, e.id)
    GROUP BY e.account_id, e.livemode, e.charge_id
    HAVING bool_or(l.ledger_account = 'clearing' AND l.amount_kobo > 0 AND e.event <> 'settled')`
  return new Map(
    taken.map(({ settled, ...row }): readonly [string, RailPayment] => {
      const entries = [...Map.groupBy(settled, ({ key }) => key)]
      return [row.reference, { ...row, booked: entries.map(([key, lines]) => bookedOf(key, lines)) }]
    }),
  )
})

/** Returns the objects of an entry about a reference, on a day `YYYY-MM-DD`. */
export const aboutReference = (taken: RailPayment, day: string): About => ({
  account_id: taken.account_id,
  livemode: taken.livemode,
  customerId: taken.customer_id,
  subscriptionId: taken.subscription_id,
  chargeId: taken.reference,
  planId: taken.plan_id,
  billNo: taken.bill_no,
  testClockId: taken.test_clock_id,
  day: dayOf(Date.parse(`${day}T00:00:00Z`)),
})

/** Returns the key of the n-th entry of a kind about a reference, from 0. The first has the plain key. */
export const nth = (key: string, n: number): string => (n === 0 ? key : `${key}:${n + 1}`)
