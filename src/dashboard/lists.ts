/** The pages of lists: the API's lists with their filters and cursors, as a table and as CSV (decision R8). */
import { Effect, type Schema } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { Problem } from "../base/problem.ts"
import type { TenantDatabase } from "../db/TenantDatabase.ts"
import type { Declaration } from "../http/Endpoint.ts"
import type { Choice, Field } from "../pages/dashboard/fields.ts"
import { listMain } from "../pages/dashboard/list.ts"
import { type ActionLink, type Column, words } from "../pages/dashboard/parts.ts"
import type { Right } from "../security/role/rights.ts"
import { type Cell, csvFile } from "./csv.ts"
import { instantOf } from "./inputs.ts"
import { call, memberPage, show, type Viewer } from "./pages.ts"

/** How many rows a page shows, and how many a step of an export reads. */
const SHOWN = 25
const EXPORTED = 100

export interface List<Row> {
  /** The path under `/dashboard/{environment}`, such as `/customers`. */
  readonly path: string
  readonly title: string
  readonly right: Right
  readonly declaration: Declaration<unknown, unknown, Schema.Top, true>
  readonly expand?: ReadonlyArray<string>
  /** Adds what the API does not say to the rows of a page. */
  readonly complete?: (
    viewer: Viewer,
    rows: ReadonlyArray<Row>,
  ) => Effect.Effect<ReadonlyArray<Row>, Problem | SqlError.SqlError, TenantDatabase | SqlClient.SqlClient>
  /** The filters, by the parameters of the API. */
  readonly filters: ReadonlyArray<Field>
  /** What the list says about itself, under its title. */
  readonly about?: string
  /** What can be done here. */
  readonly actions?: (viewer: Viewer) => ReadonlyArray<ActionLink>
  readonly columns: (viewer: Viewer) => ReadonlyArray<Column<Row>>
  readonly csv: ReadonlyArray<readonly [name: string, cell: (row: Row) => Cell]>
  /** What an empty list says. */
  readonly empty: (viewer: Viewer) => {
    readonly title: string
    readonly text: string
    readonly action: ActionLink | null
  }
}

/** The choices of a filter by literals, with one for all. */
export const choicesOf = (literals: ReadonlyArray<string>): ReadonlyArray<Choice> => [
  { value: "", label: "all" },
  ...literals.map((value) => ({ value, label: words(value) })),
]

/** The filters that are set. */
const filtersIn = ({ search }: Viewer, filters: ReadonlyArray<Field>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    filters.flatMap(({ name }) => {
      const value = search.get(name)?.trim() ?? ""
      return value === "" ? [] : [[name, value]]
    }),
  )

/** The filters as the API takes them: an instant is typed in Lagos time. */
const queryOf = (
  set: Readonly<Record<string, string>>,
  filters: ReadonlyArray<Field>,
): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(set).map(([name, typed]) => {
      const isInstant = filters.some((filter) => filter.name === name && filter.kind === "instant")
      return [name, isInstant ? (instantOf(typed) ?? typed) : typed]
    }),
  )

const pathWith = (path: string, parameters: Readonly<Record<string, string>>): string => {
  const search = new URLSearchParams(parameters)
  return search.size === 0 ? path : `${path}?${search}`
}

/** Makes the pages of a list: the table, and the file. */
export const listPages = <Row>(list: List<Row>) => {
  const { path, title, right, declaration, expand = [], filters, about, columns, csv } = list
  const { complete = (_, rows) => Effect.succeed(rows) } = list
  const read = Effect.fnUntraced(function* (viewer: Viewer, query: Readonly<Record<string, string | undefined>>) {
    const { data, meta } = yield* call(viewer, declaration, { query, expand })
    // The declaration's response is the list's row.
    const rows = yield* complete(viewer, data as ReadonlyArray<Row>)
    return { rows, next: meta.next_cursor as string | null }
  })
  const page = memberPage(
    `/dashboard/:environment${path}`,
    { right },
    {
      GET: Effect.fnUntraced(function* (viewer) {
        const set = filtersIn(viewer, filters)
        const after = viewer.search.get("starting_after") ?? undefined
        const { rows, next } = yield* read(viewer, {
          ...queryOf(set, filters),
          limit: String(SHOWN),
          starting_after: after,
        })
        const view = {
          title,
          about: about ?? null,
          actions: list.actions?.(viewer) ?? [],
          path: viewer.path,
          filters,
          typed: new Map(Object.entries(set).map(([name, value]) => [name, [value]])),
          columns: columns(viewer),
          rows,
          empty: list.empty(viewer),
          pages: {
            first: after === undefined ? null : pathWith(viewer.path, set),
            next: next === null ? null : pathWith(viewer.path, { ...set, starting_after: next }),
            csv: pathWith(`${viewer.path}.csv`, set),
          },
        }
        return show(viewer, title, listMain(view))
      }),
    },
  )
  const file = memberPage(
    `/dashboard/:environment${path}.csv`,
    { right },
    {
      GET: (viewer) => {
        const set = queryOf(filtersIn(viewer, filters), filters)
        return csvFile(
          `${path.slice(1)}-${viewer.environment}`,
          csv.map(([name]) => name),
          (cursor) => read(viewer, { ...set, limit: String(EXPORTED), starting_after: cursor }),
          (row) => csv.map(([, cell]) => cell(row)),
        )
      },
    },
  )
  return [page, file]
}
