/** The port to the checkout sessions that subscriptions wait for (decision G2). */
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
     * Locks the open sessions of subscriptions, which are to be locked after them, by one statement; returns the subscriptions that have
     * one.
     */
    readonly lock: (...which: Parameters<typeof subscriptions.lock>) => Sql<ReadonlyArray<string>>
    /** Closes the locked sessions of subscriptions that are cancelled. */
    readonly close: (cancelled: ReadonlyArray<Ref>, nowOf: NowOf) => Sql<void>
  }
>()("billing/subscription/Checkouts") {}
