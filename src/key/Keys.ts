/**
 * Whose request it is. Keys are remembered in memory for as long as the database tells of every change (LISTEN): a
 * revoked key is forgotten everywhere at once, and while the line is down nothing is remembered.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { records } from "../db/records.ts"
import { type Problem, problem } from "../problem.ts"
import { MINUTE_MS } from "../time.ts"
import { type KeyType, type ParsedKey, parseKey } from "./Key.ts"
import type { Scopes } from "./scopes.ts"

export interface AccountKey {
  readonly kind: "account"
  readonly id: string
  readonly account_id: string
  readonly livemode: boolean
  readonly type: KeyType
  readonly scopes: Scopes
  readonly origins: ReadonlyArray<string>
  readonly expires_at: number | null
  readonly revoked_at: number | null
  readonly live_access: string
  readonly api_plan: ApiPlan
}

export interface AdministratorKey {
  readonly kind: "administrator"
  readonly id: string
  readonly name: string
  readonly revoked_at: number | null
}

export type KnownKey = AccountKey | AdministratorKey
export type ApiPlan = "starter" | "growth" | "scale" | "enterprise"

export interface Authenticated {
  readonly key: KnownKey
  readonly refusal: Problem | undefined
}

/** Keys in memory; past it, all are forgotten: an installation has thousands at most. */
const MOST_REMEMBERED = 20_000
const RECONNECT_MS = 500
/** How often uses are written down: "last used" is exact to a minute (decision J1). */
const NOTE_USES_EVERY_MS = 5_000

const USE = { account_id: "text", livemode: "boolean", id: "text", at: "timestamptz" } as const

export class Keys extends Context.Service<
  Keys,
  {
    /**
     * The key of an `Authorization` header; where it is known but of the other environment, or without live access, with
     * the refusal (decision A6).
     */
    readonly authenticate: (
      authorization: string | undefined,
      livemode: boolean | undefined,
    ) => Effect.Effect<Authenticated, Problem | SqlError.SqlError>
  }
>()("billing/key/Keys") {
  static readonly layer: Layer.Layer<Keys, never, SqlClient.SqlClient | PgClient.PgClient> = Layer.effect(
    Keys,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const pg = yield* PgClient.PgClient
      const remembered = new Map<string, KnownKey>()
      /** Counts the changes heard of: a look-up that one overtakes is not remembered. */
      let changes = 0
      let listening = false

      const forgetAll = () => {
        changes++
        remembered.clear()
      }
      const listen = Effect.scoped(
        Effect.gen(function* () {
          const notices = yield* pg.listen("api_key_changed")
          forgetAll()
          listening = true
          yield* Effect.forever(
            Effect.map(Queue.take(notices), ({ payload }) => {
              changes++
              if (payload === "account") remembered.clear()
              else remembered.delete(payload)
            }),
          )
        }),
      ).pipe(
        Effect.ensuring(
          Effect.sync(() => {
            listening = false
            forgetAll()
          }),
        ),
      )
      yield* Effect.forkScoped(listen.pipe(Effect.ignore, Effect.repeat(Schedule.spaced(RECONNECT_MS))))

      /** The minute in which each key was last used, where that is not written down yet. */
      const uses = new Map<string, AccountKey & { readonly at: number }>()
      const noted = new Map<string, number>()
      const noteUse = (key: AccountKey) => {
        const at = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS
        if (noted.get(key.id) === at) return
        if (noted.size >= MOST_REMEMBERED) noted.clear()
        noted.set(key.id, at)
        uses.set(key.id, { ...key, at })
      }
      const writeUses = Effect.suspend(() => {
        const rows = [...uses.values()]
        uses.clear()
        return rows.length === 0
          ? Effect.void
          : sql`UPDATE api_key k SET last_used_at = greatest(k.last_used_at, r.at) FROM ${records(sql, rows, USE)} r
              WHERE (k.account_id, k.livemode, k.id) = (r.account_id, r.livemode, r.id)`.pipe(
              Effect.tapError(() => Effect.sync(() => rows.forEach((row) => void uses.set(row.id, row)))),
            )
      }).pipe(Effect.ignore)
      yield* Effect.forkScoped(Effect.repeat(writeUses, Schedule.spaced(NOTE_USES_EVERY_MS)))
      yield* Effect.addFinalizer(() => writeUses)

      const read = ({ kind, hash }: ParsedKey) =>
        kind === "administrator"
          ? sql<AdministratorKey>`SELECT 'administrator' AS kind, id, name, revoked_at FROM administrator_key WHERE hash = ${hash}`
          : sql<AccountKey>`
              SELECT 'account' AS kind, k.id, k.account_id, k.livemode, k.type, k.scopes, k.origins, k.expires_at, k.revoked_at, a.live_access, a.api_plan
              FROM api_key k JOIN account a ON a.id = k.account_id WHERE k.hash = ${hash}`

      const find = (parsed: ParsedKey): Effect.Effect<KnownKey | undefined, SqlError.SqlError> =>
        Effect.gen(function* () {
          const name = Buffer.from(parsed.hash).toString("hex")
          const known = remembered.get(name)
          if (known !== undefined) return known
          const before = changes
          const [row]: ReadonlyArray<KnownKey> = yield* read(parsed)
          if (row !== undefined && listening && before === changes) {
            if (remembered.size >= MOST_REMEMBERED) remembered.clear()
            remembered.set(name, row)
          }
          return row
        })

      const judge = (key: AccountKey, livemode: boolean | undefined): Problem | undefined => {
        if (livemode !== undefined && key.livemode !== livemode) {
          const [is, should] = key.livemode ? ["live", "sandbox"] : ["sandbox", "live"]
          return problem("key_environment_mismatch", `This is a ${is} key, and the address is the ${should} one.`)
        }
        return key.livemode && key.live_access !== "approved"
          ? problem("live_access_required", "Live access of this account is not enabled.")
          : undefined
      }

      return Keys.of({
        authenticate: (authorization, livemode) =>
          Effect.gen(function* () {
            const token = authorization === undefined ? undefined : /^Bearer +(\S+)$/i.exec(authorization.trim())?.[1]
            if (token === undefined)
              return yield* problem("key_missing", "Send your API key in the header: Authorization: Bearer <API_KEY>.")
            const parsed = parseKey(token)
            const key = parsed === undefined ? undefined : yield* find(parsed)
            if (key === undefined)
              return yield* problem("key_invalid", "There is no such API key. Check that it was copied whole.")
            if (key.revoked_at !== null) return yield* problem("key_revoked", "This API key was revoked.")
            if (key.kind === "administrator") return { key, refusal: undefined }
            if (key.expires_at !== null && key.expires_at <= Date.now())
              return yield* problem("key_expired", "This API key was rolled, and its grace period is over.")
            const refusal = judge(key, livemode)
            if (refusal === undefined) noteUse(key)
            return { key, refusal }
          }),
      })
    }),
  )
}
