/** Creates, changes and deletes webhook endpoints (decisions I1, I2, I7). */
import { PgTypes } from "@effect/sql-pg"
import { Effect } from "effect"
import { SqlClient } from "effect/sql"
import { hasEffect } from "../../../machines/decide.ts"
import type { WebhookEndpointEvent } from "../../../machines/webhook_endpoint.ts"
import { newId } from "../../base/ids.ts"
import { invalid, noSuch, type Problem, problem } from "../../base/problem.ts"
import { DAY_MS, formatInstant } from "../../base/time.ts"
import { currentTime } from "../../base/wallClock.ts"
import { ofTenant, type Tenant, tenantOf } from "../../db/tenant.ts"
import { deleted } from "../../http/response.ts"
import { emailOwners } from "../../merchants/account/letters.ts"
import { LOCKS } from "../../postgres/advisoryLocks.ts"
import { commit } from "../../runtime/commit.ts"
import { advance, rowAfter } from "../../runtime/lifecycle.ts"
import { amended, created, transitioned } from "../../runtime/outcome.ts"
import { isEventPattern } from "../event/types.ts"
import type { EndpointCreate, EndpointPatch } from "./api.ts"
import { type EndpointRow, endpointLifecycle, endpoints } from "./endpoint.ts"
import { insertSecret, refuseMore } from "./secrets.ts"

/** The limit of endpoints per account and environment (decision I7). The table has as many slots. */
const MAX_ENDPOINTS = 16
/** How long a rolled secret still signs, together with its successor. */
const OVERLAP_MS = DAY_MS

/** Refuses a URL of the wrong form. `Sender` checks its address. */
export const checkUrl = (url: string, livemode: boolean): Effect.Effect<void, Problem> => {
  const parsed = new URL(url)
  if (livemode && parsed.protocol !== "https:")
    return Effect.fail(invalid("url", "url must begin with https:// in live."))
  if (parsed.username !== "" || parsed.password !== "")
    return Effect.fail(invalid("url", "url must contain no user name or password: deliveries are signed instead."))
  return parsed.hash === ""
    ? Effect.void
    : Effect.fail(invalid("url", "url must contain no fragment (#…): it would not be sent."))
}

/** Refuses invalid patterns of event types (decision I7). */
export const checkPatterns = (patterns: ReadonlyArray<string>, livemode: boolean): Effect.Effect<void, Problem> => {
  const invalidIndex = patterns.findIndex((pattern) => !isEventPattern(pattern, livemode))
  return invalidIndex === -1
    ? Effect.void
    : Effect.fail(
        invalid(
          `enabled_events[${invalidIndex}]`,
          `enabled_events[${invalidIndex}] must be *, a family such as charge.* or a type such as charge.failed, not ${JSON.stringify(patterns[invalidIndex])}.`,
        ),
      )
}

