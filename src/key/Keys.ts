/**
 * Whose request it is. Keys are remembered in memory for as long as the database tells of every change (LISTEN): a
 * revoked key is forgotten everywhere at once, and while the line is down nothing is remembered.
 */
import { PgClient } from "@effect/sql-pg"
import { Context, Effect, Layer, Queue, Schedule } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { type Problem, problem } from "../problem.ts"
import { type KeyType, type ParsedKey, parseKey } from "./Key.ts"

export interface KnownKey {
  readonly account_id: string
  readonly livemode: boolean
  readonly type: KeyType
  readonly expires_at: number | null
  readonly revoked_at: number | null
  readonly live_access: string
}

/** Keys in memory; past it, all are forgotten: an installation has thousands at most. */
const MOST_REMEMBERED = 20_000
const RECONNECT_MS = 500

export class Keys extends Context.Service<
  Keys,
  {
    /** The key of an `Authorization` header, judged in the order of decision A6: key, environment, live access. */
    readonly authenticate: (
      authorization: string | undefined,
      livemode: boolean | undefined,
    ) => Effect.Effect<KnownKey, Problem | SqlError.SqlError>
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

      const find = (parsed: ParsedKey) =>
        Effect.gen(function* () {
          const name = Buffer.from(parsed.hash).toString("hex")
          const known = remembered.get(name)
          if (known !== undefined) return known
          const before = changes
          const [row] = yield* sql<KnownKey>`
            SELECT k.account_id, k.livemode, k.type, k.expires_at, k.revoked_at, a.live_access
            FROM api_key k JOIN account a ON a.id = k.account_id WHERE k.hash = ${parsed.hash}`
          if (row !== undefined && listening && before === changes) {
            if (remembered.size >= MOST_REMEMBERED) remembered.clear()
            remembered.set(name, row)
          }
          return row
        })

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
            if (key.expires_at !== null && key.expires_at <= Date.now())
              return yield* problem("key_expired", "This API key was rolled, and its grace period is over.")
            if (livemode !== undefined && key.livemode !== livemode) {
              const [is, should] = key.livemode ? ["live", "sandbox"] : ["sandbox", "live"]
              return yield* problem(
                "key_environment_mismatch",
                `This is a ${is} key, and the address is the ${should} one.`,
              )
            }
            if (key.livemode && key.live_access !== "approved") {
              return yield* problem("live_access_required", "Live access of this account is not enabled.")
            }
            return key
          }),
      })
    }),
  )
}
