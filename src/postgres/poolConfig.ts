/** How connections to Postgres are made: limits, settings of their sessions, codecs. */
import type { Redacted } from "effect"
import { types } from "./codecs.ts"
import { socketsTo } from "./sockets.ts"

const CONNECT_LIMIT_MS = 5_000
/** Nothing we do takes this long; a statement that does is stuck. */
const STATEMENT_LIMIT_MS = 60_000

/** How connections to `url` are made, with `settings` of their sessions. */
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
    // Everything that the service does goes by key. A plan made while a table was small is kept for the connection's
    // life, so plans that only suit small tables are ruled out; compiling takes longer than running.
    enable_hashjoin: "off",
    enable_mergejoin: "off",
    enable_seqscan: "off",
    jit: "off",
    // Of an index that has the order, not a sort of all that it finds, whatever the server believes of its disks.
    random_page_cost: "1.1",
    ...settings,
  },
  // What is written together makes many combinations, each of which is some 0.4 MB of a session.
  preparedStatementCacheSize: 200,
  types,
})
