/** The port to what counts what accounts use (decisions K1, K5). */
import { Context, type Effect } from "effect"
import type { SqlClient, SqlError } from "effect/sql"
import type { AccountKey, KnownKey } from "../security/key/Keys.ts"

type Headers = Readonly<Record<string, string>>

export class Metering extends Context.Service<
  Metering,
  {
    /** Counts live writes in the running transaction; returns what makes the headers of each once that is committed. */
    readonly count: (
      key: AccountKey,
      writes: number,
    ) => Effect.Effect<() => ReadonlyArray<Headers>, SqlError.SqlError, SqlClient.SqlClient>
    /** The headers of a write that does not count: refused, replayed, or in the sandbox. */
    readonly standing: (key: KnownKey | undefined) => Effect.Effect<Headers>
    readonly noteRead: (key: AccountKey) => void
    /** Reads of an account in the month that began then which this process has counted, and not written down yet. */
    readonly readsWaiting: (accountId: string, periodStart: number) => number
  }
>()("billing/http/Metering") {}
