/** Records in the activity of an account what commands change (decision R7), in the transaction of the change. */
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import type { Tenant } from "../db/tenant.ts"
import { unitOfWork } from "../db/UnitOfWork.ts"
import { activity, COMMAND_LINE, recordActivity } from "../http/activity.ts"

/** What a command changed. */
export interface Changed {
  readonly tenant: Tenant
  readonly action: string
  readonly object: { readonly kind: string; readonly id: string }
}

/** A change of an account: it concerns both environments, and is recorded with the live data. */
export const ofAccount = (id: string, action: string): Changed => ({
  tenant: { account_id: id, livemode: true },
  action,
  object: { kind: "account", id },
})

/** Runs a command's work in a transaction, and records it. `changed` returns undefined if the work changed nothing. */
export const recording = <A, E, R>(work: Effect.Effect<A, E, R>, changed: (made: A) => Changed | undefined) =>
  Effect.flatMap(SqlClient.SqlClient, (sql) =>
    sql.withTransaction(
      Effect.gen(function* () {
        const made = yield* work
        const what = changed(made)
        if (what !== undefined)
          recordActivity(yield* unitOfWork, [activity(what.tenant, COMMAND_LINE, what.action, what.object)])
        return made
      }),
    ),
  )
