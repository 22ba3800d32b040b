/**
 * RailCredentials is a service that reads credentials of rails. It reads each time which ones are current, so that replaced
 * ones are never used again. Each process decrypts them once.
 */
import { Context, Effect, Layer, Result } from "effect"
import { SqlClient, type SqlError } from "effect/sql"
import { Batcher } from "../../concurrency/Batcher.ts"
import type { ConfigProblem } from "../../config/Config.ts"
import { rowsAsTable } from "../../db/rows.ts"
import { livesHere } from "../../db/tenant.ts"
import { Vault } from "../../security/secret/Vault.ts"
import type { Credentials, OutsideRail } from "../rail/Rail.ts"
import { openCredentials, type RailAccount, type SealedCredentials } from "./credential.ts"
import { REPLACED_FOR } from "./credentials.ts"

/** The credentials of an account at a rail, or why this process cannot decrypt them. */
export type FoundCredentials = Result.Result<Credentials, ConfigProblem>

/** The key of an account's credentials at a rail. */
export const railAccountKey = ({ account_id, rail }: RailAccount): string => `${rail} ${account_id}`

/** Decrypted credentials in memory. At the limit the cache is cleared. */
const MAX_OPENED = 10_000
/** Credentials of an account at a rail that are tried on one callback: no merchant replaces them more often in an hour. */
const MAX_SIGNING = 100

const RAIL_ACCOUNT = { account_id: "text", rail: "text" } as const

/** Returns a function that decrypts credentials, each once in this process. */
const createOpening = Effect.map(Vault, (vault) => {
  const opened = new Map<string, Credentials>()
  return (row: SealedCredentials): Effect.Effect<FoundCredentials> =>
    Effect.suspend(() => {
      const cached = opened.get(row.id)
      if (cached !== undefined) return Effect.succeed(Result.succeed(cached))
      return openCredentials(row).pipe(
        Effect.provideService(Vault, vault),
        Effect.tap((credentials) =>
          Effect.sync(() => {
            if (opened.size >= MAX_OPENED) opened.clear()
            opened.set(row.id, credentials)
          }),
        ),
        Effect.tapError(({ message }) => Effect.logError(message)),
        Effect.result,
      )
    })
})

const readCurrent = (sql: SqlClient.SqlClient, of: ReadonlyArray<RailAccount>) =>
  sql<SealedCredentials>`
    SELECT c.account_id, c.rail, c.id, c.sealed
    FROM ${rowsAsTable(of, RAIL_ACCOUNT)} a JOIN rail_credential c ON (c.rail, c.account_id) = (a.rail, a.account_id)
    WHERE c.livemode AND c.replaced_at IS NULL`

/** Reads the credentials that may sign a callback, the newest first: they sign most callbacks. */
const readSigning = (sql: SqlClient.SqlClient, of: ReadonlyArray<RailAccount>) =>
  sql<SealedCredentials>`
    SELECT c.account_id, c.rail, c.id, c.sealed
    FROM ${rowsAsTable(of, RAIL_ACCOUNT)} a JOIN rail_credential c ON c.account_id = a.account_id AND c.rail = a.rail
    WHERE c.livemode AND ${livesHere(sql, "c")} AND (c.replaced_at IS NULL OR c.replaced_at > now() - ${REPLACED_FOR}::interval)
    ORDER BY c.replaced_at DESC NULLS FIRST`

export class RailCredentials extends Context.Service<
  RailCredentials,
  {
    /** Returns the current credentials of accounts at rails, by `railAccountKey`. Accounts without credentials are left out. */
    readonly find: (
      of: ReadonlyArray<RailAccount>,
    ) => Effect.Effect<ReadonlyMap<string, FoundCredentials>, SqlError.SqlError>
    /**
     * Returns the credentials that may sign a callback for an account: its current ones, and those replaced within the last
     * hour (decision P12). Callbacks are public, so all waiting lookups share one statement at a time.
     */
    readonly ofCallback: (
      accountId: string,
      rail: OutsideRail,
    ) => Effect.Effect<ReadonlyArray<Credentials>, SqlError.SqlError>
  }
>()("billing/rails/credential/RailCredentials") {
  static readonly layer = Layer.effect(
    RailCredentials,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const open = yield* createOpening
      const signing = new Batcher(yield* Effect.context<never>(), railAccountKey, (of: ReadonlyArray<RailAccount>) =>
        Effect.map(readSigning(sql, of), (rows) => Map.groupBy(rows, railAccountKey)),
      )
      return RailCredentials.of({
        find: Effect.fnUntraced(function* (of) {
          if (of.length === 0) return new Map()
          const rows = yield* readCurrent(sql, of)
          const opened = yield* Effect.forEach(rows, (row) =>
            Effect.map(open(row), (found) => [railAccountKey(row), found] as const),
          )
          return new Map(opened)
        }),
        ofCallback: Effect.fnUntraced(function* (account_id, rail) {
          const rows = (yield* signing.ask({ account_id, rail })) ?? []
          const opened = yield* Effect.forEach(rows.slice(0, MAX_SIGNING), open)
          return opened.filter(Result.isSuccess).map(({ success }) => success)
        }),
      })
    }),
  )
}
