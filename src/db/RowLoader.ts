/**
 * RowLoader finds rows that requests of one tenant look up by ID at the same time, with one statement per table. Requests that arrive during
 * a look-up share the next one. Each finds all rows that were committed when it asked.
 */
import { Context, type Effect } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Batcher } from "../concurrency/Batcher.ts"
import { type Ref, type Tenant, tenantName } from "./tenant.ts"

/** Finds rows of a tenant, by ID. */
export type FindRows<Row> = (
  tenant: Tenant,
  ids: ReadonlyArray<string>,
) => Effect.Effect<ReadonlyMap<string, Row>, SqlError.SqlError, SqlClient.SqlClient>

type LookUp<Row> = Batcher<Ref, Row, SqlError.SqlError, SqlClient.SqlClient>

const idOf = ({ id }: Ref): string => id

/** The look-ups on one connection, which shows the rows of one tenant at a time. */
export class RowLoader {
  readonly #context: Context.Context<SqlClient.SqlClient>
  /** By table, whose rows are all of one type. */
  readonly #byTable = new Map<string, object>()

  constructor(client: SqlClient.SqlClient) {
    this.#context = Context.make(SqlClient.SqlClient, client)
  }

  find<Row>(table: string, findRows: FindRows<Row>, ref: Ref): Effect.Effect<Row | undefined, SqlError.SqlError> {
    let lookUp = this.#byTable.get(table) as LookUp<Row> | undefined
    if (lookUp === undefined) {
      // A lane has one tenant. If no request waits any more, the connection may already show another tenant's rows.
      const findAll = (refs: ReadonlyArray<Ref>) => findRows(refs[0]!, refs.map(idOf))
      lookUp = new Batcher(this.#context, idOf, findAll, { laneOf: tenantName })
      this.#byTable.set(table, lookUp)
    }
    return lookUp.ask(ref)
  }
}

/** The loader of the running read; undefined within a transaction. */
export const CurrentRowLoader = Context.Reference<RowLoader | undefined>("billing/db/CurrentRowLoader", {
  defaultValue: () => undefined,
})
