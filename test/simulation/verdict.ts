/** Checks the end state after any history: the rails' books and ours agree, and each mismatch is listed exactly. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { replayables } from "../../src/app/lifecycles.ts"
import { checkLedger } from "../../src/ledger/ledger.ts"
import type { OutsideRail } from "../../src/rails/rail/Rail.ts"
import { proveJournal, replayJournal } from "../../src/runtime/replay.ts"
import type { Transaction } from "../support/rails/transaction.ts"
import type { Account } from "./account.ts"
import type { RailCall, RailReport } from "./rails.ts"
import type { World } from "./world.ts"

interface Charge {
  readonly id: string
  readonly account_id: string
  readonly subscription_id: string | null
  readonly bill_no: number | null
  readonly retry_of: string | null
  readonly rail: OutsideRail
  readonly amount_kobo: number
  readonly status: "pending" | "succeeded" | "failed"
  readonly refund_due: boolean
  readonly purpose: "sale" | "verification"
}

interface Exception {
  readonly account_id: string
  readonly charge: string
  readonly kind: string
  readonly rail_amount_kobo: number | null
}

interface Balance {
  readonly account_id: string
  readonly ledger_account: "clearing" | "refunds_payable"
  readonly detail: string | null
  readonly kobo: number
}

interface Announced {
  readonly account_id: string
  readonly object_id: string
  readonly type: string
}

/** The data of all accounts in the database. */
interface OurBooks {
  readonly charges: ReadonlyArray<Charge>
  readonly exceptions: ReadonlyArray<Exception>
  readonly balances: ReadonlyArray<Balance>
  readonly events: ReadonlyArray<Announced>
}

const readBooks = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const books: OurBooks = {
    charges: yield* sql<Charge>`
      SELECT id, account_id, subscription_id, bill_no, retry_of, rail, amount_kobo, status, refund_due, purpose FROM charge ORDER BY id`,
    exceptions: yield* sql<Exception>`
      SELECT account_id, charge, kind, rail_amount_kobo FROM finance.reconciliation_exceptions ORDER BY charge, kind`,
    balances: yield* sql<Balance>`
      SELECT account_id, ledger_account, detail, sum(amount_kobo)::bigint AS kobo FROM ledger_line
      WHERE ledger_account IN ('clearing', 'refunds_payable') GROUP BY 1, 2, 3`,
    events: yield* sql<Announced>`
      SELECT account_id, object_id, type FROM event WHERE type IN ('charge.succeeded', 'charge.failed')`,
  }
  return books
})

const sum = (amounts: ReadonlyArray<number>): number => amounts.reduce((total, amount) => total + amount, 0)

/** A success that counts: the whole amount, in our currency. */
const isPaid = (transaction: Transaction | undefined, amountKobo: number): transaction is Transaction =>
  transaction?.status === "succeeded" && transaction.currency === "NGN" && transaction.amountKobo >= amountKobo

const isNeverRight = (transaction: Transaction | undefined, amountKobo: number): boolean =>
  transaction?.status === "succeeded" && !isPaid(transaction, amountKobo)

/** The exception for an answer, if there is one. */
const exceptionOf = (report: RailReport, amountKobo: number): string | undefined => {
  if (report.isMisnamed) return "reference_differs"
  if (report.currency !== "NGN") return "currency_differs"
  if (report.status !== "succeeded") return report.amountKobo === amountKobo ? undefined : "amount_differs"
  if (report.amountKobo < amountKobo) return "amount_differs"
  return report.amountKobo > amountKobo ? "amount_exceeds" : undefined
}

/** True if an answer was certainly read: it left no later work in the same process. */
const isCertain = ({ marks, railCalls: calls }: Account, index: number): boolean =>
  marks.some((mark) => mark.generation === calls[index]!.generation && mark.callCount > index)

/** Decision P9. */
const ASKS_BEFORE_SENT_AGAIN = 3

class Verdict {
  readonly problems: Array<string> = []
  readonly #account: Account
  readonly #charges: ReadonlyArray<Charge>
  readonly #exceptions: ReadonlyArray<Exception>
  readonly #balances: ReadonlyArray<Balance>
  readonly #events: ReadonlyArray<Announced>

  constructor(account: Account, books: OurBooks) {
    const mine = ({ account_id }: { readonly account_id: string }) => account_id === account.id
    this.#account = account
    this.#charges = books.charges.filter(mine)
    this.#exceptions = books.exceptions.filter(mine)
    this.#balances = books.balances.filter(mine)
    this.#events = books.events.filter(mine)
  }

