/** What `rail sync` does: rails are asked now about every charge that is not settled (decision P14), beside running servers. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { houseRules, servicesLayer } from "../app/services.ts"
import { formatInstant, MINUTE_MS } from "../base/time.ts"
import { type QuestionServices, railQuestions } from "../billing/payments/railCharges.ts"
import { queueStatusChecks } from "../billing/payments/statusChecks.ts"
import { REF_COLUMNS, rowsAsTable } from "../db/rows.ts"
import { type Ref, refOf, staysHere } from "../db/tenant.ts"
import { findAccount } from "../merchants/account/accounts.ts"
import { OUTSIDE_RAILS } from "../rails/rail/Rail.ts"
import { Rails } from "../rails/rail/Rails.ts"
import { railCallWorker } from "../rails/rail_call/worker.ts"
import { encryptionKeys } from "../security/secret/encryptionKeys.ts"
import { found } from "./failures.ts"
import { Installation } from "./Installation.ts"

const MAX_BATCH = 500
const LOOK_AGAIN_MS = 100
/** Nothing heard for so long beyond what one call may take: the rail holds us back, and is asked by the servers in time. */
const GIVE_UP_MS = MINUTE_MS

interface Wanted {
  readonly accountId: string | undefined
  /** When the charge was made, at the earliest (ms since the epoch). */
  readonly since: number | undefined
}

interface Unsettled extends Ref {
  readonly state: string
}

const readUnsettled = Effect.fnUntraced(function* ({ accountId, since }: Wanted) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Unsettled>`
    SELECT account_id, livemode, id, state FROM charge
    WHERE status = 'pending' AND livemode AND rail = ANY(${OUTSIDE_RAILS}::text[]) AND ${staysHere(sql, "charge")}
      AND ${accountId === undefined ? sql`true` : sql`account_id = ${accountId}`}
      AND ${since === undefined ? sql`true` : sql`created_at >= ${formatInstant(since)}::timestamptz`}
    ORDER BY account_id, id`
})

/** How many of these questions have no answer yet. */
const countOpen = Effect.fnUntraced(function* (asked: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number }>`
    SELECT count(*) AS n FROM ${rowsAsTable(asked, REF_COLUMNS)} r
    JOIN rail_call c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.kind = 'ask'`
  return row!.n
})

/** Waits for the answers, for as long as some come. */
const waitForAnswers = Effect.fnUntraced(function* (asked: ReadonlyArray<Ref>, patienceMs: number) {
  let open = asked.length
  let heardAt = performance.now()
  while (open > 0 && performance.now() - heardAt < patienceMs) {
    yield* Effect.sleep(LOOK_AGAIN_MS)
    const left = yield* countOpen(asked)
    if (left < open) heardAt = performance.now()
    open = left
  }
})

/** How the charges stand that were not settled, and how many of them something is wrong about. */
const countOutcomes = Effect.fnUntraced(function* (of: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ settled: number; pending: number; exceptions: number }>`
    SELECT count(*) FILTER (WHERE c.status <> 'pending') AS settled, count(*) FILTER (WHERE c.status = 'pending') AS pending,
      count(*) FILTER (WHERE EXISTS (
        SELECT 1 FROM finance.reconciliation_exceptions e WHERE (e.account_id, e.livemode, e.charge) = (c.account_id, c.livemode, c.id)
      )) AS exceptions
    FROM ${rowsAsTable(of, REF_COLUMNS)} r JOIN charge c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id)`
  return row!
})

const askAll = Effect.fnUntraced(function* (wanted: Wanted, patienceMs: number) {
  const sql = yield* SqlClient.SqlClient
  if (wanted.accountId !== undefined)
    yield* Effect.flatMap(findAccount(wanted.accountId), found("account", wanted.accountId))
  const unsettled = yield* readUnsettled(wanted)
  // What waits for its turn, or is being sent, has nothing to be asked about yet.
  const asked = unsettled.filter(({ state }) => state !== "pending.sending").map(refOf)
  for (let from = 0; from < asked.length; from += MAX_BATCH)
    yield* sql.withTransaction(queueStatusChecks(asked.slice(from, from + MAX_BATCH)))
  if (asked.length > 0) {
    yield* railCallWorker<QuestionServices>([railQuestions])
    yield* waitForAnswers(asked, patienceMs)
  }
  return { asked: asked.length, ...(yield* countOutcomes(unsettled)) }
})

/** Asks about all of them and returns how that went: `{asked, settled, pending, exceptions}`. */
export const sync = Effect.fnUntraced(function* (wanted: Wanted) {
  const { config, url } = yield* Installation
  const services = servicesLayer(url, yield* encryptionKeys(config), houseRules(config)).pipe(
    Layer.provideMerge(Rails.layer(config.rails)),
  )
  return yield* Effect.scoped(askAll(wanted, GIVE_UP_MS + config.rails.timeoutMs)).pipe(Effect.provide(services))
})
