/** Checkouts is the port to the checkout sessions that subscriptions wait for (decision G2). */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { NowOf } from "../../base/time.ts"
import type { Ref } from "../../db/tenant.ts"
import type { subscriptions } from "./subscription.ts"

type Sql<A> = Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>

export class Checkouts extends Context.Service<
  Checkouts,
  {
    /**
     * Locks the open sessions of subscriptions by one statement, before the subscriptions are locked; returns the IDs of subscriptions that
     * have an open session.
     */
    readonly lock: (...which: Parameters<typeof subscriptions.lock>) => Sql<ReadonlyArray<string>>
    /** Closes the locked sessions of cancelled subscriptions. */
    readonly close: (cancelled: ReadonlyArray<Ref>, nowOf: NowOf) => Sql<void>
  }
>()("billing/billing/subscription/Checkouts") {}
