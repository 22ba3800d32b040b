/** Reads pages of cursor lists: newest first, by ID (decision B2). */
import { PgTypes } from "@effect/sql-pg"
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import { type IdKind, isId, PREFIXES } from "../base/ids.ts"
import { invalid, type Problem } from "../base/problem.ts"
import type { Table } from "../db/table.ts"
import { ofTenant, type Ref, type Tenant } from "../db/tenant.ts"
import type { Page } from "./Endpoint.ts"
import { id, numberInQuery } from "./parameters.ts"

const DEFAULT_LIMIT = 20
const MAX_LIMIT = 100

/** The parameters of a list. `limit`: the objects of a page if the caller sends no limit. */
export const pageFieldsOf = (limit: number) => ({
  limit: Schema.optionalKey(numberInQuery(MAX_LIMIT, "an integer", `, ${limit} if it is left out`)),
  starting_after: Schema.optionalKey(id("the object after which the page starts")),
  ending_before: Schema.optionalKey(id("the object before which the page ends")),
})

/** The parameters of most lists. */
export const pageFields = pageFieldsOf(DEFAULT_LIMIT)

/** The size of a page. */
export const limitIn = ({ limit }: { readonly limit?: string }, defaultLimit = DEFAULT_LIMIT): number =>
  limit === undefined ? defaultLimit : Number(limit)

const noSuchCursor = (param: string, cursor: string): Problem =>
  invalid(
    param,
    `${param} must be the ID of an object of this list, for example from meta.next_cursor, not ${JSON.stringify(cursor)}.`,
  )

export interface PageQuery {
  readonly limit?: string
  readonly starting_after?: string
  readonly ending_before?: string
}

/** A condition of a list, as SQL on the table's columns; undefined if the caller does not filter by it. */
export type Filter = ((sql: SqlClient.SqlClient) => Fragment) | undefined

export const equals = (column: string, value: string | undefined): Filter =>
  value === undefined ? undefined : (sql) => sql`${sql(column)} = ${value}`

