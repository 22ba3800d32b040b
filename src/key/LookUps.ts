/**
 * Looks keys up in the database, all that are asked for at a time together: whoever tries any number of keys that are none
 * keeps one connection busy at most, and who has a real one waits for no more than the statement under way.
 */
import { type Context, Effect, Exit } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { ParsedKey } from "./key.ts"
import type { AccountKey, AdministratorKey, KnownKey } from "./Remembered.ts"

/** Keys in one statement. */
const MAX_TOGETHER = 500

type Found = Exit.Exit<KnownKey | undefined, SqlError.SqlError>

interface Waiting {
  readonly parsed: ParsedKey
  readonly tell: Array<(found: Found) => void>
}

const nameOf = ({ kind, hash }: ParsedKey): string => `${kind} ${Buffer.from(hash).toString("hex")}`

type Named<K> = K & { readonly hash: Uint8Array }

export class LookUps {
  readonly #sql: SqlClient.SqlClient
  /** Of the process: a look-up belongs to none of the requests that wait for it. */
  readonly #context: Context.Context<never>
  /** By kind and hash, in the order in which they came. */
  #waiting = new Map<string, Waiting>()
  #underWay = false

  constructor(sql: SqlClient.SqlClient, context: Context.Context<never>) {
    this.#sql = sql
    this.#context = context
  }

  #read(keys: ReadonlyArray<ParsedKey>): Effect.Effect<ReadonlyMap<string, KnownKey>, SqlError.SqlError> {
    const sql = this.#sql
    const hashes = (wanted: ParsedKey["kind"]) =>
      keys.filter(({ kind }) => kind === wanted).map(({ hash }) => Buffer.from(hash).toString("hex"))
    const [accounts, administrators] = [hashes("account"), hashes("administrator")]
    return Effect.gen(function* () {
      const found: Array<Named<KnownKey>> = []
      if (accounts.length > 0)
        found.push(
          ...(yield* sql<Named<AccountKey>>`
            SELECT 'account' AS kind, k.hash, k.id, k.account_id, k.livemode, k.type, k.scopes, k.origins, k.expires_at, k.revoked_at, a.live_access, a.api_plan
            FROM unnest(${accounts}::text[]) AS h (hash) JOIN api_key k ON k.hash = decode(h.hash, 'hex') JOIN account a ON a.id = k.account_id`),
        )
      if (administrators.length > 0)
        found.push(
          ...(yield* sql<Named<AdministratorKey>>`
            SELECT 'administrator' AS kind, k.hash, k.id, k.name, k.revoked_at
            FROM unnest(${administrators}::text[]) AS h (hash) JOIN administrator_key k ON k.hash = decode(h.hash, 'hex')`),
        )
      return new Map(found.map(({ hash, ...key }) => [nameOf({ kind: key.kind, hash }), key as KnownKey]))
    })
  }

  /** Looks for what waits until nothing does. */
  readonly #work = Effect.gen({ self: this }, function* () {
    while (this.#waiting.size > 0) {
      const batch = [...this.#waiting].slice(0, MAX_TOGETHER)
      for (const [name] of batch) this.#waiting.delete(name)
      const found = yield* Effect.exit(this.#read(batch.map(([, { parsed }]) => parsed)))
      for (const [name, { tell }] of batch) for (const one of tell) one(Exit.map(found, (keys) => keys.get(name)))
    }
    this.#underWay = false
  })

  /** The key of this text, as the database has it now. */
  find(parsed: ParsedKey): Effect.Effect<KnownKey | undefined, SqlError.SqlError> {
    return Effect.callback((resume) => {
      const name = nameOf(parsed)
      const waiting = this.#waiting.get(name)
      if (waiting === undefined) this.#waiting.set(name, { parsed, tell: [resume] })
      else waiting.tell.push(resume)
      if (this.#underWay) return
      this.#underWay = true
      Effect.runForkWith(this.#context)(this.#work)
    })
  }
}
