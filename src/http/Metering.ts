/** The port to the service that counts the usage of accounts (decisions K1, K5). */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { AccountKey, KnownKey } from "../security/key/Keys.ts"

type Headers = Readonly<Record<string, string>>

export class Metering extends Context.Service<
  Metering,
  {
    /** Counts live writes in the running transaction; returns a function that makes the headers of each write after the commit. */
    readonly count: (
      key: AccountKey,
      writes: number,
    ) => Effect.Effect<() => ReadonlyArray<Headers>, SqlError.SqlError, SqlClient.SqlClient>
    /** Returns the headers of a write that does not count: refused, replayed, or in the sandbox. */
    readonly usageHeaders: (key: KnownKey | undefined) => Effect.Effect<Headers>
    readonly noteRead: (key: AccountKey) => void
    /** Returns the reads of an account in the month from `periodStart` that this process has counted but not written yet. */
    readonly readsWaiting: (accountId: string, periodStart: number) => number
  }
>()("billing/http/Metering") {}