/** Takes a free slot for a new endpoint, under a lock of the account. Fails if there is none. */
const takeSlot = Effect.fnUntraced(function* (tenant: Tenant) {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SELECT pg_advisory_xact_lock(${LOCKS.endpointSlots}, hashtext(${tenant.account_id}))`
  const [free] = yield* sql<{ slot: number }>`
    SELECT free.slot FROM generate_series(1, ${MAX_ENDPOINTS}::integer) free (slot)
    WHERE NOT EXISTS (SELECT 1 FROM webhook_endpoint t WHERE (t.account_id, t.livemode, t.slot) = (${tenant.account_id}, ${tenant.livemode}, free.slot::smallint))
    ORDER BY free.slot LIMIT 1`
  if (free === undefined)
    return yield* problem(
      "webhook_endpoint_limit_reached",
      `There are ${MAX_ENDPOINTS} webhook endpoints already: delete one first.`,
    )
  return free.slot
})

/** Creates an endpoint from validated input. Returns its secret, which is never shown again. */
export const createEndpoint = Effect.fn("webhookEndpoint.create")(function* (tenant: Tenant, input: EndpointCreate) {
  const row: EndpointRow = {
    ...tenantOf(tenant),
    id: newId("webhook_endpoint"),
    slot: yield* takeSlot(tenant),
    url: input.url,
    description: input.description ?? null,
    enabled_events: input.enabled_events,
    version: 0,
    given_up_to: 0,
    runner: null,
    failures: 0,
    failing_since: null,
    created_at: currentTime(),
    ...endpoints.snapshotColumns("enabled", { reason: null }),
  }
  yield* commit([created(endpointLifecycle, undefined, row)])
  return { row, secret: yield* insertSecret(row) }
})

const toOwner = ({ url, livemode }: EndpointRow, since: number) => ({
  subject: "A webhook endpoint was disabled",
  body: `Your ${livemode ? "live" : "sandbox"} webhook endpoint ${url} has not accepted an event since ${formatInstant(since)}, so it was disabled. Fix it, then re-enable it. Missed events are not redelivered; GET /events lists them.`,
})

/** Reads the `seq` of the newest delivery of all accounts. */
const newestDelivery = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  const [row] = yield* sql<{ seq: number }>`
    SELECT CASE WHEN is_called THEN last_value ELSE 0 END AS seq FROM webhook_delivery_seq_seq`
  return row!.seq
})

/** Applies an event to a locked endpoint and commits it. `after` is the row with edits by the same request. */
export const transitionEndpoint = Effect.fnUntraced(function* (
  before: EndpointRow,
  event: WebhookEndpointEvent,
  after: EndpointRow = before,
) {
  const [transition] = advance(endpointLifecycle, [{ row: before, event }])
  if (transition === undefined) {
    yield* commit([amended(endpointLifecycle, before, after)])
    return after
  }
  const { decision } = transition
  const row: EndpointRow = {
    ...rowAfter(endpointLifecycle, transition, after),
    given_up_to: hasEffect(decision, "giveUpWaiting") ? yield* newestDelivery : before.given_up_to,
    failures: 0,
    failing_since: null,
  }
  yield* commit([transitioned(endpointLifecycle, transition, row)])
  if (hasEffect(decision, "emailOwner")) yield* emailOwners(row, toOwner(row, before.failing_since ?? event.at))
  return row
})

/** Changes an endpoint by a validated patch. */
export const updateEndpoint = Effect.fn("webhookEndpoint.update")(function* (
  tenant: Tenant,
  id: string,
  patch: EndpointPatch,
) {
  const before = yield* endpoints.lockOne(tenant, id)
  const after: EndpointRow = {
    ...before,
    url: patch.url ?? before.url,
    description: patch.description === undefined ? before.description : patch.description,
    enabled_events: patch.enabled_events ?? before.enabled_events,
  }
  if (patch.status === undefined) {
    yield* commit([amended(endpointLifecycle, before, after)])
    return after
  }
  const type = patch.status === "enabled" ? "enable" : "disable"
  return yield* transitionEndpoint(before, { type, at: currentTime() }, after)
})

/** Deletes an endpoint. The worker gives up its waiting deliveries. */
export const deleteEndpoint = Effect.fn("webhookEndpoint.delete")(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const gone = yield* sql`DELETE FROM webhook_endpoint WHERE ${ofTenant(sql, tenant)} AND id = ${id} RETURNING 1`
  if (gone.length === 0) return yield* noSuch("webhook endpoint", id)
  yield* sql`DELETE FROM lifecycle_journal WHERE ${ofTenant(sql, tenant)} AND actor_id = ${id}`
  return deleted("webhook_endpoint", { livemode: tenant.livemode, id })
})

/** Creates a new secret. The previous one still signs for a day. */
export const rollSecret = Effect.fn("webhookEndpoint.rollSecret")(function* (tenant: Tenant, id: string) {
  const sql = yield* SqlClient.SqlClient
  const row = yield* endpoints.lockOne(tenant, id)
  yield* refuseMore(row)
  const expiresAt = currentTime() + OVERLAP_MS
  yield* sql`
    UPDATE webhook_secret SET expires_at = ${PgTypes.timestamptz(expiresAt)}
    WHERE ${ofTenant(sql, tenant)} AND webhook_endpoint_id = ${id} AND expires_at IS NULL`
  return { row, secret: yield* insertSecret(row), previousExpiresAt: expiresAt }
})
