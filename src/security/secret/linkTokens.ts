/**
 * Tokens of links that whoever has them may follow: the cell that made it (decision O2), what tells the account's links, and
 * 256 bits that nobody can guess. A token is never stored: those bits follow from what it leads to and a secret of the service,
 * and are found by their hash, whichever cell the account lives in by now.
 */
import { createHash, createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import { CELL_LENGTH, Cell, tagOf } from "../../base/cell.ts"
import type { Problem } from "../../base/problem.ts"
import type { Table } from "../../db/table.ts"
import { livesHere, type Ref } from "../../db/tenant.ts"
import { SharedSecrets } from "./SharedSecrets.ts"

/** 256 bits in base64url. Tokens from before there were cells are nothing but these. */
const BITS_LENGTH = 43

export const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex")

/** Those of a token that nobody can guess. */
export const bitsOf = (token: string): string => token.slice(-BITS_LENGTH)

/** Whether the rest of a token, whose bits led to something of an account, goes with that account. */
export const isWhole = (token: string, account: string): boolean => {
  const rest = token.slice(0, -BITS_LENGTH)
  const cell = rest.slice(0, CELL_LENGTH)
  return rest === "" || rest === `${cell}${tagOf(cell, account)}`
}

/** What is kept of a token. */
export const hashToken = (token: string): string => hashOf(bitsOf(token))

/** The row that a token leads to by the hash that `column` has of it, whosever it is; fails with `missing`. */
export const findByToken = <Row extends Ref>(
  table: Table<Row>,
  column: "token_hash" | "link_token_hash",
  token: string,
  missing: Problem,
) =>
  Effect.flatMap(
    table.read(
      "t",
      (sql, columns) => sql`
        SELECT ${columns} FROM ${sql(table.name)} t WHERE ${sql(column)} = ${hashToken(token)} AND ${livesHere(sql, "t")}`,
    ),
    ([row]) => (row !== undefined && isWhole(token, row.account_id) ? Effect.succeed(row) : Effect.fail(missing)),
  )

/** What makes the tokens of links of one kind, whose secret has this name, to what an account calls so. */
export const linkTokens = (secretName: string) =>
  Effect.gen(function* () {
    const cell = yield* Cell
    const secret = yield* (yield* SharedSecrets).get(secretName)
    return (account: string, what: string): string =>
      `${cell}${tagOf(cell, account)}${createHmac("sha256", Redacted.value(secret())).update(what).digest("base64url")}`
  })