  #expect = (holds: boolean, problem: () => string): void => {
    if (!holds) this.problems.push(problem())
  }

  #atRail = ({ id, rail }: Charge): Transaction | undefined => this.#account.merchants[rail]?.books.find(id)

  judge = (): ReadonlyArray<string> => {
    for (const charge of this.#charges) {
      this.#judgeCharge(charge)
      this.#judgeExceptions(charge)
    }
    this.#judgeBills()
    this.#judgeMoney()
    return this.problems
  }

  #judgeCharge = (charge: Charge): void => {
    const { id, status, amount_kobo } = charge
    this.#judgeSends(charge)
    const transaction = this.#atRail(charge)
    if (status === "pending")
      this.#expect(
        isNeverRight(transaction, amount_kobo),
        () => `${id} is pending, the rail says ${transaction?.status}`,
      )
    if (status === "succeeded")
      this.#expect(isPaid(transaction, amount_kobo), () => `${id} succeeded, the rail says ${transaction?.status}`)
    const types = this.#events.filter(({ object_id }) => object_id === id).map(({ type }) => type)
    const expected = status === "pending" || charge.purpose === "verification" ? "" : `charge.${status}`
    this.#expect(types.join() === expected, () => `${id} is ${status}, its events are ${types.join()}`)
  }

  /** A charge is sent once, or twice if its process died with the first call and the rail was asked often enough. */
  #judgeSends = ({ id }: Charge): void => {
    const { railCalls } = this.#account
    const [first, second, ...more] = railCalls.flatMap(({ kind, reference }, index) =>
      reference === id && (kind === "charge" || kind === "open") ? [index] : [],
    )
    if (first === undefined || second === undefined) return
    const asks = railCalls.slice(first, second).filter(({ kind, reference }) => kind === "verify" && reference === id)
    const isLost = railCalls[first]!.generation < railCalls[second]!.generation && !isCertain(this.#account, first)
    this.#expect(
      isLost && asks.length >= ASKS_BEFORE_SENT_AGAIN && more.length === 0,
      () =>
        `${id} was sent to its rail ${more.length + 2} times, and the rail was asked ${asks.length} times in between`,
    )
  }

  #judgeExceptions = (charge: Charge): void => {
    const { id, status, amount_kobo } = charge
    const listed = this.#exceptions.filter((one) => one.charge === id)
    const { railCalls } = this.#account
    // From then on the refund is verified.
    const refunded = railCalls.findIndex(({ reference, kind }) => reference === id && kind === "refund")
    const planted = railCalls.flatMap(({ reference, report }: RailCall, index) => {
      const isAbout = reference === id && report !== undefined && (refunded === -1 || index < refunded)
      const kind = isAbout ? exceptionOf(report, amount_kobo) : undefined
      return kind === undefined ? [] : [{ kind, kobo: report!.amountKobo, certain: isCertain(this.#account, index) }]
    })
    const isContradicted = status === "failed" && isPaid(this.#atRail(charge), amount_kobo)
    for (const { kind, rail_amount_kobo } of listed) {
      if (kind === "succeeded_after_failure") {
        this.#expect(isContradicted, () => `${id} is listed as ${kind}, which it is not`)
        continue
      }
      const same = planted.some((one) => one.kind === kind && one.kobo === rail_amount_kobo)
      this.#expect(same, () => `${id} is listed as ${kind} over ${rail_amount_kobo} kobo, which no rail reported`)
    }
    const isListed = (kind: string) => listed.some((one) => one.kind === kind)
    for (const { kind, certain } of planted)
      this.#expect(isListed(kind) || !certain, () => `${id} is not listed as ${kind}`)
    this.#expect(
      isListed("succeeded_after_failure") || !isContradicted,
      () => `${id} failed, was paid, and is not listed`,
    )
  }

  /** At most one attempt at a bill, or at a one-off charge, is paid. */
  #judgeBills = (): void => {
    const byId = new Map(this.#charges.map((charge) => [charge.id, charge]))
    const rootOf = (charge: Charge): string => {
      const before = charge.retry_of === null ? undefined : byId.get(charge.retry_of)
      return before === undefined ? charge.id : rootOf(before)
    }
    const billOf = (charge: Charge) =>
      charge.subscription_id === null ? rootOf(charge) : `${charge.subscription_id} ${charge.bill_no}`
    for (const [bill, attempts] of Map.groupBy(this.#charges, billOf)) {
      const paid = attempts.filter(({ status }) => status === "succeeded")
      this.#expect(paid.length <= 1, () => `bill ${bill} is paid by ${paid.map(({ id }) => id).join()}`)
    }
  }

  #judgeMoney = (): void => {
    const balance = (ledgerAccount: string, detail?: string) =>
      sum(
        this.#balances
          .filter((one) => one.ledger_account === ledgerAccount && (detail === undefined || one.detail === detail))
          .map(({ kobo }) => kobo),
      )
    const ours = new Map(this.#charges.map((charge) => [charge.id, charge]))
    for (const [rail, { books }] of Object.entries(this.#account.merchants)) {
      const unbooked = [...books.transactions.values()].filter(({ reference, currency, status, amountKobo }) => {
        const charge = ours.get(reference.replace("-", "_"))
        return (
          currency === "NGN" && status === "succeeded" && amountKobo < (charge?.amount_kobo ?? Number.POSITIVE_INFINITY)
        )
      })
      const expected = books.totalTaken() - books.totalReturned() - sum(unbooked.flatMap(({ taken }) => taken))
      const booked = balance("clearing", rail)
      this.#expect(booked === expected, () => `${rail} has ${expected} kobo of ours, our books say ${booked}`)
      for (const { reference } of books.transactions.values())
        this.#expect(ours.has(reference.replace("-", "_")), () => `${rail} has ${reference}, of which we know nothing`)
    }
    const owed = this.#charges.map((charge) => {
      const transaction = this.#atRail(charge)
      if (!isPaid(transaction, charge.amount_kobo)) return 0
      const back = sum(
        transaction.refunds.filter(({ status }) => status === "returned").map(({ amountKobo }) => amountKobo),
      )
      const isWhole = charge.status === "failed" || charge.refund_due || charge.purpose === "verification"
      return (isWhole ? transaction.amountKobo : transaction.amountKobo - charge.amount_kobo) - back
    })
    const payable = -balance("refunds_payable")
    this.#expect(payable === sum(owed), () => `${sum(owed)} kobo are owed back, our books say ${payable}`)
  }
}

/** Work that only an operator can do: planted by the test. */
const EXPECTED_COMPLAINT = "a rail refuses an account's calls"

/** The errors, by account. Errors of all accounts together are under "". */
export const judge = async (
  world: World,
  accounts: ReadonlyArray<Account>,
): Promise<ReadonlyMap<string, ReadonlyArray<string>>> => {
  const books = await world.operate(readBooks)
  const problems = new Map<string, ReadonlyArray<string>>()
  for (const account of accounts) {
    const found = new Verdict(account, books).judge()
    if (found.length > 0) problems.set(account.id, found)
  }
  const { ledger, journal, proof, left } = await world.operate(
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      return {
        ledger: yield* checkLedger(),
        journal: yield* replayJournal(replayables, []),
        proof: yield* proveJournal(replayables),
        left: yield* sql<{ what: string }>`
          SELECT 'call ' || kind || ' about ' || id AS what FROM rail_call UNION ALL SELECT 'callback about ' || reference FROM rail_callback`,
      }
    }),
  )
  const all = [
    ...ledger.problems.map((problem) => `ledger: ${problem}`),
    ...journal.differing.map(({ actor, reason }) => `journal of ${actor}: ${reason}`),
    ...proof.first.map((changed) => `proof of the journal: ${JSON.stringify(changed)}`),
    ...left.map(({ what }) => `left over: ${what}`),
    ...world.complaints
      .filter(({ message }) => message !== EXPECTED_COMPLAINT)
      .map(({ message, cause }) => `logged: ${message} ${cause}`),
  ]
  return all.length === 0 ? problems : problems.set("", all)
}

export interface Found {
  readonly charges: number
  readonly refunds: number
  readonly exceptions: Readonly<Record<string, number>>
}

/** The counters, for the summary. */
export const countAll = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [counts] = yield* sql<{ charges: number; refunds: number }>`
    SELECT (SELECT count(*) FROM charge) AS charges, (SELECT count(*) FROM refund) AS refunds`
  const kinds = yield* sql<{ kind: string; n: number }>`
    SELECT kind, count(*) AS n FROM finance.reconciliation_exceptions GROUP BY kind`
  const exceptions = Object.fromEntries(kinds.map(({ kind, n }) => [kind, n]))
  return { ...counts!, exceptions } satisfies Found
})
