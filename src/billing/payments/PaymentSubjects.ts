/**
 * PaymentSubjects is the port to the subjects that charges pay for: a subscription's bill, a page's purchase, an instalment plan, or the
 * charge itself. A subject decides what a rail's answer means to it; collecting payment is the same for all.
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

/** A charge before and after a rail's answer, and the instant from which the answer counts. */
export interface Answered {
  readonly before: ChargeRow
  readonly after: ChargeRow
  readonly at: number
  /** For a charge paid on a rail's page: the payment method that the rail saved; null: none. */
  readonly methodId?: string | null
  /** The rail takes no further attempt before this instant (ms since the epoch). */
  readonly retryNotBefore?: number
}

/** What answers mean to the subjects of their charges. */
export interface Settlement {
  /** By charge ID, the subject's decision on the charge: its row, its entries, its events. */
  readonly charges: ReadonlyMap<string, Pick<Parts, "entries" | "events"> & { readonly row?: ChargeRow }>
  /** Further outcomes to write. */
  readonly outcomes: ReadonlyArray<Outcome>
  /** Charges to attempt after the commit; the outcomes create them. */
  readonly attempts: ReadonlyArray<ChargeRow>
  /**
   * Effects on actors that none of the answers is about. Runs in the same transaction, after everything else is written. Returns further
   * charges to attempt, which it commits itself.
   */
  readonly afterwards?: Effect.Effect<ReadonlyArray<ChargeRow>, SqlError.SqlError, SqlClient.SqlClient>
}

/** Decides on answers, in the running transaction. */
export type Settle<R = never> = (
  answered: ReadonlyArray<Answered>,
  nowOf: NowOf,
) => Effect.Effect<Settlement, SqlError.SqlError, SqlClient.SqlClient | R>

/** A committed charge to attempt now. `now`: the time on the customer's clock. */
export interface Attempt {
  readonly charge: ChargeRow
  readonly now: number
}

/** The services that subjects may use for a retry. */
type RetryServices = SqlClient.SqlClient | ProcessLease | VatRate

export interface PaymentSubject {
  readonly handles: (charge: ChargeRow) => boolean
  /** Whether the statements of `lock` can be pipelined with other locks. */
  readonly locksAtOnce: boolean
  /** Locks the subjects of charges before the charges themselves, in the lock order of all transactions. */
  readonly lock: (charges: ReadonlyArray<ChargeRow>) => Effect.Effect<Settle, SqlError.SqlError, SqlClient.SqlClient>
  /** Commits a further attempt at the subject of a failed charge, with the named payment method if one is given. */
  readonly retry: (
    tenant: Tenant,
    charge: ChargeRow,
    named: string | undefined,
  ) => Effect.Effect<Attempt, Problem | SqlError.SqlError, RetryServices>
}

export class PaymentSubjects extends Context.Service<PaymentSubjects, ReadonlyArray<PaymentSubject>>()(
  "billing/billing/payments/PaymentSubjects",
) {}
