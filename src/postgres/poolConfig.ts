/** The configuration of connections to Postgres: limits, session settings, codecs. */
import type { Redacted } from "effect"
import { types } from "./codecs.ts"
import { socketsTo } from "./sockets.ts"

const CONNECT_LIMIT_MS = 5_000
/** No statement of the service takes this long; one that does is stuck. */
const STATEMENT_LIMIT_MS = 60_000

/** Returns the pool configuration for `url`, with these session `settings`. */
export const poolConfig = (
  url: Redacted.Redacted<string>,
  maxConnections: number,
  settings: Readonly<Record<string, string>>,
) => ({
  url,
  maxConnections,
  connectTimeout: CONNECT_LIMIT_MS,
  stream: socketsTo(url).open,
  applicationName: "recurring-billing",
  startupParameters: {
    timezone: "UTC",
    statement_timeout: String(STATEMENT_LIMIT_MS),
    idle_in_transaction_session_timeout: String(STATEMENT_LIMIT_MS),
    // The service finds all rows by key. A plan made while a table was small stays for the connection's life, so plans that only
    // suit small tables are disabled. JIT compiling takes longer than running.
    enable_hashjoin: "off",
    enable_mergejoin: "off",
    enable_seqscan: "off",
    jit: "off",
    // Prefers an index in the right order to a sort of all rows, even if the server assumes slow disks.
    random_page_cost: "1.1",
    ...settings,
  },
  // Writes that go out together make many different statements; each uses about 0.4 MB of a session.
  preparedStatementCacheSize: 200,
  types,
})
