/**
 * What proxies tell an account by that lives in a cell whose name its keys or links do not bear: the keys' hashes, its ID, and
 * the tags of its links. Keys from before there were cells name none, and so are among them.
 */
import { Effect, Option, Stream } from "effect"
import { SqlClient } from "effect/sql"
import { Cell, tagOf } from "../base/cell.ts"
import { livesHere } from "../db/tenant.ts"

interface Lived {
  readonly id: string
  readonly cells: ReadonlyArray<string>
}

const tagsOf = ({ id, cells }: Lived, cell: string): ReadonlyArray<string> =>
  [...cells, cell].map((maker) => tagOf(maker, id))

/** Of one account, all that proxies may know it by. */
export const routesOf = Effect.fnUntraced(function* (account: string, cell: string) {
  const sql = yield* SqlClient.SqlClient
  const keys = yield* sql<{ hash: string }>`
    SELECT upper(encode(hash, 'hex')) AS hash FROM api_key WHERE account_id = ${account} ORDER BY 1`
  const [lived] = yield* sql<Lived>`SELECT id, cells FROM account WHERE id = ${account}`
  return [...keys.map(({ hash }) => hash), account, ...(lived === undefined ? [] : tagsOf(lived, cell))]
})

/** Accounts, and keys, read at a time. */
const PAGE = 1_000

/** All rows of a query that reads a page behind a key, in the order of that key. */
const paged = <Row extends { readonly id: string }, E, R>(
  read: (after: string) => Effect.Effect<ReadonlyArray<Row>, E, R>,
) =>
  Stream.paginate("", (after) =>
    Effect.map(
      read(after),
      (rows) => [[rows], rows.length < PAGE ? Option.none() : Option.some(rows.at(-1)!.id)] as const,
    ),
  )

/** The map that a proxy begins with, of this cell: `key cell` by line. */
export const readRoutes = Stream.unwrap(
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const cell = yield* Cell
    const lines = (keys: ReadonlyArray<string>): string => keys.map((key) => `${key} ${cell}\n`).join("")
    const keys = paged(
      (after) => sql<{ id: string; hash: string }>`
        SELECT id, upper(encode(hash, 'hex')) AS hash FROM api_key k
        WHERE cell IS DISTINCT FROM ${cell} AND ${livesHere(sql, "k")} AND id > ${after} ORDER BY id LIMIT ${PAGE}`,
    )
    const accounts = paged(
      (after) =>
        sql<Lived>`SELECT id, cells FROM account a WHERE cells <> '{}' AND ${livesHere(sql, "a", "id")} AND id > ${after} ORDER BY id LIMIT ${PAGE}`,
    )
    return Stream.concat(
      Stream.map(keys, (rows) => lines(rows.map(({ hash }) => hash))),
      Stream.map(accounts, (rows) => lines(rows.flatMap((row) => [row.id, ...tagsOf(row, cell)]))),
    )
  }),
)
