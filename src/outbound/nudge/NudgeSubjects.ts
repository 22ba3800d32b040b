/** The port to what a nudge by hand can speak of: a subscription, and what is owed on it. */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../../base/problem.ts"
import type { Tenant } from "../../db/tenant.ts"
import type { About } from "./create.ts"

export class NudgeSubjects extends Context.Service<
  NudgeSubjects,
  {
    /** What a nudge can say of a subscription, and whose it is; fails with `resource_missing`. */
    readonly find: (
      tenant: Tenant,
      subscriptionId: string,
    ) => Effect.Effect<
      { readonly customerId: string; readonly about: About },
      Problem | SqlError.SqlError,
      SqlClient.SqlClient
    >
  }
>()("billing/nudge/NudgeSubjects") {}
