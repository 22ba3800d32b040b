/** The port by which a nudge sent by hand reads its subscription and the amount due on it. */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../../base/problem.ts"
import type { Tenant } from "../../db/tenant.ts"
import type { About } from "./create.ts"

export class NudgeSubjects extends Context.Service<
  NudgeSubjects,
  {
    /** Reads a subscription's facts for a nudge, and its customer. Fails with `resource_missing`. */
    readonly find: (
      tenant: Tenant,
      subscriptionId: string,
    ) => Effect.Effect<
      { readonly customerId: string; readonly about: About },
      Problem | SqlError.SqlError,
      SqlClient.SqlClient
    >
  }
>()("billing/outbound/nudge/NudgeSubjects") {}
