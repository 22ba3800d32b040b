/** The port to whatever charges a customer's payment methods: it takes part in the transaction that changes them. */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ProcessLease } from "../../process/ProcessLease.ts"
import type { CustomerRow } from "./customer.ts"

type Work = Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient | ProcessLease>

/** What a change of a method means: returns what is left to do after the commit. `now` is the customer's. */
type Change = (
  customer: CustomerRow,
  methodId: string,
  now: number,
) => Effect.Effect<Work, SqlError.SqlError, SqlClient.SqlClient | ProcessLease>

export class MethodUsers extends Context.Service<
  MethodUsers,
  {
    /** There is a new default (decision E6). */
    readonly methodSet: Change
    /** A method is about to be removed (decisions C4, E28). */
    readonly methodRemoved: Change
    /** Finishes the charges of a request that a crash cut short. */
    readonly recover: (customerId: string) => Work
  }
>()("billing/customer/MethodUsers") {}
