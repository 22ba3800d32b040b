/**
 * Deleting what may be large: a test clock with all that is its, or a whole sandbox (decisions M1, M2). A request commits what
 * is to go, as a row that also says how far that is; workers delete it in batches, each a short transaction (worker.ts).
 */
import { Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { names, REF_COLUMNS, rowsAsTable } from "../../db/rows.ts"
import { type Ref, refOf } from "../../db/tenant.ts"

/** What tells the workers of every process that there is something to delete. */
export const DELETION_CHANNEL = "deletion"
/** What tells every process that something is deleted, by {@link payloadOf}. */
export const DELETED_CHANNEL = "deleted"

/** What is deleted: by the ID of a test clock, or {@link SANDBOX}. */
export interface Deletion extends Ref {
  /** The step under way, by name; before the first batch: empty. */
  readonly step: string
  /** The last key of that step that is deleted. */
  readonly deleted_to: string
}

/** All of an account's sandbox. */
export const SANDBOX = "sandbox"

/** What a step has deleted. */
export interface Deleted {
  readonly rows: number
  /** Where to go on; null: nothing is left. */
  readonly to: string | null
}

/** One table of what is deleted. `after` is the key after which to go on, `limit` the rows to delete at most. */
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

/** Has these deleted, once the running transaction is committed; what is being deleted already goes on. */
export const requestDeletions = Effect.fnUntraced(function* (refs: ReadonlyArray<Ref>) {
  if (refs.length === 0) return
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    INSERT INTO deletion (${names(REF_COLUMNS)}) SELECT * FROM ${rowsAsTable(refs.map(refOf), REF_COLUMNS)} r
    ON CONFLICT DO NOTHING`
  yield* sql`SELECT pg_notify(${DELETION_CHANNEL}, '')`
})
