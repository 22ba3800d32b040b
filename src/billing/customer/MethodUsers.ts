/** MethodUsers is the port to the subscriptions that a customer's payment methods pay for. It runs in the transaction that changes them. */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ProcessLease } from "../../process/ProcessLease.ts"
import type { CustomerRow } from "./customer.ts"

type Work = Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient | ProcessLease>

/** Reacts to a change of a method; returns the work to run after the commit. `now`: the time on the customer's clock. */
type Change = (
  customer: CustomerRow,
  methodId: string,
  now: number,
) => Effect.Effect<Work, SqlError.SqlError, SqlClient.SqlClient | ProcessLease>

export class MethodUsers extends Context.Service<
  MethodUsers,
  {
    /** The customer has a new default method (decision E6). */
    readonly methodSet: Change
    /** A method is about to be removed (decisions C4, E28). */
    readonly methodRemoved: Change
    /** Finishes the charges of a request that a crash interrupted. */
    readonly recover: (customerId: string) => Work
  }
>()("billing/billing/customer/MethodUsers") {}
