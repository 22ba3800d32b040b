/** RemindersFollow is the port that reschedules reminders when a plan's reminder rules change (decision C3). */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Tenant } from "../../db/tenant.ts"

export class RemindersFollow extends Context.Service<
  RemindersFollow,
  {
    /** Runs in the transaction that changes the plan. */
    readonly reschedule: (tenant: Tenant, planId: string) => Effect.Effect<void, SqlError.SqlError, SqlClient.SqlClient>
  }
>()("billing/billing/plan/RemindersFollow") {}
