/** The port to the checkout sessions that subscriptions wait for (decision G2). */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Ref } from "../db/tenant.ts"

type Sql<A> = Effect.Effect<A, SqlError.SqlError, SqlClient.SqlClient>

export class Checkouts extends Context.Service<
  Checkouts,
  {
    /**
     * Locks the session of a subscription, which is to be locked after it. What it returns closes the session, for when
     * the subscription is cancelled. `now` is the customer's.
     */
    readonly lock: (subscription: Ref) => Sql<(now: number) => Sql<void>>
  }
>()("billing/subscription/Checkouts") {}
