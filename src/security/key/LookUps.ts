/**
 * Looks keys up in the database, all that are asked for at a time together: whoever tries any number of keys that are none
 * keeps one connection busy at most, and who has a real one waits for no more than the statement under way.
 */
import { type Context, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { Batcher } from "../../concurrency/Batcher.ts"
import { livesHere } from "../../db/tenant.ts"
import type { ParsedKey } from "./key.ts"
import type { AccountKey, AdministratorKey, KnownKey } from "./Remembered.ts"

const nameOf = ({ kind, hash }: ParsedKey): string => `${kind} ${Buffer.from(hash).toString("hex")}`

type Named<K> = K & { readonly hash: Uint8Array }

const read = (sql: SqlClient.SqlClient) =>
  Effect.fnUntraced(function* (keys: ReadonlyArray<ParsedKey>) {
    const hashes = (wanted: ParsedKey["kind"]) =>
      keys.filter(({ kind }) => kind === wanted).map(({ hash }) => Buffer.from(hash).toString("hex"))
    const [accounts, administrators] = [hashes("account"), hashes("administrator")]
    const found: Array<Named<KnownKey>> = []
    if (accounts.length > 0)
      found.push(
        ...(yield* sql<Named<AccountKey>>`
          SELECT 'account' AS kind, k.hash, k.id, k.account_id, k.livemode, k.type, k.scopes, k.origins, k.expires_at, k.revoked_at, a.live_access, a.api_plan
          FROM unnest(${accounts}::text[]) AS h (hash) JOIN api_key k ON k.hash = decode(h.hash, 'hex') JOIN account a ON a.id = k.account_id
          WHERE ${livesHere(sql, "k")}`),
      )
    if (administrators.length > 0)
      found.push(
        ...(yield* sql<Named<AdministratorKey>>`
          SELECT 'administrator' AS kind, k.hash, k.id, k.name, k.revoked_at
          FROM unnest(${administrators}::text[]) AS h (hash) JOIN administrator_key k ON k.hash = decode(h.hash, 'hex')`),
      )
    return new Map(found.map(({ hash, ...key }) => [nameOf({ kind: key.kind, hash }), key as KnownKey]))
  })

export class LookUps {
  readonly #together: Batcher<ParsedKey, KnownKey, SqlError.SqlError, never>

  constructor(sql: SqlClient.SqlClient, context: Context.Context<never>) {
    this.#together = new Batcher(context, nameOf, read(sql))
  }

  /** The key of this text, as the database has it now. */
  find(parsed: ParsedKey): Effect.Effect<KnownKey | undefined, SqlError.SqlError> {
    return this.#together.ask(parsed)
  }
}