/** Selects the rows with IDs of this kind in a table of several kinds: a range of IDs, the last column of each list's index. */
export const hasIdOf =
  (kind: IdKind): Filter =>
  (sql) => {
    const prefix = `${PREFIXES[kind]}_`
    // The upper bound ends with the character after the underscore, so it follows all IDs with the prefix.
    return sql`id > ${prefix} AND id < ${`${PREFIXES[kind]}\``}`
  }

/** Selects rows whose JSON column contains these fields. Requests have no index for it: use it on rows that are found already. */
export const containsFields = (column: string, fields: Readonly<Record<string, string>> | undefined): Filter =>
  fields === undefined ? undefined : (sql) => sql`${sql(column)} @> ${JSON.stringify(fields)}::text::jsonb`

/** The part of a list after a page's cursor. */
export interface Rest {
  readonly sql: SqlClient.SqlClient
  readonly table: string
  /** Selects the tenant's rows, in any table. */
  readonly mine: Fragment
  /** The filters by columns of the list's own table. */
  readonly conditions: ReadonlyArray<Fragment>
  /** Selects the rows after the cursor by the column of the list's order; empty for a page without a cursor. */
  readonly beyond: (column: string) => ReadonlyArray<Fragment>
  readonly backwards: boolean
  readonly direction: Fragment
  /** The rows to read: one more than the page shows. */
  readonly count: number
}

/** Finds the IDs of a list's rows, as a SELECT of `id`, for lists that their table's columns and indexes cannot serve. */
export type Finder = (rest: Rest) => Fragment

/** The next rows by ID that are searched first: they contain a page of a wide range, and reading them takes a millisecond. */
const WALKED = 1_000

/**
 * Finds rows whose `column`, an instant of any clock, is between two instants. A wide range fills its page from the next rows by
 * ID. If it does not, the whole range is read from its index (account_id, livemode, column, id) and sorted: 20 ms for 100,000 rows.
 */
export const between = (column: string, after: number | undefined, before: number | undefined): Finder | undefined => {
  if (after === undefined && before === undefined) return undefined
  return ({ sql, table, mine, conditions, beyond, backwards, direction, count }) => {
    const by = sql(column)
    const within = sql.and([
      ...(after === undefined ? [] : [sql`${by} > ${PgTypes.timestamptz(after)}`]),
      ...(before === undefined ? [] : [sql`${by} < ${PgTypes.timestamptz(before)}`]),
    ])
    const beyondNear = sql.literal(backwards ? "id > (SELECT max(id) FROM near)" : "id < (SELECT min(id) FROM near)")
    return sql`
      WITH near AS MATERIALIZED (
        SELECT id, ${by} FROM ${sql(table)} WHERE ${sql.and([mine, ...conditions, ...beyond("id")])} ORDER BY id ${direction} LIMIT ${WALKED}
      ), whole AS (
        SELECT id FROM ${sql(table)} WHERE ${sql.and([mine, ...conditions, within])}
          AND (SELECT count(*) = ${WALKED} AND count(*) FILTER (WHERE ${within}) < ${count} FROM near)
        ORDER BY ${by} ${direction} OFFSET 0
      )
      SELECT id FROM (SELECT id FROM near WHERE ${within} UNION ALL SELECT id FROM whole WHERE ${beyondNear}) found
      ORDER BY id ${direction} LIMIT ${count}`
  }
}

export const EXCLUSIVE = invalid(
  "ending_before",
  "ending_before and starting_after exclude each other: send one of them.",
)

/**
 * Returns the position of a cursor in the list's order; undefined without a cursor. In a list by ID, a cursor is a position: the object may
 * be deleted, or may never have existed (decision B10). In a list with another order, the object must exist.
 */
const cursorOf = Effect.fnUntraced(function* (
  { name, ids }: Pick<Table<never>, "name" | "ids">,
  param: "starting_after" | "ending_before",
  cursor: string | undefined,
  listed: Fragment,
  order: string,
) {
  if (cursor === undefined) return undefined
  if (order === "id") return ids !== undefined && isId(ids, cursor) ? cursor : yield* noSuchCursor(param, cursor)
  const sql = yield* SqlClient.SqlClient
  const [from] = yield* sql<{ at: string | number }>`
    SELECT ${sql(order)} AS at FROM ${sql(name)} WHERE ${listed} AND id = ${cursor}`
  return from?.at ?? (yield* noSuchCursor(param, cursor))
})

interface Listing {
  /** The column of the list's order, if IDs are not in order of creation; by default the ID. */
  readonly order?: string
  readonly finder?: Finder | undefined
}

/** Reads the rows of a page, and one more if there is one. */
const select = <Row extends Ref>(of: Table<Row>, rest: Rest, order: string, finder: Finder | undefined) =>
  of.read("r", (sql, columns) => {
    const { table, mine, conditions, beyond, direction, count } = rest
    if (finder === undefined)
      return sql`
        SELECT ${columns} FROM ${sql(table)} r WHERE ${sql.and([mine, ...conditions, ...beyond(order)])} ORDER BY ${sql(order)} ${direction} LIMIT ${count}`
    // OFFSET 0 makes the planner look up the found rows one by one, with any statistics of the table.
    return sql`
      SELECT ${columns} FROM (${finder(rest)}) f
      CROSS JOIN LATERAL (SELECT * FROM ${sql(table)} WHERE ${sql.and([mine, ...conditions])} AND id = f.id OFFSET 0) r
      ORDER BY f.id ${direction} LIMIT ${count}`
  })

/** Reads one page of a tenant's rows. */
export const page = Effect.fnUntraced(function* <Row extends Ref>(
  of: Table<Row>,
  tenant: Tenant,
  query: PageQuery,
  filters: ReadonlyArray<Filter> = [],
  { order = "id", finder }: Listing = {},
) {
  const sql = yield* SqlClient.SqlClient
  const size = limitIn(query)
  if (query.ending_before !== undefined && query.starting_after !== undefined) return yield* EXCLUSIVE
  const param = query.ending_before === undefined ? "starting_after" : "ending_before"
  const backwards = param === "ending_before"
  const conditions = filters.flatMap((filter) => (filter === undefined ? [] : [filter(sql)]))
  const mine = ofTenant(sql, tenant)
  const table = of.name
  // If the list is not in the order of IDs, they are unique in the list, but not in the table.
  const from = yield* cursorOf(of, param, query[param], sql.and([mine, ...conditions]), order)
  const beyond = (column: string) =>
    from === undefined ? [] : [backwards ? sql`${sql(column)} > ${from}` : sql`${sql(column)} < ${from}`]
  const direction = sql.literal(backwards ? "ASC" : "DESC")
  const rest = { sql, table, mine, conditions, beyond, backwards, direction, count: size + 1 }
  const rows = yield* select(of, rest, order, finder)
  const shown = rows.slice(0, size)
  const data = backwards ? shown.reverse() : shown
  const liveTail = backwards && order === "id" && data.length > 0 ? { liveTail: { newest: data[0]!.id, table } } : {}
  return { data, hasMore: rows.length > size, limit: size, backwards, ...liveTail } satisfies Page<Row>
})

/** Reads one page of a request's list, with its rows as the API shows them. */
export const listOf = <Row extends Ref, A>(
  table: Table<Row>,
  request: Tenant & { readonly query: PageQuery },
  render: (row: Row) => A,
  filters?: ReadonlyArray<Filter>,
  listing?: Listing,
) => Effect.map(page(table, request, request.query, filters, listing), (rows) => mapPage(rows, render))

/** Returns one page of a list in memory. */
export const pageOf = <T extends { readonly id: string }>(
  listed: ReadonlyArray<T>,
  query: PageQuery,
  defaultLimit = DEFAULT_LIMIT,
): Effect.Effect<Page<T>, Problem> => {
  const limit = limitIn(query, defaultLimit)
  if (query.starting_after !== undefined && query.ending_before !== undefined) return Effect.fail(EXCLUSIVE)
  const param = query.ending_before === undefined ? "starting_after" : "ending_before"
  const cursor = query[param]
  const at = cursor === undefined ? -1 : listed.findIndex(({ id }) => id === cursor)
  if (cursor !== undefined && at === -1) return Effect.fail(noSuchCursor(param, cursor))
  const rest = param === "ending_before" ? listed.slice(0, at).slice(-limit - 1) : listed.slice(at + 1)
  const data = param === "ending_before" ? rest.slice(-limit) : rest.slice(0, limit)
  return Effect.succeed({ data, hasMore: rest.length > limit, limit, backwards: param === "ending_before" })
}

export const mapPage = <A, B>({ data, ...page }: Omit<Page<A>, "cursorOf">, f: (row: A) => B): Page<B> => ({
  ...page,
  data: data.map(f),
})
