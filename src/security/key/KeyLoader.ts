/**
 * Looks up keys in the database, in batches: all keys that wait go into one statement. So a caller that tries many invalid keys
 * uses one connection at most, and a valid key waits only for the statement that is running.
 */
import { type Context, Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import { Batcher } from "../../concurrency/Batcher.ts"
import { livesHere } from "../../db/tenant.ts"
import type { AccountKey, AdministratorKey, KnownKey } from "./KeyCache.ts"
import type { ParsedKey } from "./key.ts"

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
          SELECT 'account' AS kind, k.hash, k.id, k.account_id, k.livemode, k.last4, k.type, k.scopes, k.origins, k.expires_at, k.revoked_at, a.live_access, a.api_plan
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

export class KeyLoader {
  readonly #batcher: Batcher<ParsedKey, KnownKey, SqlError.SqlError, never>

  constructor(sql: SqlClient.SqlClient, context: Context.Context<never>) {
    this.#batcher = new Batcher(context, nameOf, read(sql))
  }

  /** Returns the key as it is in the database now; undefined if there is none. */
  find(parsed: ParsedKey): Effect.Effect<KnownKey | undefined, SqlError.SqlError> {
    return this.#batcher.ask(parsed)
  }
}
