/**
 * Reads the map keys by which proxies recognise a moved account: its keys' hashes, its ID, and the tags of its links.
 * They are needed if the account's keys or links name another cell.
 */
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Cell, tagOf } from "../base/cell.ts"
import { livesHere } from "../db/tenant.ts"

interface AccountCells {
  readonly id: string
  readonly cells: ReadonlyArray<string>
}

const tagsOf = ({ id, cells }: AccountCells, cell: string): ReadonlyArray<string> =>
  [...cells, cell].map((maker) => tagOf(maker, id))

/** Returns all map keys of one account. */
export const routesOf = Effect.fnUntraced(function* (account: string, cell: string) {
  const sql = yield* SqlClient.SqlClient
  const keys = yield* sql<{ hash: string }>`
    SELECT upper(encode(hash, 'hex')) AS hash FROM api_key WHERE account_id = ${account} ORDER BY 1`
  const [found] = yield* sql<AccountCells>`SELECT id, cells FROM account WHERE id = ${account}`
  return [...keys.map(({ hash }) => hash), account, ...(found === undefined ? [] : tagsOf(found, cell))]
})

/** Rows read per statement. */
const PAGE = 1_000

/** Streams all rows of a query that reads one page after an ID, in ID order. */
const paged = <Row extends { readonly id: string }, E, R>(
  read: (after: string) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) =>
  Stream.paginate("", (after) =>
    Effect.map(
      read(after),
      (rows) => [[rows], rows.length < PAGE ? Option.none() : Option.some(rows.at(-1)!.id)] as const,
    ),
  )

/** Streams this cell's part of the map file for a proxy's start: lines of `key cell`. */
export const readRoutes = Stream.unwrap(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const cell = yield* Cell
    const lines = (keys: ReadonlyArray<string>): string => keys.map((key) => `${key} ${cell}\n`).join("")
    const keys = paged(
      (after) => sql<{ id: string; hash: string }>`
        SELECT id, upper(encode(hash, 'hex')) AS hash FROM api_key k
        WHERE cell <> ${cell} AND ${livesHere(sql, "k")} AND id > ${after} ORDER BY id LIMIT ${PAGE}`,
    )
    const accounts = paged(
      (after) =>
        sql<AccountCells>`SELECT id, cells FROM account a WHERE cells <> '{}' AND ${livesHere(sql, "a", "id")} AND id > ${after} ORDER BY id LIMIT ${PAGE}`,
    )
    return Stream.concat(
      Stream.map(keys, (rows) => lines(rows.map(({ hash }) => hash))),
      Stream.map(accounts, (rows) => lines(rows.flatMap((row) => [row.id, ...tagsOf(row, cell)]))),
    )
  }),
)
