/** RailCallbacks is a store of the references that callbacks name, until the rail is asked about them (decision P13). */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Batcher } from "../../concurrency/Batcher.ts"
import { rowsAsTable } from "../../db/rows.ts"
import type { RailAccount } from "../credential/credential.ts"
import type { CallbackNotice } from "../rail/Rail.ts"

export interface NamedReference extends RailAccount, CallbackNotice {}

const NAMED = { account_id: "text", rail: "text", reference: "text", denies: "boolean" } as const

const nameOf = ({ account_id, rail, reference, denies }: NamedReference): string =>
  `${rail} ${account_id} ${reference} ${denies}`

/** Writes in key order, like every writer of this table: processes that write the same rows wait for each other without deadlock. */
const write = (sql: SqlClient.SqlClient) => (named: ReadonlyArray<NamedReference>) =>
  Effect.as(
    sql`
      INSERT INTO rail_callback AS c (account_id, livemode, rail, reference, denies, received_at)
      SELECT account_id, true, rail, reference, bool_or(denies), clock_timestamp() FROM ${rowsAsTable(named, NAMED)} r
      GROUP BY account_id, rail, reference ORDER BY account_id, rail, reference COLLATE "C"
      ON CONFLICT (account_id, livemode, rail, reference) DO UPDATE SET
        denies = c.denies OR excluded.denies, received_at = excluded.received_at`,
    new Map<string, never>(),
  )

export class RailCallbacks extends Context.Service<
  RailCallbacks,
  {
    /** Stores a reference, once for all its callbacks, and whether any callback denies it. Returns after the commit. */
    readonly note: (named: NamedReference) => Effect.Effect<void, SqlError.SqlError>
  }
>()("billing/rails/rail_callback/RailCallbacks") {
  static readonly layer = Layer.effect(
    RailCallbacks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // A burst that repeats few references takes a few statements. Each account has its own, because a moving account is refused.
      const writes = new Batcher(yield* Effect.context<never>(), nameOf, write(sql), {
        laneOf: ({ account_id }) => account_id,
      })
      return RailCallbacks.of({ note: (named) => Effect.asVoid(writes.ask(named)) })
    }),
  )
}
