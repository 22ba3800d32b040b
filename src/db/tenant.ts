/** The tenant of a row. Every tenant table begins with these two columns, and every statement filters on them. */
import type { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { problem } from "../base/problem.ts"
import { sqlStateOf } from "../postgres/errors.ts"

export interface Tenant {
  readonly account_id: string
  readonly livemode: boolean
}

/** The key of a row in a tenant table. */
export interface Ref extends Tenant {
  readonly id: string
}

/** A tenant's key in maps. */
export const tenantName = ({ account_id, livemode }: Tenant): string => `${account_id} ${livemode}`

export const tenantOf = ({ account_id, livemode }: Tenant): Tenant => ({ account_id, livemode })

export const refOf = ({ account_id, livemode, id }: Ref): Ref => ({ account_id, livemode, id })

/** Returns the predicate that every statement of a tenant has, on columns without an alias or on those of `alias`. */
export const ofTenant = (sql: SqlClient.SqlClient, { account_id, livemode }: Tenant, alias = ""): Fragment => {
  const of = sql.literal(alias === "" ? "" : `${alias}.`)
  return sql`${of}account_id = ${account_id} AND ${of}livemode = ${livemode}`
}

/** Returns the predicate for the tenant's row with this ID. */
export const isRef = (sql: SqlClient.SqlClient, ref: Ref, alias = ""): Fragment =>
  sql`${ofTenant(sql, ref, alias)} AND ${sql.literal(alias === "" ? "" : `${alias}.`)}id = ${ref.id}`

const isMoving = (sql: SqlClient.SqlClient, column: string, states: string): Fragment =>
  sql`EXISTS (SELECT 1 FROM account_move m WHERE m.account_id = ${sql.literal(column)} AND m.state IN (${sql.literal(states)}))`

/** The SQLSTATE of writes to a fenced account (migrations/0010_cells.sql). */
export const FENCED = "BM001"
export const ACCOUNT_MOVING = problem(
  "account_moving",
  "This account is moving to another machine: try again in a moment.",
)

/** Whether a write was refused because its account is moving to another cell. */
export const isFenced = (error: unknown): boolean => sqlStateOf(error) === FENCED

/**
 * Returns the predicate that the account of the rows of `alias` is not moving to another cell: workers take rows of staying accounts only.
 * It is not needed for correctness: writes to a fenced account are refused (migrations/0010_cells.sql).
 */
export const staysHere = (sql: SqlClient.SqlClient, alias: string, column = "account_id"): Fragment =>
  sql`NOT ${isMoving(sql, `${alias}.${column}`, "'fenced', 'left', 'arriving', 'withdrawn'")}`

/** Returns the predicate that the account of the rows of `alias` belongs to this cell: it has not left, and has arrived completely. */
export const livesHere = (sql: SqlClient.SqlClient, alias: string, column = "account_id"): Fragment =>
  sql`NOT ${isMoving(sql, `${alias}.${column}`, "'left', 'arriving', 'withdrawn'")}`
