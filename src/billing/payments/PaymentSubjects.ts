/**
 * The port to what charges are for: a subscription's bill, what a page is opened for, an instalment plan, or nothing but themselves. An owner says what the answers of a
 * rail mean to it; collecting payment is the same for all of them.
 */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../../base/problem.ts"
import type { NowOf } from "../../base/time.ts"
import type { Tenant } from "../../db/tenant.ts"
import type { VatRate } from "../../ledger/VatRate.ts"
import type { ProcessLease } from "../../process/ProcessLease.ts"
import type { Outcome, Parts } from "../../runtime/outcome.ts"
import type { ChargeRow } from "../charge/charge.ts"

/** A charge before and after a rail's answer, and when the answer counts from. */
export interface Answered {
  readonly before: ChargeRow
  readonly after: ChargeRow
  readonly at: number
  /** Of one that was paid on a rail's page: the payment method that the rail saved; null: none. */
  readonly methodId?: string | null
  /** The rail takes no further attempt before (ms since the epoch). */
  readonly retryNotBefore?: number
}

/** What answers mean to their charges' owner. */
export interface Settlement {
  /** By charge ID, what the owner decided on the charge: its row, its entries, the events about it. */
  readonly charges: ReadonlyMap<string, Pick<Parts, "entries" | "events"> & { readonly row?: ChargeRow }>
  /** What else is to be written. */
  readonly outcomes: ReadonlyArray<Outcome>
  /** Charges to attempt once that is committed; they are among what the outcomes bring about. */
  readonly attempts: ReadonlyArray<ChargeRow>
  /**
   * What follows for actors that none of the answers is about, from how things stand once all of that is written: in the same
   * transaction. Returns further charges to attempt, committed by itself.
   */
  readonly afterwards?: Effect.Effect<ReadonlyArray<ChargeRow>, SqlError.SqlError, SqlClient.SqlClient>
}

/** In the running transaction. */
export type Settle<R = never> = (
  answered: ReadonlyArray<Answered>,
  nowOf: NowOf,
) => Effect.Effect<Settlement, SqlError.SqlError, SqlClient.SqlClient | R>

/** A charge that is committed, to be attempted now (by the customer's clock). */
export interface Attempt {
  readonly charge: ChargeRow
  readonly now: number
}

/** What owners may use when a charge is retried. */
type RetryServices = SqlClient.SqlClient | ProcessLease | VatRate

export interface PaymentSubject {
  readonly handles: (charge: ChargeRow) => boolean
  /** Whether what `lock` sends goes out in one go. */
  readonly locksAtOnce: boolean
  /** Locks what the charges are for, before they are locked themselves: so does everybody. */
  readonly lock: (charges: ReadonlyArray<ChargeRow>) => Effect.Effect<Settle, SqlError.SqlError, SqlClient.SqlClient>
  /** Commits a further attempt at what a failed charge is for, with a payment method named for it or not. */
  readonly retry: (
    tenant: Tenant,
    charge: ChargeRow,
    named: string | undefined,
  ) => Effect.Effect<Attempt, Problem | SqlError.SqlError, RetryServices>
}

export class PaymentSubjects extends Context.Service<PaymentSubjects, ReadonlyArray<PaymentSubject>>()(
  "billing/collecting/ChargeOwners",
) {}
