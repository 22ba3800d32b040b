/** References that callbacks name, noted until somebody asks the rail about them (decision P13). */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Batcher } from "../../concurrency/Batcher.ts"
import { rowsAsTable } from "../../db/rows.ts"
import type { RailAccount } from "../credential/credential.ts"
import type { Announcement } from "../rail/Rail.ts"

export interface NamedReference extends RailAccount, Announcement {}

const NAMED = { account_id: "text", rail: "text", reference: "text", denies: "boolean" } as const

const nameOf = ({ account_id, rail, reference, denies }: NamedReference): string =>
  `${rail} ${account_id} ${reference} ${denies}`

/** In the order of their keys, as everybody writes them: processes that write the same at once wait for each other in turn. */
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
    /** Notes a reference, once however often it is named, and whether anybody denies it; when this is over it is on disk. */
    readonly note: (named: NamedReference) => Effect.Effect<void, SqlError.SqlError>
  }
>()("billing/rail_callback/RailCallbacks") {
  static readonly layer = Layer.effect(
    RailCallbacks,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      // A rail's burst, which names few references often, is a few statements. Each account has its own: one whose account moves is refused.
      const noting = new Batcher(yield* Effect.context<never>(), nameOf, write(sql), {
        laneOf: ({ account_id }) => account_id,
      })
      return RailCallbacks.of({ note: (named) => Effect.asVoid(noting.ask(named)) })
    }),
  )
}
