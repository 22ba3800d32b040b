/**
 * Authenticates API keys. Keys are cached in memory for some seconds while the process listens to the database's notifications of
 * changes (LISTEN): every process drops a revoked key immediately. Nothing is cached while the listening connection is down or
 * silent, and every entry expires at its maximum age.
 */
import { Context, Effect, Layer } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Problem, problem } from "../../base/problem.ts"
import { MINUTE_MS } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { staysHere } from "../../db/tenant.ts"
import { Listener } from "../../process/Listener.ts"
import { every } from "../../process/workers.ts"
import { type AccountKey, KeyCache, type KnownKey } from "./KeyCache.ts"
import { KeyLoader } from "./KeyLoader.ts"
import { type ParsedKey, parseKey } from "./key.ts"

export type { AccountKey, KnownKey } from "./KeyCache.ts"

export interface Authenticated {
  readonly key: KnownKey
  readonly refusal: Problem | undefined
}

/** A look-up that takes longer waits for a lock on the keys. It continues in the background, and later requests get its result. */
const LOOK_UP_LIMIT_MS = 5_000
const TOO_SLOW = problem("service_unavailable", "The service cannot look up API keys just now.")

/** Limit of keys whose last use this process remembers as written. Above it, all are written again. */
const MAX_NOTED = 20_000
/** How often uses are written: "last used" is exact to a minute (decision J1). */
const NOTE_USES_EVERY_MS = 5_000

/** A key and the minute in which it was last used. */
type Use = KnownKey & { readonly at: number }

/** The last uses of keys that are not written yet. */
class Uses {
  readonly #waiting = new Map<string, Use>()
  readonly #noted = new Map<string, number>()

  note(key: KnownKey): void {
    const at = Math.floor(currentTime() / MINUTE_MS) * MINUTE_MS
    if (this.#noted.get(key.id) === at) return
    if (this.#noted.size >= MAX_NOTED) this.#noted.clear()
    this.#noted.set(key.id, at)
    this.#waiting.set(key.id, { ...key, at })
  }

  take(): ReadonlyArray<Use> {
    const rows = [...this.#waiting.values()]
    this.#waiting.clear()
    return rows
  }

  putBack(rows: ReadonlyArray<Use>): void {
    for (const row of rows) if (!this.#waiting.has(row.id)) this.#waiting.set(row.id, row)
  }
}

const ADMINISTRATOR_USE = { id: "text", at: "timestamptz" } as const
const ACCOUNT_USE = { account_id: "text", livemode: "boolean", ...ADMINISTRATOR_USE } as const

const writeUses = Effect.fnUntraced(function* (uses: Uses) {
  const rows = uses.take()
  if (rows.length === 0) return
  const sql = yield* SqlClient.SqlClient
  const accounts = rows.filter(({ kind }) => kind === "account")
  const administrators = rows.filter(({ kind }) => kind === "administrator")
  const write = Effect.gen(function* () {
    yield* sql`
      UPDATE api_key k SET last_used_at = greatest(k.last_used_at, r.at) FROM ${rowsAsTable(accounts, ACCOUNT_USE)} r
      WHERE (k.account_id, k.livemode, k.id) = (r.account_id, r.livemode, r.id) AND ${staysHere(sql, "k")}`
    yield* sql`
      UPDATE administrator_key k SET last_used_at = greatest(k.last_used_at, r.at)
      FROM ${rowsAsTable(administrators, ADMINISTRATOR_USE)} r WHERE k.id = r.id`
  })
  // The statement is idempotent, so writing the same uses twice is safe.
  yield* Effect.tapError(write, () => Effect.sync(() => uses.putBack(rows)))
})

/** Finds a key: in the cache if its entry is fresh enough, else in the database. */
const find = Effect.fnUntraced(function* (cache: KeyCache, loader: KeyLoader, parsed: ParsedKey) {
  const name = Buffer.from(parsed.hash).toString("hex")
  const now = performance.now()
  const cached = cache.get(name, now)
  if (cached !== undefined) return cached
  const { changes } = cache
  const key = yield* Effect.timeoutOrElse(loader.find(parsed), {
    duration: LOOK_UP_LIMIT_MS,
    orElse: () => Effect.fail(TOO_SLOW),
  })
  if (key !== undefined) cache.set(name, key, { at: now, changes })
  return key
})

/** The refusal of an account's key in this environment; undefined if the key may be used there. */
const refusalOf = (key: AccountKey, livemode: boolean | undefined): Problem | undefined => {
  if (livemode !== undefined && key.livemode !== livemode) {
    const [is, should] = key.livemode ? ["live", "sandbox"] : ["sandbox", "live"]
    return problem("key_environment_mismatch", `This is a ${is} key, and the address is the ${should} one.`)
  }
  return key.livemode && key.live_access !== "approved"
    ? problem("live_access_required", "Live access of this account is not enabled.")
    : undefined
}

interface Memory {
  readonly cache: KeyCache
  readonly loader: KeyLoader
  readonly uses: Uses
}

const authenticate = Effect.fnUntraced(function* (
  { cache, loader, uses }: Memory,
  authorization: string | undefined,
  livemode: boolean | undefined,
) {
  const token = authorization === undefined ? undefined : /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1]
  if (token === undefined)
    return yield* problem("key_missing", "Send your API key in the header: Authorization: Bearer <API_KEY>.")
  const parsed = parseKey(token)
  const key = parsed === undefined ? undefined : yield* find(cache, loader, parsed)
  if (key === undefined)
    return yield* problem("key_invalid", "There is no such API key. Check that you copied all of it.")
  if (key.revoked_at !== null) return yield* problem("key_revoked", "This API key was revoked.")
  if (key.kind === "administrator") {
    uses.note(key)
    return { key, refusal: undefined }
  }
  if (key.expires_at !== null && key.expires_at <= currentTime())
    return yield* problem("key_expired", "This API key was rolled, and its grace period is over.")
  const refusal = refusalOf(key, livemode)
  if (refusal === undefined) uses.note(key)
  return { key, refusal }
})

export class Keys extends Context.Service<
  Keys,
  {
    /**
     * Returns the key of an `Authorization` header. A key of the other environment, or without live access, comes with its
     * refusal (decision A6).
     */
    readonly authenticate: (
      authorization: string | undefined,
      livemode: boolean | undefined,
    ) => Effect.Effect<Authenticated, Problem | SqlError.SqlError>
  }
>()("billing/security/key/Keys") {
  static readonly layer = Layer.effect(
    Keys,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const cache = new KeyCache()
      const uses = new Uses()
      const { listen } = yield* Listener
      yield* listen("api_key_changed", {
        notice: (payload) => cache.changed(payload),
        began: () => cache.listening(true),
        ended: () => cache.listening(false),
      })
      yield* Effect.addFinalizer(() =>
        Effect.ignore(writeUses(uses), { log: "Warn", message: "the last uses of keys were not written" }),
      )
      yield* every("key uses", NOTE_USES_EVERY_MS, writeUses(uses))
      const memory = { cache, loader: new KeyLoader(sql, yield* Effect.context<never>()), uses }
      return Keys.of({
        authenticate: (authorization, livemode) => authenticate(memory, authorization, livemode),
      })
    }),
  )
}
