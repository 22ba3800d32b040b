/** Cursor lists: newest first, by ID (spec 4.1, decision B2). */
import { Effect, Schema } from "effect"
import { SqlClient } from "effect/sql"
import type { Fragment } from "effect/sql/Statement"
import type { Ref, Tenant } from "../db/tenant.ts"
import { invalid, type Problem } from "../problem.ts"
import type { Page } from "./Endpoint.ts"
import { id } from "./parameters.ts"

const DEFAULT_LIMIT = 20
const LARGEST_LIMIT = 100

const limit = Schema.String.check(
  Schema.makeFilter((value: string) => /^\d{1,3}$/.test(value) && Number(value) >= 1 && Number(value) <= LARGEST_LIMIT),
).annotate({ description: `an integer from 1 to ${LARGEST_LIMIT}` })

/** The parameters that every list takes. */
export const pageFields = {
  limit: Schema.optionalKey(limit),
  starting_after: Schema.optionalKey(id("the object after which the page starts")),
  ending_before: Schema.optionalKey(id("the object before which the page ends")),
}

const noSuchCursor = (param: string, cursor: string): Problem =>
  invalid(param, `${param} must be the ID of an object of this list; there is no ${JSON.stringify(cursor)} in it.`)

interface PageQuery {
  readonly limit?: string
  readonly starting_after?: string
  readonly ending_before?: string
}

/** One page of `table` with `filters`. IDs are in order of creation; where they are not, `order` is what is. */
export const page = <Row extends Ref>(
  table: string,
  tenant: Tenant,
  query: PageQuery,
  filters: ReadonlyArray<Fragment>,
  order = "id",
) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const size = query.limit === undefined ? DEFAULT_LIMIT : Number(query.limit)
    const backwards = query.ending_before !== undefined
    if (backwards && query.starting_after !== undefined) {
      return yield* invalid("ending_before", "ending_before and starting_after exclude each other: send one of them.")
    }
    const cursor = query.ending_before ?? query.starting_after
    const mine = sql`account_id = ${tenant.account_id} AND livemode = ${tenant.livemode}`
    const by = sql(order)
    // Where IDs are not the order they are not unique in the table either, but in the list.
    const listed = order === "id" ? mine : sql.and([mine, ...filters])
    const [from] =
      cursor === undefined
        ? []
        : yield* sql<{ at: string | number }>`SELECT ${by} AS at FROM ${sql(table)} WHERE ${listed} AND id = ${cursor}`
    if (cursor !== undefined && from === undefined) {
      const param = backwards ? "ending_before" : "starting_after"
      return yield* noSuchCursor(param, cursor)
    }
    const where = sql.and([
      mine,
      ...filters,
      ...(from === undefined ? [] : [backwards ? sql`${by} > ${from.at}` : sql`${by} < ${from.at}`]),
    ])
    const direction = backwards ? sql.literal("ASC") : sql.literal("DESC")
    const rows =
      yield* sql<Row>`SELECT * FROM ${sql(table)} WHERE ${where} ORDER BY ${by} ${direction} LIMIT ${size + 1}`
    const shown = rows.slice(0, size)
    return { data: backwards ? shown.reverse() : shown, hasMore: rows.length > size, limit: size } satisfies Page<Row>
  })

/** One page of what is listed already. */
export const pageOf = <T extends { readonly id: string }>(
  listed: ReadonlyArray<T>,
  query: PageQuery,
  defaultLimit = DEFAULT_LIMIT,
): Effect.Effect<Page<T>, Problem> => {
  const limit = query.limit === undefined ? defaultLimit : Number(query.limit)
  if (query.starting_after !== undefined && query.ending_before !== undefined)
    return Effect.fail(
      invalid("ending_before", "ending_before and starting_after exclude each other: send one of them."),
    )
  const param = query.ending_before === undefined ? "starting_after" : "ending_before"
  const cursor = query[param]
  const at = cursor === undefined ? -1 : listed.findIndex(({ id }) => id === cursor)
  if (cursor !== undefined && at === -1) return Effect.fail(noSuchCursor(param, cursor))
  const rest = param === "ending_before" ? listed.slice(0, at).slice(-limit - 1) : listed.slice(at + 1)
  const data = param === "ending_before" ? rest.slice(-limit) : rest.slice(0, limit)
  return Effect.succeed({ data, hasMore: rest.length > limit, limit })
}

export const mapPage = <A, B>(page: Page<A>, f: (row: A) => B): Page<B> => ({ ...page, data: page.data.map(f) })
