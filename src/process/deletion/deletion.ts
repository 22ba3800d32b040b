/**
 * Deletes large objects: a test clock with everything on it, or a whole sandbox (decisions M1, M2). A request commits a row that names the
 * object and the progress; workers delete it in batches, each a short transaction (worker.ts).
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { names, REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf } from "../../db/tenant.ts"

/** The channel that notifies the workers of every process of a new deletion. */
export const DELETION_CHANNEL = "deletion"
/** The channel that notifies every process of a finished deletion, by {@link payloadOf}. */
export const DELETED_CHANNEL = "deleted"

/** The deletion of a test clock (by its ID) or of a sandbox ({@link SANDBOX}). */
export interface Deletion extends Ref {
  /** The name of the current step; empty before the first batch. */
  readonly step: string
  /** The last deleted key of that step. */
  readonly deleted_to: string
}

/** All of an account's sandbox. */
export const SANDBOX = "sandbox"

/** The result of a step. */
export interface Deleted {
  readonly rows: number
  /** The key to continue after; null: nothing is left. */
  readonly to: string | null
}

/** The deletion of rows from one table. `after` is the key to continue after, `limit` the maximum number of rows. */
export interface Step {
  readonly name: string
  readonly run: (
    deletion: Deletion,
    after: string,
    limit: number,
  ) => Effect.Effect<Deleted, SqlError.SqlError, SqlClient.SqlClient>
}

export const payloadOf = ({ account_id, id }: Ref): string => `${account_id} ${id}`
export const accountOf = (payload: string): string => payload.split(" ")[0]!

/** Requests deletions, which start when the running transaction commits. Deletions under way are not affected. */
export const requestDeletions = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  if (refs.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO deletion (${names(REF_COLUMNS)}) SELECT * FROM ${rowsAsTable(refs.map(refOf), REF_COLUMNS)} r
    ON CONFLICT DO NOTHING`
  yield* sql`SELECT pg_notify(${DELETION_CHANNEL}, '')`
})
