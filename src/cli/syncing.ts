/** The work of `rail sync`: asks rails now about every charge that is not settled (decision P14), while servers may run. */
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import { serviceSettings, servicesLayer } from "../app/services.ts"
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
/** Without an answer for so long after the limit of a call, the command stops: the rail throttles us, and the servers will ask it later. */
const GIVE_UP_MS = MINUTE_MS

interface ChargeFilter {
  readonly accountId: string | undefined
  /** The earliest creation of a charge (ms since the epoch). */
  readonly since: number | undefined
}

interface Unsettled extends Ref {
  readonly state: string
}

const readUnsettled = Effect.fnUntraced(function* ({ accountId, since }: ChargeFilter) {
  const sql = yield* SqlClient.SqlClient
  return yield* sql<Unsettled>`
    SELECT account_id, livemode, id, state FROM charge
    WHERE status = 'pending' AND livemode AND rail = ANY(${OUTSIDE_RAILS}::text[]) AND ${staysHere(sql, "charge")}
      AND ${accountId === undefined ? sql`true` : sql`account_id = ${accountId}`}
      AND ${since === undefined ? sql`true` : sql`created_at >= ${formatInstant(since)}::timestamptz`}
    ORDER BY account_id, id`
})

/** Counts the questions without an answer. */
const countOpen = Effect.fnUntraced(function* (asked: ReadonlyArray<Ref>) {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ n: number }>`
    SELECT count(*) AS n FROM ${rowsAsTable(asked, REF_COLUMNS)} r
    JOIN rail_call c ON (c.account_id, c.livemode, c.id) = (r.account_id, r.livemode, r.id) AND c.kind = 'ask'`
  return row!.n
})

/** Waits for the answers while they keep arriving. */
const waitForAnswers = Effect.fnUntraced(function* (asked: ReadonlyArray<Ref>, timeoutMs: number) {
  let open = asked.length
  let lastAnswerAt = performance.now()
  while (open > 0 && performance.now() - lastAnswerAt < timeoutMs) {
    yield* Effect.sleep(LOOK_AGAIN_MS)
    const left = yield* countOpen(asked)
    if (left < open) lastAnswerAt = performance.now()
    open = left
  }
})

/** Counts the charges that are settled, pending, and exceptions. */
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

const askAll = Effect.fnUntraced(function* (filter: ChargeFilter, timeoutMs: number) {
  const sql = yield* SqlClient.SqlClient
  if (filter.accountId !== undefined)
    yield* Effect.flatMap(findAccount(filter.accountId), found("account", filter.accountId))
  const unsettled = yield* readUnsettled(filter)
  // A charge that waits to be sent, or is being sent, is unknown to the rail.
  const asked = unsettled.filter(({ state }) => state !== "pending.sending").map(refOf)
  for (let from = 0; from < asked.length; from += MAX_BATCH)
    yield* sql.withTransaction(queueStatusChecks(asked.slice(from, from + MAX_BATCH)))
  if (asked.length > 0) {
    yield* railCallWorker<QuestionServices>([railQuestions])
    yield* waitForAnswers(asked, timeoutMs)
  }
  return { asked: asked.length, ...(yield* countOutcomes(unsettled)) }
})

/** Asks about all unsettled charges and returns the counts: `{asked, settled, pending, exceptions}`. */
export const sync = Effect.fnUntraced(function* (filter: ChargeFilter) {
  const { config, url } = yield* Installation
  const services = servicesLayer(url, yield* encryptionKeys(config), serviceSettings(config)).pipe(
    Layer.provideMerge(Rails.layer(config.rails)),
  )
  return yield* Effect.scoped(askAll(filter, GIVE_UP_MS + config.rails.timeoutMs)).pipe(Effect.provide(services))
})
