/**
 * Tokens of links that need no other key: the cell that made the link (decision O2), the tag of the account, and 256 bits that
 * cannot be guessed. The bits are derived from the linked object and a secret of the service, so a token is never stored. They are
 * looked up by their hash, in whichever cell the account is now.
 */
import { createHash, createHmac } from "node:crypto"
import { Effect, Redacted } from "effect"
import { CELL_LENGTH, Cell, tagOf } from "../../base/cell.ts"
import type { Problem } from "../../base/problem.ts"
import type { Table } from "../../db/table.ts"
import { livesHere, type Ref } from "../../db/tenant.ts"
import { SharedSecrets } from "./SharedSecrets.ts"

/** 256 bits in base64url. */
const BITS_LENGTH = 43

export const hashOf = (text: string): string => createHash("sha256").update(text).digest("hex")

/** The part of a token that cannot be guessed. */
export const bitsOf = (token: string): string => token.slice(-BITS_LENGTH)

/** Whether the cell and the tag of a token match the account that its bits led to. */
export const isWhole = (token: string, account: string): boolean => {
  const rest = token.slice(0, -BITS_LENGTH)
  const cell = rest.slice(0, CELL_LENGTH)
  return rest === `${cell}${tagOf(cell, account)}`
}

/** The stored hash of a token. */
export const hashToken = (token: string): string => hashOf(bitsOf(token))

/** Finds the row of any account whose `column` has the hash of this token; fails with `missing`. */
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

/** Makes the function that makes link tokens of one kind. `secretName`: the secret of that kind; `name`: the linked object's name within its account. */
export const linkTokens = (secretName: string) =>
  Effect.gen(function* () {
    const cell = yield* Cell
    const secret = yield* (yield* SharedSecrets).get(secretName)
    return (account: string, name: string): string =>
      `${cell}${tagOf(cell, account)}${createHmac("sha256", Redacted.value(secret())).update(name).digest("base64url")}`
  })
